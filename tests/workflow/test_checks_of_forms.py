"""The same mistakes are reported in every form."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import pytest

from agentnb import Workflow, tool
from agentnb.errors import AnyProblem, WorkflowProblems
from agentnb.workflow.checks.reachability_checks import ENDLESS, UNREACHED
from agentnb.workflow.plans.plan_checks import read_and_check, validate_plan

FILES = {
    "a loop of two tasks": ("stage: {a: {action: n}, b: {action: n, goto: {task: a}}}", [ENDLESS]),
    "a loop with a condition": ("stage: {a: {action: n}, b: {action: n, goto: {when: len(query) > 3, task: a}}}", []),
    "a task behind the end": ("stage: {a: {action: n, goto: {task: end}}, b: {action: n}, c: {action: n}}", [UNREACHED]),
    "tasks that only lead to each other": (
        "stage: {a: {action: n, goto: {task: end}}, b: {action: n}, c: {action: n, goto: {task: b}}}",
        [UNREACHED, ENDLESS],
    ),
    "a task behind one that aborts": ("stage: {a: {action: n, abort: true}, b: {action: n}}", []),
    "a loop of two steps": ("workflow: [{type: tool, name: n}, {goto: n}]", [ENDLESS]),
    "a loop that a failure leaves": (
        "workflow: [{type: tool, name: n, on_error: {goto: z}}, {goto: n}, {id: z, type: tool, name: n}]",
        [],
    ),
    "a loop with a branch": (
        "workflow: [{type: tool, name: n}, {type: condition, condition: 'true', true: {goto: end}}, {goto: n}]",
        [],
    ),
    "a goto first": ("workflow: [{goto: b}, {id: b, type: tool, name: n}]", []),
}
PLANS = {
    "a step behind an abort": ("[{type: tool, name: n}, {type: abort, reason: no}, {type: tool, name: n}]", [UNREACHED]),
    "a step behind a question": ("[{type: elicitation, content: Which?}, {type: tool, name: n}]", [UNREACHED]),
    "an abort at the end": ("[{type: tool, name: n}, {type: abort, reason: no}]", []),
    "steps of a chat": ("[{stepNumber: 1, type: action, description: a}, {stepNumber: 2, type: action, description: b}]", []),
}


def test_dead_ends_are_warnings_in_each_file_form(subtests: pytest.Subtests) -> None:
    for name, (text, codes) in FILES.items():
        with subtests.test(name):
            assert [warning.code for warning in Workflow.from_yaml(text + "\n").warnings] == codes
    for name, (steps, codes) in PLANS.items():
        with subtests.test(name):
            _, problems = read_and_check(f"steps: {steps}\n")
            assert ([warning.code for warning in problems.warnings], problems.found) == (codes, [])


def step(form: str, *, key: str = "", **args: object) -> str:
    """Return a step that calls a tool with these arguments. ``key``: more of the step."""
    name, args_text = args.pop("tool", "n"), json.dumps(args)
    return {
        "workflow": f"{{type: tool, name: {name}, args: {args_text}{key}}}",
        "tasks": f"{{action: {name}, input: {args_text}{key}}}",
        "plan": f"{{type: tool, name: {name}, args: {args_text}{key}}}",
        "chat": f"{{type: action, description: d, tools: [{name}], args: {args_text}{key}}}",
    }[form]


def text_of(form: str, steps: Sequence[str]) -> str:
    """Return the steps as a text of this form: its steps are called a, b and so on, or 1, 2."""
    if form == "tasks":
        return "stage: {" + ", ".join(f"{name}: {one}" for name, one in zip("abc", steps, strict=False)) + "}\n"
    if form == "chat":
        return (
            f"steps: [{', '.join(one.replace('{', f'{{stepNumber: {number}, ', 1) for number, one in enumerate(steps, 1))}]\n"
        )
    named = [one.replace("{", f"{{id: {name}, ", 1) for name, one in zip("abc", steps, strict=False)]
    return f"{form if form == 'workflow' else 'steps'}: [{', '.join(named)}]\n"


OUTPUTS: dict[str, Callable[[str], str]] = {
    "workflow": "{{{{ $steps.{}.output }}}}".format,
    "tasks": "${{{}}}".format,
    "plan": lambda name: f"$step[{'abcdefghi'.index(name)}].output",
    "chat": lambda name: f"$step[{'abcdefghi'.index(name)}].output",
}
"""References to the output of a step, which a task keeps in a variable of its name."""
MISTAKES: dict[str, tuple[Callable[[str], Sequence[str]], dict[str, str]]] = {
    "an unknown tool": (lambda form: [step(form, tool="m", x=1)], dict.fromkeys(OUTPUTS, "tool m")),
    "an unknown argument": (lambda form: [step(form, x=1, y=2)], dict.fromkeys(OUTPUTS, "n: unknown argument y")),
    "a missing argument": (lambda form: [step(form)], dict.fromkeys(OUTPUTS, 'n: "x" is missing')),
    "an argument of another type": (lambda form: [step(form, x="one")], dict.fromkeys(OUTPUTS, 'n: x: "one" is not of type')),
    "a reference to no step": (
        lambda form: [step(form, x=OUTPUTS[form]("i"))],
        {"workflow": "there is no step i", "tasks": "unknown variable i"}
        | dict.fromkeys(("plan", "chat"), "the plan has no step 8"),
    ),
    "a reference to a later step": (
        lambda form: [step(form, x=OUTPUTS[form]("b")), step(form, x=1)],
        {"workflow": "b runs after a", "tasks": "unknown variable b"} | dict.fromkeys(("plan", "chat"), "this is a later step"),
    ),
    "a reference of a step to itself": (
        lambda form: [step(form, x=OUTPUTS[form]("a"))],
        {"workflow": "the step a reads itself", "tasks": "unknown variable a"}
        | dict.fromkeys(("plan", "chat"), "this is the step itself"),
    ),
    "an unknown key": (lambda form: [step(form, x=1, key=", zz: 1")], dict.fromkeys(OUTPUTS, 'unknown key "zz"')),
    "a dependency on no step": (
        lambda form: [step(form, x=1, key=", dependsOn: [9]")],
        {"tasks": 'there is no task or block "9"', "chat": "step 9 does not exist"},
    ),
    "a dependency on a later step": (
        lambda form: [step(form, x=1, key=f", dependsOn: [{'b' if form == 'tasks' else 2}]"), step(form, x=1)],
        dict.fromkeys(("tasks", "chat"), "does not come before it"),
    ),
    "a jump to no step": (
        lambda form: [step(form, x=1, key=", on_error: {goto: zz}" if form == "workflow" else ", goto: {task: zz}")],
        {"workflow": "there is no such step", "tasks": 'there is no task or block "zz"'},
    ),
}
"""The steps of each mistake, and the words of its problem in each form that can express it."""


def problems_of(form: str, text: str) -> Sequence[AnyProblem]:
    """Return the problems and warnings of a text, whose steps may call the tool ``n``."""

    @tool
    def n(x: int) -> int:
        """Return it."""
        return x

    if form in ("plan", "chat"):
        return validate_plan(text, [n])
    try:
        return Workflow.from_yaml(text, tools=[n], checks_actions=True).warnings
    except WorkflowProblems as error:
        return error.problems


def test_each_mistake_is_reported_in_each_form(subtests: pytest.Subtests) -> None:
    for name, (steps, words) in MISTAKES.items():
        for form, said in words.items():
            with subtests.test(f"{name}: {form}"):
                found = [problem.message for problem in problems_of(form, text_of(form, steps(form)))]
                assert len(found) == 1 and said in found[0]
