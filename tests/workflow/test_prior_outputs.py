"""Outputs of earlier steps in the prompt of an agent."""

from __future__ import annotations

from typing import Any

import pytest

from agentnb.workflow.form.workflow_spec import Context
from agentnb.workflow.templates.templates import Scope, with_prior_outputs


def entry(output: Any, **named: Any) -> dict[str, Any]:
    """Return the entry of a step that did work."""
    return {**named, "output": output, "runs": [{"output": output, "attempts": 1}]}


STEPS = {
    "draft": entry("A draft.", agent="writer"),
    "silent": entry("", agent="writer"),
    "nothing": entry(None, tool="log"),
    "table": entry({"rows": [1]}, tool="fetch"),
    "sure": entry(False),
    "check": {"output": True, "runs": [{"output": True}]},
    "par": {
        "outputs": {"one": entry("One.", agent="a"), "inner": {"outputs": {"two": entry("Two.", agent="b")}, "order": ["two"]}},
        "order": ["one", "inner"],
        "attempts": 1,
    },
    "file": entry("Said.", workflow="inner.yaml"),
}
ALL = [
    "[draft (agent: writer)]:\nA draft.",
    '[table (tool: fetch)]:\n{"rows":[1]}',
    "[sure]:\nfalse",
    "[par/one (agent: a)]:\nOne.",
    "[par/inner/two (agent: b)]:\nTwo.",
    "[file (workflow: inner.yaml)]:\nSaid.",
]


@pytest.mark.req("R4.7", "R4.9", "R4.23")
def test_non_empty_step_outputs_precede_the_prompt(subtests: pytest.Subtests) -> None:
    cases: dict[Context, list[str]] = {
        "all": ALL,
        "none": [],
        ("table", "skipped", "draft"): [ALL[1], ALL[0]],
        ("par",): ALL[3:5],
        ("check", "silent", "nothing"): [],
        ("skipped",): [],
        (): [],
    }
    for context, shown in cases.items():
        with subtests.test(str(context)):
            parts = ["--- Prior Step Outputs ---", *shown, "--- End Prior Step Outputs ---"] if shown else []
            assert with_prior_outputs("Go on.", Scope.of_inputs(steps=STEPS), context) == "\n\n".join([*parts, "Go on."])
