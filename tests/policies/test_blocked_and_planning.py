"""Interactions of rules: blocked todos, planning, stuck models, completion at the cap."""

from __future__ import annotations

import pytest
from scripted_runs import scripted, think, work
from todo_calls import complete, mark, write

from agentnb import Matrix, ToolCall
from agentnb.guidance import built_in

THOUGHTS = [ToolCall("think", {"thought": f"thought {number}"}) for number in range(8)]


@pytest.mark.req("K0.9")
def test_planning_with_only_blocked_todos_ends_as_blocked() -> None:
    run, _ = scripted(write("One"), mark(1, "blocked", blockedReason="no key"), *THOUGHTS[:2])
    assert (run.status, run.stop_reason) == ("stopped", "blocked")
    assert not any(guidance.cell == "intervention" for round in run.rounds for guidance in round.guidance)
    assert "no key" in run.warnings[0]


@pytest.mark.req("K0.9", "R0.41")
def test_stuck_model_with_blocked_todos_is_blocked_not_failed() -> None:
    run, _ = scripted(write("One"), mark(1, "blocked", blockedReason="no key"), 'I cannot.\n{"status": "stop"}')
    assert (run.status, run.stop_reason, run.error) == ("stopped", "blocked", None)


@pytest.mark.req("R0.66")
def test_planning_nudge_without_a_list_does_not_mention_todos() -> None:
    run, _ = scripted(*THOUGHTS[:5], "Fine.", tools=[work, think])
    (said,) = [guidance for guidance in run.rounds[4].guidance if guidance.cell == "intervention"]
    assert (said.trigger, said.text) == ("planning_only", built_in("matrix").parts["planning"])
    assert "todo" not in said.text


@pytest.mark.req("K0.2", "R0.48")
def test_completion_marker_is_accepted_after_the_intervention_cap() -> None:
    policy = Matrix(strict_todos=True, intervention_cap=1)
    run, _ = scripted(write("One"), "Soon.", "Done.\n[WORKFLOW_COMPLETE]", policy=policy)
    assert run.stop_reason == "complete_with_open_todos"


def test_completing_the_last_todo_leads_to_a_natural_end() -> None:
    run, _ = scripted(write("One"), mark(1, "in-progress"), [ToolCall("work", {"item": 1})], complete(1), "Done.")
    assert run.stop_reason == "natural"


def test_blocked_planning_calls_end_the_run_as_repeats() -> None:
    again = ToolCall("think", {"thought": "the same"})
    run, _ = scripted(*[again] * 7, tools=[work, think])
    assert (run.stop_reason, [loop.rule for loop in run.loops]) == ("loop_detected", ["only_blocked_calls"])
    assert any(guidance.trigger == "planning_only" for round in run.rounds for guidance in round.guidance), "both rules applied"
