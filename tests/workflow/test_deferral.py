"""Conditions that wait for later steps: engine and warnings agree."""

from __future__ import annotations

import textwrap

import pytest

from agentnb.workflow.files.workflow_reader import read_workflow
from agentnb.workflow.graph.of_workflow import find_deferred
from agentnb.workflow.workflow import Workflow

TOOL = "  - {{id: {0}, type: tool, name: work, args: {{what: {0}}}}}\n".format
WAIT = (
    '  - id: {0}\n    type: condition\n    condition: "{{{{ $steps.{1} }}}}"\n'
    "    true: {{id: {0}_yes, type: tool, name: work}}\n"
).format


def indented(steps: str) -> str:
    return textwrap.indent(steps, "    ")


def work(what: str = "") -> bool:
    """Do it."""
    return True


@pytest.mark.req("K4.1", "R4.13")
def test_steps_run_in_the_order_that_the_warning_predicts(subtests: pytest.Subtests) -> None:
    texts = {
        "the next": (WAIT("c", "a.output") + TOOL("a") + TOOL("b"), {"c": 1}, ["a", "c", "c_yes", "b"]),
        "one further on": (WAIT("c", "b.output") + TOOL("a") + TOOL("b"), {"c": 2}, ["a", "b", "c", "c_yes"]),
        "one in a branch": (
            TOOL("a") + WAIT("c", "d_yes.output") + WAIT("d", "a.output"),
            {"c": 1},
            ["a", "d", "d_yes", "c", "c_yes"],
        ),
        "the last of two": (
            WAIT("c", "b.output && $steps.a.output") + TOOL("a") + TOOL("b") + TOOL("d"),
            {"c": 2},
            ["a", "b", "c", "c_yes", "d"],
        ),
        "within a branch": (
            TOOL("a")
            + WAIT("o", "a.output").partition("    true: ")[0]
            + "    true:\n"
            + indented(WAIT("c", "b.output") + TOOL("b")),
            {"c": 1},
            ["a", "o", "b", "c", "c_yes"],
        ),
        "within a branch of a block": (
            TOOL("a")
            + "  - id: p\n    type: parallel\n    steps:\n"
            + indented(WAIT("o", "a.output").partition("    true: ")[0] + "    true:\n")
            + indented(indented(WAIT("c", "b.output") + TOOL("b"))),
            {"p/c": 1},
            ["a", "p", "o", "c", "c_yes", "b"],
        ),
        "none": (TOOL("a") + WAIT("c", "a.output") + TOOL("b"), {}, ["a", "c", "c_yes", "b"]),
    }
    for name, (steps, waits, order) in texts.items():
        with subtests.test(name):
            text = f"workflow:\n{steps}"
            spec = read_workflow(text)
            assert dict(find_deferred(spec.steps)) == waits
            assert [warning.code for warning in spec.warnings] == ["W_DEFERRED_CONDITION"] * len(waits)
            run = Workflow.from_yaml(text, tools=[work]).run_sync("", show=False)
            context = run.step_context
            assert [*context["order"], *(context["steps"].get("p") or {"order": []})["order"]] == order
