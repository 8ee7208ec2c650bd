"""Problems of a workflow file are reported together with their lines, before it runs."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from asserted_sentences import Snapshot
from property_settings import size

from agentnb import Agent, Workflow
from agentnb.errors import MAX_PROBLEMS, WorkflowProblems
from agentnb.models import ScriptedModel
from agentnb.workflow.files.workflow_reader import read_workflow
from agentnb.workflow.form import step_ids
from agentnb.workflow.form.problems import Problem, Problems
from agentnb.workflow.form.workflow_spec import AgentStep, GotoStep, WorkflowSpec
from agentnb.workflow.form.yaml_source import plain, read_yaml

EXAMPLES = Path(__file__).parent / "examples"
AGENTS = """agents:
  writer: {instruction: Write.}
  judge: {structured_output: {type: object, properties: {ok: {type: boolean}, notes: {type: array, items: {type: object,
    properties: {where: {type: string}}}}}}}
workflow:
"""
FIRST = AGENTS.count("\n") + 1
"""The line of the first step below."""


def found_in(text: str, **options: Any) -> list[Problem]:
    """Return the problems of a text, or else its warnings."""
    try:
        return list(read_workflow(text, "w.yaml", **options).warnings)
    except WorkflowProblems as error:
        return list(error.problems)  # type: ignore[arg-type]


def cases() -> list[dict[str, Any]]:
    node = read_yaml((EXAMPLES / "problems.yaml").read_text(encoding="utf-8"), Problems())
    assert node is not None
    return list(plain(node))


@pytest.mark.req("R4.2", "R4.4", "R4.5")
def test_example_problems_are_found_with_their_lines(subtests: pytest.Subtests) -> None:
    assert len(cases()) == 7
    for case in cases():
        with subtests.test(case["name"]):
            problems = found_in(case["text"])
            expected = case.get("problems") or case["warnings"]
            assert [problem.line for problem in problems] == [one["line"] for one in expected]
            for one, wanted in zip(problems, expected, strict=True):
                assert [word for word in wanted["says"] if word not in str(one)] == []


@pytest.mark.req("R4.4", "K4.1")
def test_warning_is_a_problem_if_strict() -> None:
    free_text = next(case["text"] for case in cases() if "warnings" in case)
    deferred = (EXAMPLES / "qa-loop.yaml").read_text(encoding="utf-8")
    for text, code in [(free_text, "W_UNDECLARED_PATH"), (deferred, "W_DEFERRED_CONDITION")]:
        assert [warning.code for warning in read_workflow(text).warnings] == [code]
        with pytest.raises(WorkflowProblems, match=code):
            read_workflow(text, strict=True)


def test_error_lists_each_problem_with_file_and_line(snapshot: Snapshot) -> None:
    with pytest.raises(WorkflowProblems) as caught:
        read_workflow("workflow:\n  - {type: agent}\n  - {type: condition}\n", "my flow.yaml")
    assert str(caught.value).splitlines() == snapshot
    assert [(problem.line, problem.message) for problem in caught.value.problems] == [
        (2, "workflow step[0]: agent step requires name"),
        (3, "workflow step[1]: condition step requires condition"),
    ]
    assert pickle.loads(pickle.dumps(caught.value)).problems == caught.value.problems
    with pytest.raises(WorkflowProblems, match=r"^line 1: workflow: no steps configured"):
        read_workflow("workflow: []")


def test_first_fifty_problems_are_listed_without_duplicates() -> None:
    with pytest.raises(WorkflowProblems) as caught:
        read_workflow("workflow:\n" + "  - {type: nothing}\n" * 60)
    shown = str(caught.value).splitlines()
    assert (len(shown), shown[0][:7], shown[-1], len(caught.value.problems)) == (51, "line 2:", "... and 10 more", 60)
    twice = '  - {type: agent, name: writer, prompt: "{{ $steps.gone.output }} or {{ $steps.gone.output }}"}'
    assert len(found_in(AGENTS + twice)) == 1


@pytest.mark.req("R4.4")
def test_unknown_name_in_an_instruction_is_found_before_anything_runs() -> None:
    text = (EXAMPLES / "templates.yaml").read_text(encoding="utf-8")
    (problem,) = found_in(
        text.replace("{{ $steps.par_gen.outputs.gen_1.output }}", "{{ $steps.par_gen.outputs.gen_9.output }}")
    )
    assert problem.line == 18
    assert [word for word in ("gen_9", "gen_1", "gen_2", 'agent "editor"') if word not in str(problem)] == []


def test_problem_in_multiline_text_reports_its_own_line() -> None:
    text = f"{AGENTS}  - type: agent\n    name: writer\n    prompt: |\n      One\n      two {{{{ $steps.gone.output }}}}\n"
    assert [problem.line for problem in found_in(text)] == [FIRST + 4]


STEPS: dict[str, tuple[str, int, list[str]]] = {
    "a text with a comma in braces": (
        "  - {type: agent, name: writer, prompt: If it is wrong, mend that.}",
        0,
        ['unknown key "mend that."', "quotation marks"],
    ),
    "a step that is no mapping": ("  - writer", 0, ["must be a mapping", "type: agent"]),
    "no type": ("  - {name: writer}", 0, ["requires type", "agent, condition"]),
    "an end as a branch": (
        "  - {type: condition, condition: 'true', true: {end: true}}",
        0,
        ["requires type", "{goto: end}"],
    ),
    "a type like another": ("  - {type: agnt, name: writer}", 0, ['unknown type "agnt"', "agent?"]),
    "a key of another kind": ("  - {type: agent, name: writer, args: {}}", 0, ['unknown key "args"', "tool"]),
    "no goto": ("  - {type: goto}\n  - {type: agent, name: writer}", 0, ["goto step requires goto"]),
    "no tool": ("  - {type: tool}", 0, ["tool step requires name"]),
    "no question": ("  - {type: human, confirm: true}", 0, ["human step requires ask"]),
    "two ways to answer": (
        "  - {type: human, ask: Well?, confirm: true, choices: [a]}",
        0,
        ["only one of", "choices", "confirm"],
    ),
    "nothing to choose": ("  - {type: human, ask: Well?, choices: []}", 0, ["choices is empty"]),
    "an invalid form": ("  - {type: human, ask: Well?, form: {type: nothing}}", 0, ["form", "not a JSON Schema"]),
    "no list": ("  - {type: map, step: {type: agent, name: writer}}", 0, ["map step requires over"]),
    "no step": ("  - {type: map, over: [1]}", 0, ["map step requires step"]),
    "a list that is a text": (
        "  - {type: map, over: abc, step: {type: agent, name: writer}}",
        0,
        ["over must be a list or a template"],
    ),
    "no file": ("  - {type: workflow}", 0, ["workflow step requires file"]),
    "no children": ("  - {type: parallel, steps: []}", 0, ["parallel step requires steps"]),
    "a branch that is a name": (
        "  - type: condition\n    condition: 'true'\n    true: writer",
        2,
        ["true must be a step", "{goto: writer}"],
    ),
    "a condition without a template": ("  - {type: condition, condition: $steps.a.output}", 0, ["contains no template"]),
    "a condition that continues with what is neither true nor false": (
        "  - {type: condition, condition: 'true', on_error: {continue: 'no'}}",
        0,
        ["on_error: a condition can continue only with true or false"],
    ),
    "a blank condition": ("  - {type: condition, condition: ' '}", 0, ["condition is blank"]),
    "an invalid id": ("  - {id: 1st, type: agent, name: writer}", 0, ['"1st" is not a valid id']),
    "the id of the end": ("  - {id: end, type: agent, name: writer}", 0, ['"end" is not a valid id']),
    "an id of a child": (
        "  - {id: a, type: agent, name: writer}\n  - {type: parallel, steps: [{id: a, type: agent, name: writer}]}",
        1,
        ['the id "a"', f"line {FIRST}"],
    ),
    "no time": ("  - {type: agent, name: writer, timeout: 0}", 0, ["timeout must be a number above 0"]),
    "an invalid flag": ("  - {type: agent, name: writer, end: yes}", 0, ["end must be true or false", "yes"]),
    "too many at once": (
        "  - {type: parallel, max_concurrency: 0, steps: [{type: agent, name: writer}]}",
        0,
        ["max_concurrency"],
    ),
    "an invalid context": ("  - {type: agent, name: writer, context: some}", 0, ["all, none or a list", "[some]"]),
    "a context of no step": ("  - {type: agent, name: writer, context: [wrter]}", 0, ['no step "wrter"', "writer"]),
    "an invalid error": ("  - {type: agent, name: writer, on_error: skip}", 0, ["on_error must be fail"]),
    "an error that goes nowhere": ("  - {type: agent, name: writer, on_error: {goto: x}}", 0, ['goto "x"', "writer"]),
    "an invalid retry": ("  - {type: agent, name: writer, retry: 3}", 0, ["retry must be a mapping"]),
    "an unknown key of retry": ("  - {type: agent, name: writer, retry: {attempts: 3}}", 0, ['"attempts"', "max_attempts"]),
    "an invalid pattern": ("  - {type: agent, name: writer, retry: {on: '/(/'}}", 0, ["not a regular expression"]),
    "what is never retried": ("  - {type: agent, name: writer, retry: {on: budget}}", 0, ['"budget" is never retried']),
    "retries of a goto": ("  - {goto: end, retry: {max_attempts: 1}}", 0, ['unknown key "retry"']),
    "an invalid place": ("  - {type: agent, name: writer}\n  - goto: 2", 1, ["numbered from 0 to 1"]),
    "a place before the first": ("  - {type: agent, name: writer}\n  - goto: -1", 1, ["numbered from 0 to 1"]),
    "a goto into a block": (
        "  - {id: par, type: parallel, steps: [{id: a, type: agent, name: writer}]}\n  - goto: a",
        1,
        ['goto "a"', "inside par", "Go to par"],
    ),
    "a goto into a branch": (
        "  - {id: c, type: condition, condition: 'true', true: {id: a, type: agent, name: writer}}\n  - goto: a",
        1,
        ['goto "a"', "inside c", "Go to c"],
    ),
    "a goto out of a block": (
        "  - {id: par, type: parallel, steps: [{goto: end}]}",
        0,
        ["cannot leave the parallel block par"],
    ),
    "a goto out of a branch in a block": (
        "  - {id: par, type: parallel, steps: [{type: condition, condition: 'true', true: {goto: par}}]}",
        0,
        ["cannot leave the parallel block par"],
    ),
    "a goto on an error in a block": (
        "  - {id: par, type: parallel, steps: [{type: agent, name: writer, on_error: {goto: par}}]}",
        0,
        ["cannot leave the parallel block par"],
    ),
    "an end in a map": ("  - {id: m, type: map, over: [1], step: {type: agent, name: writer, end: true}}", 0, ["map block m"]),
    "a step behind the end": (
        "  - {type: agent, name: writer, end: true}\n  - {id: b, type: agent, name: writer}",
        1,
        ["no path leads to the step b"],
    ),
    "a step behind branches that both leave": (
        "  - {type: condition, condition: 'true', true: {goto: end}, false: {goto: 0}}\n  - {id: b, type: agent, name: writer}",
        1,
        ["no path leads to the step b"],
    ),
    "a step behind a goto in a branch": (
        "  - type: condition\n    condition: 'true'\n    true: [{goto: end}, {id: b, type: agent, name: writer}]",
        2,
        ["no path leads to the step b"],
    ),
}


@pytest.mark.req("R4.2", "R4.4")
def test_unusable_steps_are_problems(subtests: pytest.Subtests) -> None:
    for name, (steps, line, words) in STEPS.items():
        with subtests.test(name):
            problems = found_in(AGENTS + steps)
            assert [problem.line for problem in problems] == [FIRST + line], list(map(str, problems))
            assert [word for word in words if word not in str(problems[0])] == [], str(problems[0])


BLOCKS = """  - {id: qa, type: agent, name: judge}
  - {id: check, type: condition, condition: "{{ $steps.qa.output.ok }}", true: {id: fix, type: agent, name: writer}}
  - id: par
    type: parallel
    steps:
      - {id: one, type: agent, name: writer}
      - {id: inner, type: parallel, steps: [{id: two, type: agent, name: judge}]}
      - {id: maybe, type: condition, condition: "{{ $steps.fix.output }}", true: [{id: three, type: agent, name: writer}]}
  - {id: each, type: map, over: "{{ $steps.qa.output.notes }}", step: {id: item, type: agent, name: judge, prompt: "{{$item}}"}}
  - {id: hop, goto: last}
  - {id: last, type: agent, name: writer, prompt: "PROMPT"}
