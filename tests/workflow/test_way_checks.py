"""Unreachable steps and endless loops are reported in every form."""

from __future__ import annotations

import pytest

from agentnb import Workflow
from agentnb.workflow.checks.reachability_checks import ENDLESS, UNREACHED
from agentnb.workflow.plans.plan_checks import read_and_check

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
