"""The workflow of a run, from its log, and the step to rerun from."""

from __future__ import annotations

import pytest
from drawn_workflows import BRANCH, finished, started, workflow_run

from agentnb import Workflow
from agentnb.workflow.files.logged_workflow import step_to_rerun

LOADED = [started("load", "tool"), finished("load")]
DECIDED = [*LOADED, started("big", "condition"), finished("big")]
FEW_FAILED = [started("each", "map"), started("each/0"), finished("each/0", "failed", error="no"), finished("each")]


def test_rerun_starts_at_the_first_unsuccessful_step(subtests: pytest.Subtests) -> None:
    for name, facts, expected in [
        ("a step that failed", [started("load", "tool"), finished("load", "failed", error="no")], "load"),
        ("a step that was cancelled", [started("load", "tool"), finished("load", "cancelled")], "load"),
        ("a step that was open", [*DECIDED, started("approve", "human")], "approve"),
        ("a step in a branch", [*DECIDED, started("summary"), finished("summary", "failed", error="no")], "big"),
        ("what failed in a map that ended well", [*DECIDED, *FEW_FAILED], ""),
        ("nothing yet", [], ""),
    ]:
        with subtests.test(name):
            assert step_to_rerun(workflow_run(BRANCH, facts, "cancelled")) == expected


def test_old_run_with_unchecked_inputs_is_still_readable() -> None:
    text = "workflow: [{type: tool, name: f, args: {a: '{{ $inputs.undeclared }}'}}]\n"
    assert Workflow.of_run(workflow_run(text, [], "failed")).tool_names == ("f",)