"""
LAST = FIRST + BLOCKS.count("\n") - 1


def test_valid_templates_cause_no_problems(subtests: pytest.Subtests) -> None:
    for path in [
        "$steps.qa.output",
        "$steps.qa.output.notes[0].where",
        "$steps.qa.runs[-1].output.anything",
        "$steps.fix.output",
        "$steps.check.output",
        "$steps.par.outputs.one.output",
        "$steps.par.one.output",
        "$steps.par.outputs[-1].output",
        "$steps.par.outputs[$index2].output".replace("$index2", "$steps.qa.output.notes[0].where"),
        "$steps.par.outputs.inner.two.output.ok",
        "$steps.par.outputs.three.output",
        "len($steps.par.order) > 2 && $steps.par.attempts == 1",
        "$steps.each.output[0].anything",
        "$prompt",
        "$inputs.anything",
    ]:
        with subtests.test(path):
            assert found_in(AGENTS + BLOCKS.replace("PROMPT", f"{{{{ {path} }}}}"), is_logged=True) == []


def test_child_step_name_does_not_hide_attributes_of_its_block() -> None:
    child = "{{id: {}, type: agent, name: writer}}".format
    block = f"  - {{id: par, type: parallel, steps: [{child('attempts')}, {child('order')}]}}"
    read = '  - {type: agent, name: writer, prompt: "{{ $steps.par.attempts }}{{ $steps.par.order[0] }}PATH"}'
    assert found_in(f"{AGENTS}{block}\n{read.replace('PATH', '{{ $steps.par.outputs.order.output }}')}\n") == []
    (problem,) = found_in(f"{AGENTS}{block}\n{read.replace('PATH', '{{ $steps.par.outputs.order }}')}\n")
    assert "is a step, not a value" in problem.message


def test_unresolved_templates_are_problems(subtests: pytest.Subtests) -> None:
    wrong = {
        "$steps.qb.output": ["no step qb", "qa"],
        "$steps.qa": ["Write $steps.qa.output"],
        "$steps.qa.ok": ["$steps.qa has no ok", "$steps.qa.output.ok"],
        "$steps.check.output.ok": ["true or false"],
        "$steps.one.output": ["in the parallel block par", "$steps.par.outputs.one.output"],
        "$steps.two.output": ["in the parallel block par", "$steps.par.outputs.inner.outputs.two.output"],
        "$steps.item.output": ["in the map each", "$steps.each.output[0]"],
        "$steps.hop.output": ["hop is a goto"],
        "$steps.par": ["$steps.par.outputs"],
        "$steps.par.output": ["$steps.par has no output", "outputs"],
        "$steps.par.outputs.on.output": ["no on", "one"],
        "$steps.par.outputs[4].output": ["4 outputs"],
        "$steps.par.outputs.inner.twu.output": ["no twu", "two"],
        "$item": ["Only the step of a map"],
        "$prompt.x": ["$prompt is a string"],
        "$steps.qa.output +": ["incomplete"],
        "qa.output": ["there is no qa"],
    }
    for path, words in wrong.items():
        with subtests.test(path):
            problems = found_in(AGENTS + BLOCKS.replace("PROMPT", f"{{{{ {path} }}}}"))
            assert [problem.line for problem in problems] == [LAST]
            assert [word for word in (*words, f"{{{{ {path}") if word not in str(problems[0])] == [], str(problems[0])


def test_steps_see_their_own_branch_but_not_parallel_siblings() -> None:
    block = "  - {{id: par, type: parallel, steps: [{{id: one, type: agent, name: writer}}, {}]}}\n"
    (problem,) = found_in(AGENTS + block.format('{id: two, type: agent, name: writer, prompt: "{{ $steps.one.output }}"}'))
    assert "runs at the same time" in str(problem)
    branch = '[{id: a, type: agent, name: writer}, {id: b, type: agent, name: writer, prompt: "{{ $steps.a.output }}"}]'
    assert found_in(AGENTS + block.format(f"{{type: condition, condition: 'true', true: {branch}}}")) == []
    waiting = '  - {id: par, type: parallel, steps: [{type: condition, condition: "{{ $steps.one.output }}"}, ONE]}\n'
    one = "{id: one, type: agent, name: writer}"
    (problem,) = found_in(AGENTS + waiting.replace("ONE", one), strict=True)
    assert "runs at the same time" in str(problem)


def test_context_may_name_only_visible_steps(subtests: pytest.Subtests) -> None:
    cases = {
        "qa, fix, check, par, each, last": "",
        "one": "context: one is in the parallel block par Write par",
        "two": "context: two is in the parallel block par Write par",
        "item": "context: item is in the map block each Write each",
        "hop": 'context: there is no step "hop"',
        "parr": 'context: there is no step "parr" Did you mean par?',
    }
    for names, expected in cases.items():
        with subtests.test(names):
            problems = found_in(AGENTS + BLOCKS.replace('prompt: "PROMPT"', f"context: [{names}]"))
            assert [problem.line for problem in problems] == [LAST] * bool(expected)
            assert all(expected in f"{problem.message} {problem.hint}" for problem in problems), list(map(str, problems))
    beside = "  - {id: par, type: parallel, steps: [{id: one, type: agent, name: writer}, TWO]}\n"
    two = "{id: two, type: agent, name: writer, context: [one]}"
    (problem,) = found_in(AGENTS + beside.replace("TWO", two))
    assert "one runs at the same time" in problem.message
    both = f"[{{id: three, type: agent, name: writer}}, {two.replace('one', 'three')}]"
    assert found_in(AGENTS + beside.replace("TWO", f"{{type: condition, condition: 'true', true: {both}}}")) == []


def test_python_agent_replaces_the_declared_one_in_checks() -> None:
    text = AGENTS.replace("Write.", "'{{ $steps.gone.output }}'")
    steps = '  - {id: qa, type: agent, name: judge}\n  - {type: agent, name: writer, prompt: "{{ $steps.qa.output.okay }}"}\n'
    assert len(found_in(text + steps)) == 1 and len(found_in(text + steps, agents=["writer"])) == 1
    assert found_in(text + steps, agents=["writer", "judge"]) == []


def test_instruction_may_use_names_visible_to_any_of_its_steps() -> None:
    text = AGENTS.replace("Write.", "'{{ $item }}'") + "  - {id: first, type: agent, name: writer}\n"
    assert found_in(f"{text}  - {{id: each, type: map, over: [1], step: {{type: agent, name: writer}}}}\n") == []
    (problem,) = found_in(text)
    assert "Only the step of a map" in str(problem)


def test_paths_undeclared_by_a_structured_output_are_warnings(subtests: pytest.Subtests) -> None:
    for path, words in {
        "$steps.qa.output.okay": ["judge declares no okay", "ok"],
        "$steps.qa.output.notes[0].were": ["declares no were", "where"],
        "$steps.fix.output.title": ["title is read", "fix", "structured_output of the agent writer"],
    }.items():
        with subtests.test(path):
            (warning,) = found_in(AGENTS + BLOCKS.replace("PROMPT", f"{{{{ {path} }}}}"))
            assert (warning.line, warning.code) == (LAST, "W_UNDECLARED_PATH")
            assert [word for word in words if word not in str(warning)] == [], str(warning)


def test_undeclared_path_is_accepted_when_the_schema_is_open(subtests: pytest.Subtests) -> None:
    for more in ("anyOf: [{}]", "oneOf: [{}]", "allOf: [{}]", "$ref: '#'", "patternProperties: {x: {}}"):
        with subtests.test(more):
            text = AGENTS.replace(
                "judge: {structured_output: {type: object,", f"judge: {{structured_output: {{type: object, {more},"
            )
            assert more in text and found_in(text + BLOCKS.replace("PROMPT", "{{ $steps.qa.output.okay }}")) == []


def test_steps_after_an_error_or_a_condition_are_reachable() -> None:
    caught = "  - {id: a, type: agent, name: writer, end: true, on_error: {goto: c}}\n  - {id: c, type: agent, name: writer}\n"
    assert found_in(AGENTS + caught) == []
    both = '{id: c, type: condition, condition: "{{ $steps.b.output }}", true: {goto: end}, false: {goto: end}}'
    problems = found_in(f"{AGENTS}  - {both}\n  - {{id: b, type: agent, name: writer}}\n")
    assert [problem.code for problem in problems] == ["W_DEFERRED_CONDITION"]


def test_undeclared_inputs_are_reported() -> None:
    text = AGENTS + '  - {type: agent, name: writer, prompt: "{{ $inputs.lang }}"}\n'
    assert found_in(text, is_logged=True) == []
    for undeclared in (text, f"inputs: {{tone: dry}}\n{text}"):
        (problem,) = found_in(undeclared)
        assert (problem.line, problem.hint) == (text.count("\n") + (undeclared != text), "Declare it: inputs: {lang: DEFAULT}")
    assert found_in(f"inputs: {{lang: fr}}\n{text}") == []
    (problem,) = found_in(f"inputs: {{langs: fr}}\n{text}", is_logged=True)
    assert "there is no input lang" in str(problem) and "langs" in str(problem)


@pytest.mark.req("R4.4")
def test_task_file_template_syntax_is_warned_about_with_its_line(subtests: pytest.Subtests) -> None:
    cases = {"Say ${station} now": True, "{{ '${station}' }}": False, "costs $5 {a}": False, "${}": False}
    for prompt, warned in cases.items():
        with subtests.test(prompt):
            text = f"{AGENTS}  - type: agent\n    name: writer\n    prompt: |\n      First\n      {prompt}\n"
            warnings = read_workflow(text).warnings
            assert [(warning.line, warning.code) for warning in warnings] == [(FIRST + 4, "W_OTHER_FORM")] * warned
            assert all("${station}" in warning.message and "use {{ $... }}" in warning.hint for warning in warnings)
            assert len(found_in(text, strict=True)) == warned


def test_tool_names_are_checked_only_if_tools_are_known() -> None:
    text = "agents: {writer: {tools: [serch]}}\nworkflow:\n  - {type: tool, name: fetsh}\n  - {type: agent, name: writer}"
    assert found_in(text) == []
    problems = found_in(text, tools=["search", "fetch"])
    assert [(problem.line, "Did you mean" in problem.hint) for problem in problems] == [(1, True), (3, True)]


@pytest.mark.req("R4.13", "K4.1")
def test_condition_may_wait_for_later_steps_except_in_a_cycle(subtests: pytest.Subtests) -> None:
    agent = "{{id: {0}, type: agent, name: writer}}".format
    wait = '{{id: {0}, type: condition, condition: "{{{{ $steps.{1}.output }}}}", true: {2}}}'.format
    texts = {
        "each other": ([wait("c", "d", agent("x")), wait("d", "x", agent("y"))], "wait for each other"),
        "each other, by branches": ([wait("c", "y", agent("x")), wait("d", "x", agent("y"))], "wait for each other"),
        "itself": ([agent("a"), wait("c", "c", agent("x"))], "itself"),
        "behind a goto": ([wait("c", "b", "{goto: a}"), "{goto: b}", agent("a"), agent("b")], "jumps elsewhere"),
    }
    for name, (steps, words) in texts.items():
        with subtests.test(name):
            problems = found_in(AGENTS + "".join(f"  - {step}\n" for step in steps))
            assert [words in str(problem) for problem in problems] == [True], list(map(str, problems))
    steps = [wait("c", "b", agent("x")), agent("a"), agent("b")]
    (warning,) = found_in(AGENTS + "".join(f"  - {step}\n" for step in steps))
    assert (warning.code, warning.line) == ("W_DEFERRED_CONDITION", FIRST)
    assert "a and b will run before it" in str(warning)
    branch = wait("outer", "first", f"[{wait('c', 'b', '[]')}, {agent('b')}]")
    assert [problem.code for problem in found_in(f"{AGENTS}  - {agent('first')}\n  - {branch}")] == ["W_DEFERRED_CONDITION"]


def test_prompt_reading_a_later_step_warns_without_a_goto_back() -> None:
    steps = '  - {id: a, type: agent, name: writer, prompt: "{{ $steps.b.output }}"}\n  - {id: b, type: agent, name: writer}\n'
    (warning,) = found_in(AGENTS + steps)
    assert (warning.code, warning.line) == ("W_LATER_STEP", FIRST)
    assert found_in(f"{AGENTS}{steps}  - {{type: condition, condition: 'true', true: {{goto: a}}}}") == []


FILES = {
    "agents:\n  writer: Write.\nworkflow: [{type: agent, name: writer}]": (2, "must be a mapping"),
    "agents:\n  w: {instructions: x}\nworkflow: [{type: agent, name: w}]": (2, "Did you mean instruction"),
    "agents:\n  w: {model: nobody:x}\nworkflow: [{type: agent, name: w}]": (2, "nobody"),
    "agents:\n  w: {policy: matrx}\nworkflow: [{type: agent, name: w}]": (2, "matrix"),
    "agents:\n  w: {guidance: of}\nworkflow: [{type: agent, name: w}]": (2, "off"),
    "agents:\n  w: {limits: {max_round: 3}}\nworkflow: [{type: agent, name: w}]": (2, "Did you mean max_rounds"),
    "agents:\n  w: {limits: {max_rounds: 0}}\nworkflow: [{type: agent, name: w}]": (2, "max_rounds"),
    "agents:\n  w: {limits: {budget: [1]}}\nworkflow: [{type: agent, name: w}]": (2, "budget"),
    "agents:\n  w: {limits: {on_limit: halt}}\nworkflow: [{type: agent, name: w}]": (2, "on_limit must be stop"),
    "agents:\n  w: {structured_output: {type: objekt}}\nworkflow: [{type: agent, name: w}]": (2, "not a JSON Schema"),
    "agents:\n  w: {structured_output: {name: x, shema: 1, schema: {}}}\nworkflow: [{type: agent, name: w}]": (2, "schema"),
    "agents:\n  w: {tools: {a: 1}}\nworkflow: [{type: agent, name: w}]": (2, "tools must be"),
    "agents: [w]\nworkflow: [{goto: end}]": (1, "agents must be a mapping"),
    "workflows:\n  - {goto: end}\nworkflow: [{goto: end}]": (1, "Did you mean workflow"),
    "workflow:\n  stepps: []\n  steps: [{goto: end}]": (2, "Did you mean steps"),
    "workflow:\n  max_loop_iterations: 0\n  steps: [{goto: end}]": (2, "of at least 1"),
    "workflow:\n  overrides: {loops: 2}\n  steps: [{goto: end}]": (2, "max_loop_iterations"),
    "workflow:\n  limits: {max_rounds: 3}\n  steps: [{goto: end}]": (2, "max_rounds"),
    "limits: {budget: 1}\nworkflow:\n  limits: {budget: 2}\n  steps: [{goto: end}]": (3, "already set for the whole file"),
    "workflow: writer": (1, "must be a list"),
    "workflow:\n  steps:": (2, "no steps configured"),
    "agents: {}": (1, "no steps configured"),
    "goal: Report.\nsteps:\n  - {goto: end}": (2, "is a plan, not a workflow. Use %%plan"),
    "- {goto: end}": (1, "must be a mapping"),
    "": (1, "empty"),
}


def test_unusable_files_are_problems(subtests: pytest.Subtests) -> None:
    for text, (line, words) in FILES.items():
        with subtests.test(text[:60]):
            problems = found_in(text)
            assert [problem.line for problem in problems] == [line], list(map(str, problems))
            assert words in str(problems[0])


def test_unreadable_step_is_one_problem_however_often_referenced() -> None:
    steps = """  - {id: a, type: agnt, name: writer}
  - {id: b, type: agent, name: writer, prompt: "{{ $steps.a.output }}", context: [a]}
  - {type: condition, condition: "{{ $steps.b.output }}", true: {goto: a}, false: {goto: 2}}
