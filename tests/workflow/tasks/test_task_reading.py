"""Problems of a task file are reported together with their lines, before it runs."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from task_examples import HERE, loaded

from agentnb import Workflow
from agentnb.errors import SettingsError, WorkflowProblems
from agentnb.workflow.files.workflow_reader import read_workflow
from agentnb.workflow.tasks.task_file import is_task_file

TASK = "stage:\n  main:\n    fetch:\n      action: tides:fetch\n"
AGENTLY = """
init: {results: []}
stage:
  loop:
    plan:
      action: llm/core:plan
      input:
        query: ${query}
        tools: ${tools}
        results: ${results}
        PROMPT
      post: {plan: "${plan}", answer: "${answer}", elicitation: "${plan.elicitation}", results: "${results}"}
    exec:
      action: llm/exec:run_plan
      when: len(plan.steps) > 0
      input: {plan: "${plan}", results: "${results}", transcript: "${transcript}"}
      post: {results: "${results}", elicitation: "${elicitation}"}
      goto: {task: loop}
"""
REST = "    after:\n      action: tides:report\n"


def problems_of(text: str, **settings: bool) -> list[tuple[int, str]]:
    with pytest.raises(WorkflowProblems) as caught:
        read_workflow(text, **settings)
    return [(problem.line, f"{problem.message} {getattr(problem, 'hint', '')}") for problem in caught.value.problems]


@pytest.mark.req("R1.2", "R1.8", "R1.9")
def test_documented_problems_are_reported(subtests: pytest.Subtests) -> None:
    cases = [case for case in loaded("problems.yaml") if "text" in case]
    assert len(cases) == 2
    for case in cases:
        with subtests.test(case["name"]):
            problems = problems_of(case["text"])
            assert [line for line, _ in problems] == [one["line"] for one in case["problems"]]
            for (_, text), expected in zip(problems, case["problems"], strict=True):
                assert all(word in text for word in expected["says"]), text


def test_undeclared_input_is_refused_with_a_suggestion() -> None:
    case = next(case for case in loaded("problems.yaml") if "inputs" in case)
    with pytest.raises(SettingsError) as caught:
        Workflow.from_yaml(HERE / case["file"]).orchestration(inputs=case["inputs"], actions={"llm/core:plan": None})
    assert all(word in str(caught.value) for word in case["problems"][0]["says"])


@pytest.mark.req("R1.2", "R1.8", "R1.10")
def test_unusable_tasks_are_problems_with_their_line(subtests: pytest.Subtests) -> None:
    cases = {
        "an unknown key of the file": (f"steps: []\n{TASK}", 1, ["steps"]),
        "the result of the other form": (f"output: a\n{TASK}", 1, ["output", "the variable answer"]),
        "both names of the stage": (f"{TASK}pipeline: {{}}\n", 5, ["pipeline", "Keep one"]),
        "no tasks": ("stage: {}\n", 1, ["no tasks"]),
        "an empty block": ("stage:\n  main: {}\n", 2, ["neither a task nor a block"]),
        "a task that is a text": ("stage:\n  main: tides:fetch\n", 2, ["mapping", "tides:fetch"]),
        "a name twice": (f"{TASK}    main:\n      action: a:b\n", 5, ["used twice", "line 2"]),
        "a name of other letters": ("stage:\n  'a b':\n    action: a:b\n", 2, ["a b"]),
        "an invalid action": ("stage:\n  one:\n    action: 'a b'\n", 3, ["service:method"]),
        "a variable of other letters": (f"init: {{a-b: 1}}\n{TASK}", 1, ["a-b"]),
        "post of a bad name": (f"{TASK}      post: {{result: 1}}\n", 5, ["result"]),
        "an invalid expression": (f"{TASK}      input: {{a: '${{1 +}}'}}\n", 5, ["1 +"]),
        "an expression that does not end": (f"{TASK}      input: {{a: '${{b'}}\n", 5, ["is not closed"]),
        "a name that no variable has": (
            f"init: {{station: 1}}\n{TASK}      input: {{a: '${{statoin}}'}}\n",
            6,
            ["statoin", "station"],
        ),
        "a dollar name alone": (f"{TASK}      input: {{a: $statoin}}\n", 5, ["$statoin", "unknown variable statoin"]),
        "an init of what is not there": (f"init: {{a: $iteration}}\n{TASK}", 1, ["unknown variable iteration"]),
        "a function of another program": (f"{TASK}      input: {{a: $path(x/y.vm)}}\n", 5, ["cannot be called", "len(x)"]),
        "the result of a task by its name": (
            f"{TASK}      post: {{a: 1}}\n{REST}      when: fetch.x\n",
            8,
            ["store its result"],
        ),
        "a list of ways of viant/fluxor": ("stage:\n  a: {action: a:b, transition: []}\n", 2, ["transition", "Write goto"]),
        "ways of viant/fluxor alone": ("pipeline:\n  a:\n    transition:\n      - {when: $i < 3}\n", 3, ["Write goto"]),
        "a template of viant/fluxor": ("stage:\n  a: {action: a:b, template: {}}\n", 2, ["template", "Write emit"]),
        "a template of viant/fluxor alone": (
            "stage:\n  a:\n    template:\n      selector: [{name: s, value: $results}]\n      task: {action: a:b}\n",
            4,
            ["a/template/selector", "Write emit"],
        ),
        "a prompt of viant/agently": (
            AGENTLY.replace("PROMPT", "promptURI: $path(plan.vm)"),
            11,
            ["$path", "cannot be called"],
        ),
        "an input of viant/agently": (AGENTLY.replace("PROMPT", "extra: ${systemContext}"), 11, ["systemContext", "context"]),
        "two names of the stage": (f"{TASK}tasks: {{}}\n", 5, ["tasks", "Keep one"]),
        "an item outside of its emit": (f"{TASK}      input: {{a: '${{item}}'}}\n", 5, ["item"]),
        "step outside of onError": (f"{TASK}      input: {{a: '${{step.name}}'}}\n", 5, ["step"]),
        "a goto that is a text": (f"{TASK}      goto: fetch\n", 5, ["goto: {task: NAME}"]),
        "a goto without a task": (f"{TASK}      goto: {{when: true}}\n", 5, ["the task is missing"]),
        "input without an action": ("stage:\n  main:\n    one:\n      input: {a: 1}\n", 4, ["input needs an action", "post"]),
        "onError without an action": (f"{TASK}      onError: {{input: {{}}}}\n", 5, ["action is missing"]),
        "onError with post": (f"{TASK}      onError: {{action: a:b, post: {{}}}}\n", 5, ["post"]),
        "dependsOn something unknown": (f"{TASK}{REST}      dependsOn: fetsch\n", 6, ["fetsch", "fetch"]),
        "dependsOn a later task": (f"{TASK}      dependsOn: [after]\n{REST}", 4, ["after", "does not come before"]),
        "dependsOn the block around it": (f"{TASK}      dependsOn: main\n", 4, ["main", "does not come before"]),
        "a goto in the background": (f"{TASK}      async: true\n      goto: {{task: main}}\n", 6, ["background"]),
        "a retry without a number": (f"{TASK}      retry: {{type: fixed}}\n", 5, ["maxRetries"]),
        "a retry of another type": (f"{TASK}      retry: {{type: linear, maxRetries: 1}}\n", 5, ["exponential"]),
        "an invalid duration": (f"{TASK}      retry: {{maxRetries: 1, delay: soon}}\n", 5, ["soon", "5m"]),
        "await beside an action": (f"{TASK}      await: true\n", 4, ["action", "await"]),
        "await of what is not there": ("stage:\n  one: {await: {on: [two]}}\n", 2, ["two", "background"]),
        "await in another mode": ("stage:\n  one: {await: {mode: any}}\n", 2, ["anyError"]),
        "emit without a list": ("stage:\n  one: {emit: {as: x, task: {two: {action: a:b}}}}\n", 2, ["forEach"]),
        "emit of two tasks": (
            "stage:\n  one: {emit: {forEach: [], as: x, task: {two: {action: a:b}, three: {action: a:b}}}}\n",
            2,
            ["exactly one"],
        ),
        "emit of a task with post": (
            "stage:\n  one: {emit: {forEach: [], as: x, task: {two: {action: a:b, post: {c: 1}}}}}\n",
            2,
            ["post", "around emit"],
        ),
        "emit beside an action": (
            "stage:\n  one: {action: a:b, emit: {forEach: [], as: x, task: {two: {action: a:b}}}}\n",
            2,
            ["action"],
        ),
        "limits that are none": (f"limits: {{max_seconds: soon}}\n{TASK}", 1, ["max_seconds"]),
        "loops below one": (f"max_loop_iterations: 0\n{TASK}", 1, ["max_loop_iterations"]),
    }
    for name, (text, line, says) in cases.items():
        with subtests.test(name):
            problems = problems_of(text)
            assert any(at == line and all(word in message for word in says) for at, message in problems), problems
    assert [task.path for task in read_workflow(AGENTLY.replace("PROMPT", "model: ${model}")).tasks] == [
        "loop/plan",
        "loop/exec",
    ]


@pytest.mark.req("R1.10")
def test_durations_accept_units(subtests: pytest.Subtests) -> None:
    cases = {
        "250ms": 0.25,
        "1s": 1,
        "1.5s": 1.5,
        "5m": 300,
        "2h": 7200,
        "3": 3,
        "0.5": 0.5,
        "'4'": None,
        "1d": None,
        "-1s": None,
    }
    for written, seconds in cases.items():
        with subtests.test(written):
            text = f"{TASK}      retry: {{maxRetries: 1, delay: {written}}}\n"
            if seconds is None:
                assert [line for line, _ in problems_of(text)] == [5]
            else:
                assert read_workflow(text).tasks[0].retry.initial_delay_seconds == seconds


def test_all_problems_are_reported_at_once() -> None:
    text = f"{TASK}      inputs: 1\n      when: nothing\n      goto: {{task: nowhere}}\n      retry: {{type: odd}}\n"
    assert [line for line, _ in problems_of(text)] == [5, 6, 7, 8, 8]


def test_task_files_are_recognized_by_their_top_level_keys(subtests: pytest.Subtests) -> None:
    cases = {
        TASK: True,
        TASK.replace("stage", "pipeline"): True,
        TASK.replace("stage", "tasks"): True,
        "tasks: [{prompt: a}]\nvariants: {}\n": False,
        '{"stage": {"one": {"action": "a:b"}}}': True,
        '"stage":\n  one: {action: a:b}\n': True,
        "workflow:\n  - {type: agent, name: a}\n": False,
        "workflow: []\nstage: {}\n": False,
        "init: {}\n": False,
        "agents:\n  stage: {}\n": False,
    }
    for text, is_one in cases.items():
        with subtests.test(text):
            assert is_task_file(text) is is_one


@pytest.mark.req("R1.9")
def test_template_in_workflow_syntax_stays_text_with_a_warning() -> None:
    spec = read_workflow(f"{TASK}      input: {{a: '{{{{ $steps.one.output }}}}'}}\n")
    assert spec.tasks[0].does.args == {"a": "{{ $steps.one.output }}"}
    assert [(warning.line, warning.code, "use ${...}" in warning.hint) for warning in spec.warnings] == [
        (5, "W_OTHER_FORM", True)
    ]
    bare = read_workflow(f"{TASK}      input: {{a: 'at $statoin'}}\n")
    assert [(warning.line, warning.code, "unknown variable statoin" in warning.message) for warning in bare.warnings] == [
        (5, "W_UNKNOWN_NAME", True)
    ]
    own = TASK + """      input: {a: '${"{{"} station }}'}\n"""
    assert read_workflow(own).warnings == ()
    assert [line for line, _ in problems_of(f"{TASK}      input: {{a: '{{{{ station }}}}'}}\n", strict=True)] == [5]


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["a:b", "${x}", "${", "one", "all", "1s", "x > 1"]),
        lambda inner: (
            st.lists(inner, max_size=2)
            | st.dictionaries(
                st.sampled_from(
                    [
                        "one",
                        "two",
                        "vars",
                        "init",
                        "stage",
                        "pipeline",
                        "action",
                        "input",
                        "when",
                        "post",
                        "goto",
                        "task",
                        "emit",
                        "forEach",
                        "as",
                        "await",
                        "mode",
                        "on",
                        "retry",
                        "maxRetries",
                        "delay",
                        "onError",
                        "dependsOn",
                        "async",
                    ]
                ),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    )
)
@examples(150)
def test_any_task_file_text_is_read_or_refused(data: object) -> None:
    text = json.dumps({"stage": data})
    try:
        spec = read_workflow(text)
    except WorkflowProblems as error:
        assert error.problems
    else:
        assert spec.tasks
