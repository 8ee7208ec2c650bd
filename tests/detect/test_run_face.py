"""The public attributes of a run, and those that policies, guides and gates use."""

from __future__ import annotations

import pytest
from asserted_sentences import Snapshot
from run_builder import RunBuilder

from agentnb import Run
from agentnb.detect.run import OF_POLICIES, RunSoFar

OF_A_PERSON = {
    *("id", "kind", "agent", "model", "system", "prompt", "tools", "settings", "guidance", "tags", "origin", "drawn"),
    *("parent_id", "continued_from", "conversation", "forked_from", "context_type", "entity", "gives_consent"),
    *(
        "messages",
        "rounds",
        "todos",
        "steps",
        "step_records",
        "step_context",
        "step_count",
        "step_calls",
        "substitutes",
        "grants",
        "invocation",
        "back_edges",
        "variables",
        "progress",
        "plans",
        "questions",
        "questions_of",
        "waiting",
        "events",
    ),
    *("agent_state", "plan_position", "profile", "contexts", "first_entity"),
    *("text", "output", "output_schema", "error", "status", "stop_reason", "limit", "warnings"),
    *("outcome", "score", "outcome_from", "assessment", "assessments"),
    *(
        "usage",
        "own_usage",
        "cost",
        "own_cost",
        "spent",
        "own_spent",
        "nested_usage",
        "model_calls",
        "calls_made",
        "failed_calls",
        "blocked_calls",
        "is_plan_rejected",
        "findings",
        "loops",
    ),
    *("started_at", "ended_at", "seconds", "times_recovered", "is_suspended", "from_events", "warned"),
}


def test_live_only_method_on_a_run_names_the_handle(snapshot: Snapshot) -> None:
    with pytest.raises(AttributeError, check=snapshot.worded):
        RunBuilder("Go").round("Done.").run.stop


def test_completion_offers_only_the_public_names() -> None:
    run = RunBuilder("Go").round("Done.").run
    offered = {name for name in dir(run) if not name.startswith("_")}
    assert offered == OF_A_PERSON
    assert all(hasattr(run, name) for name in offered | OF_POLICIES)
    assert not offered & OF_POLICIES


def test_public_names_of_a_run_have_docstrings() -> None:
    for name in OF_A_PERSON | OF_POLICIES:
        assert (getattr(Run, name).__doc__ or "").strip(), name


def test_run_so_far_is_an_alias_of_run() -> None:
    assert RunSoFar is Run


def test_runs_with_other_judgements_are_not_equal() -> None:
    run, other = (RunBuilder("Go").round("Done.").run for _ in range(2))
    assert run == other
    other.judged.repeated += 1
    assert run != other