"""
    assert [problem.line for problem in found_in(AGENTS + steps)] == [FIRST]


def test_slow_files_are_refused_with_a_message(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    condition = "type: condition, condition: '{{ $steps.x.output }}', false: {goto: end}"
    waits = "".join(f"  - {{{condition}}}\n" for _ in range(210)) + "  - {id: x, type: agent, name: writer}\n"
    reads = f"{{type: agent, name: writer, prompt: '{'{{ $prompt }}' * 1_000}'}}"
    monkeypatch.setattr(step_ids, "MAX_STEPS", most := size(2_000, nightly=20_000))
    for name, text, message in (
        ("steps by aliases", "  - &s {type: agent, name: writer}\n" + "  - *s\n" * most, f"{most:,} steps"),
        ("conditions that wait", waits, "conditions wait for more than 20,000 later steps in total"),
        ("templates by aliases", f"  - &s {reads}\n" + "  - *s\n" * 100, "The templates read more than 100,000 values"),
    ):
        with subtests.test(name):
            assert any(message in problem.message for problem in found_in(AGENTS + text))
    with subtests.test("suggestions"), pytest.MonkeyPatch.context() as patch:
        searches: list[str] = []
        patch.setattr("agentnb.workflow.checks.flow_checks.suggest_names", lambda name, known: searches.append(name) or "")
        gotos = "".join(f"  - {{id: s{n}, type: agent, name: writer, on_error: {{goto: q{n}}}}}\n" for n in range(60))
        assert (len(found_in(AGENTS + gotos)), len(searches)) == (60, MAX_PROBLEMS)


def test_check_of_dead_ends_takes_linear_time() -> None:
    def calls(count: int) -> int:
        steps = "".join(f"  - {{type: agent, name: writer, on_error: {{goto: q{n}}}}}\n" for n in range(count))
        made = 0

        def counted(frame: FrameType, event: str, _argument: Any) -> None:
            nonlocal made
            made += event == "call" and frame.f_globals.get("__name__", "").startswith("agentnb.workflow.")

        sys.setprofile(counted)
        try:
            assert len(found_in(f"workflow:\n{steps}")) == 2 * count
        finally:
            sys.setprofile(None)
        return made

    assert calls(200) < 5 * calls(50)


@pytest.mark.req("K4.5", "K4.2")
def test_step_id_used_twice_is_refused_with_both_lines(subtests: pytest.Subtests) -> None:
    one, other = "{id: x, type: agent, name: writer}", "{id: x, type: tool, name: f}"
    first, condition = f"  - {one}\n", "  - {id: c, type: condition, condition: 'true',\n"
    for name, steps, lines in (
        ("one after the other", f"{first}  - {other}\n", (0, 1)),
        ("in a block", f"{first}  - type: parallel\n    steps:\n      - {other}\n", (0, 3)),
        ("in two blocks", f"  - type: parallel\n    steps: [{one}]\n  - type: parallel\n    steps: [{other}]\n", (1, 3)),
        ("in both branches", f"{condition}     true: {one},\n     false: {one}}}\n", (1, 2)),
        ("twice in a branch", f"{condition}     true: [{one},\n     {one}]}}\n", (1, 2)),
        ("other work in a branch", f"{first}{condition}     true: {other}}}\n", (0, 2)),
        ("another prompt in a branch", f"{first}{condition}     true: {one[:-1]}, prompt: Again}}}}\n", (0, 2)),
        ("in a map", f"  - type: map\n    over: [1]\n    step: {one}\n{first}", (2, 3)),
    ):
        with subtests.test(name):
            before, line = (FIRST + one for one in lines)
            result = [(problem.line, problem.message) for problem in found_in(AGENTS + steps) if "already" in problem.message]
            assert [(at, f'the step in line {before} already has the id "x"' in message) for at, message in result] == [
                (line, True)
            ]
    with subtests.test("the same step in a branch goes back to it"):
        assert found_in(f"{AGENTS}{first}{condition}     true: {{goto: end}}, false: {one}}}\n") == []


def test_misspelt_back_to_id_is_a_warning() -> None:
    steps = '  - {id: draft, type: agent, name: writer}\n  - {type: condition, condition: "{{ $steps.draft.output }}",'
    problems = found_in(f"{AGENTS}{steps} false: {{id: back_to_draf, type: agent, name: writer}}}}")
    assert [(problem.line, "back_to_draf" in problem.message, problem.hint) for problem in problems] == [
        (FIRST + 1, True, "Did you mean draft?")
    ]


def test_problems_in_python_steps_are_reported_before_the_run(snapshot: Snapshot) -> None:
    spec = WorkflowSpec(
        steps=(
            AgentStep(id="first", path="first", agent="jugde"),
            GotoStep(id="back", path="back", target="frist"),
        )
    )
    workflow = Workflow(spec, {"judge": Agent(ScriptedModel(["fine"]))})
    with pytest.raises(WorkflowProblems) as caught:
        workflow.orchestration()
    assert str(caught.value).splitlines() == snapshot
    good = WorkflowSpec(steps=(AgentStep(id="first", path="first", agent="judge"),))
    assert Workflow(good, workflow.agents).run_sync(show=False).text == "fine"


def test_unknown_agent_error_suggests_both_ways_to_add_it() -> None:
    with pytest.raises(WorkflowProblems) as caught:
        Workflow.from_yaml("workflow:\n  - {type: agent, name: judge}\n")
    assert 'Declare it under agents:, or pass it: agents={"judge": Agent(...)}' in str(caught.value)
