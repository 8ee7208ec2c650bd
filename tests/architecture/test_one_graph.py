"""Every form of steps has the same graph, walker and references, and the code that runs steps never asks for the form."""

from __future__ import annotations

import ast

import pytest
from parsed import PACKAGE, trees, walk

ONLY_CLASS = {
    "walker": "workflow/running/walker.py",
    "spelling": "core/expressions.py",
    "evaluator": "core/expressions.py",
    "planstep": "core/plans/plan_steps.py",
}
"""Words that occur in the name of one class, and its module."""
RUNS_STEPS = ("workflow/running/", "runtime/steps/", "workflow/plans/execution.py", "workflow/templates/templates.py")
OF_FORMS = {"form", "planner", "chat", "PlanForm", "TaskScope", "TaskFile", "WORKFLOW", "TASKS"}
"""Names and texts by which code could tell the forms apart."""
A_QUESTIONS_FORM = "workflow/running/step_handlers.py"
"""Reads the form that a person fills in."""
FAILURES = {"FailedStep"}


def modules() -> dict[str, ast.Module]:
    return {path.relative_to(PACKAGE).as_posix(): tree for path, tree in trees().items()}


def words(tree: ast.Module) -> set[str]:
    """All names, attributes and texts of the code."""
    values = [getattr(node, "attr", getattr(node, "id", getattr(node, "value", ""))) for node in walk(tree)]
    return {value for value in values if isinstance(value, str)}


def test_walker_references_and_plan_step_have_one_class(subtests: pytest.Subtests) -> None:
    classes = [
        (name, node.name.lower().replace("_", ""))
        for name, tree in modules().items()
        for node in walk(tree)
        if isinstance(node, ast.ClassDef)
    ]
    for word, module in ONLY_CLASS.items():
        with subtests.test(word):
            assert [name for name, of_class in classes if word in of_class] == [module]


def test_code_that_runs_steps_never_asks_for_the_form() -> None:
    asks = {name: words(tree) & OF_FORMS for name, tree in modules().items() if name.startswith(RUNS_STEPS)}
    assert {name: matches for name, matches in asks.items() if matches} == {A_QUESTIONS_FORM: {"form"}}
    assert len(asks) > 15, "it looked"


def test_walker_distinguishes_only_kinds_of_nodes() -> None:
    tree, nodes = (modules()[f"workflow/{name}.py"] for name in ("running/walker", "graph/nodes"))
    calls = [node for node in walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "isinstance"]
    classes = {ast.unparse(call.args[1]) for call in calls} - FAILURES
    assert classes and classes <= {node.name for node in walk(nodes) if isinstance(node, ast.ClassDef)}
