"""State of a run from events of steps, plans, side requests, findings, draws and scope."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from run_builder import Story, run_of

from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.wire import decode, encode
from agentnb.core.request import ToolSpec
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.errors import TraceError


def refolded(run: Run) -> Run:
    """Return the run, folded again from its log."""
    return Run.from_events([decode(encode(event)) for event in run.events])


def test_step_has_the_status_of_its_last_event(subtests: pytest.Subtests) -> None:
    began = (w.StepStarted, {"step": "a", "step_kind": "agent", "title": "Look", "inputs": {"n": 1}})
    failed = (w.StepAttempted, {"step": "a", "attempt": 1, "error": "no file", "wait": 2.0})
    done = (w.StepFinished, {"step": "a", "output": [1], "attempts": 2, "seconds": 1.5})
    cases: dict[str, tuple[list[Any], tuple[Any, ...]]] = {
        "running": ([began], ("running", None, "", 0, 1)),
        "failed once": ([began, failed], ("running", None, "no file", 1, 1)),
        "done": ([began, failed, done], ("completed", [1], "", 2, 1)),
        "begun again": ([began, done, began], ("running", None, "", 0, 2)),
        "skipped, never begun": ([(w.StepSkipped, {"step": "a", "reason": "n > 2"})], ("skipped", None, "", 0, 0)),
    }
    for name, (facts, expected) in cases.items():
        with subtests.test(name):
            run = run_of(*facts)
            step = run.step_records["a"]
            assert (step.status, step.output, step.error, step.attempts, step.times) == expected
            assert refolded(run) == run


def test_step_keeps_its_branch_and_its_duration_if_known() -> None:
    run = run_of(
        (w.StepStarted, {"step": "a", "parent": "main"}),
        (w.BranchTaken, {"step": "a", "to": "b", "reason": "size > 3"}),
        (w.StepFinished, {"step": "a", "seconds": None}),
        (w.BranchTaken, {"step": "c", "to": "d"}),
    )
    assert (run.step_records["a"].seconds, run.step_records["a"].reason, run.step_records["a"].parent) == (
        None,
        "to b: size > 3",
        "main",
    )
    assert run.step_records["c"].reason == "to d"
    with pytest.raises(TypeError):
        run.step_records["a"] = run.step_records["c"]  # type: ignore[index]  # it is read-only


def test_plan_is_the_latest_version_with_its_review_and_status() -> None:
    run = run_of(
        (w.PlanProposed, {"plan_id": "p", "plan": {"steps": [1]}, "call_id": "c1"}),
        (w.PlanReviewed, {"plan_id": "p", "verdict": "good", "notes": "brief"}),
        (w.PlanEdited, {"plan_id": "p", "plan": {"steps": [1, 2]}, "by": "person"}),
        (w.PlanApproved, {"plan_id": "p", "by": "person"}),
        (w.PlanProposed, {"plan_id": "q", "plan": {}}),
        (w.PlanRejected, {"plan_id": "q", "by": "policy", "reason": "too long"}),
    )
    plan = run.plans["p"]
    assert (plan.plan, plan.status, plan.by, [review.verdict for review in plan.reviews]) == (
        {"steps": [1, 2]},
        "approved",
        "person",
        ["good"],
    )
    assert (run.plans["q"].status, run.plans["q"].by) == ("rejected", "policy")
    assert refolded(run) == run


def test_side_requests_count_in_usage_and_cost(subtests: pytest.Subtests) -> None:
    known = {"usage": Usage(input=10, output=2, cost=0.5), "seconds": 1.0}
    cases: dict[str, tuple[dict[str, Any], int | None, float | None, float]] = {
        "with a price": (known, 10, 0.5, 0.5),
        "that reported nothing": ({}, None, None, 0.0),
        "that failed and reported nothing": ({"error": "overloaded"}, 0, 0.0, 0.0),
        "that failed and was paid": ({**known, "error": "cut off"}, 10, 0.5, 0.5),
    }
    for name, (fields, tokens, cost, spent) in cases.items():
        with subtests.test(name):
            run = run_of((w.ModelCalled, {"operation": "judge", "model": "scripted:judge", **fields}))
            assert (run.usage.input, run.cost, run.spent) == (tokens, cost, spent)
            assert [call.operation for call in run.model_calls] == ["judge"]
            assert refolded(run) == run


def test_run_has_the_latest_tools() -> None:
    look, work = ToolSpec("look"), ToolSpec("work", role="planning")
    story = Story(tools=(look,)).add(w.ToolsChanged, tools=(look, work), reason="a file was loaded")
    assert story.run.tools == (look, work) and refolded(story.run) == story.run


def test_findings_draws_and_scope_are_recorded() -> None:
    result = {"rule": "repeat", "family": "loops", "first": 0, "last": 2, "sentence": "It repeats itself"}
    run = run_of(
        (w.FindingMade, result),
        (w.GuidanceDrawn, {"set": "brief", "propensity": 0.25, "among": {"brief": 0.25, "matrix": 0.75}}),
        (w.ContextShifted, {"context_type": "review", "entity": "p-1"}),
        context_type="write",
        entity="p-0",
    )
    assert [(finding.rule, finding.first, finding.last) for finding in run.findings] == [("repeat", 0, 2)]
    assert run.drawn is not None and (run.drawn.set, run.drawn.propensity) == ("brief", 0.25)
    assert (run.context_type, run.entity) == ("review", "p-1")
    assert refolded(run) == run


def test_run_without_work_events_has_empty_state() -> None:
    run = run_of()
    assert (dict(run.step_records), dict(run.plans), list(run.model_calls), list(run.findings), run.drawn) == (
        {},
        {},
        [],
        [],
        None,
    )


# Kinds that a later version may add

LATER = {
    "kind": "weather_turned",
    "seq": 1,
    "at": "2026-01-01T00:00:01.250000Z",
    "run_id": "r-1",
    "sky": "clear 👀",
    "degrees": [1.5, -3, None, True],
    "inner": {"kind": "x", "é": 1e20},
}


def line(**instead: Any) -> bytes:
    """Return the event as another version writes it, with the common fields first."""
    fields = {**LATER, **instead}
    first = {name: fields.pop(name) for name in ("kind", "seq", "at", "run_id", "parent_id") if name in fields}
    return msgspec.json.encode({**first, **fields}) + b"\n"


def test_unknown_event_kind_round_trips_byte_for_byte(subtests: pytest.Subtests) -> None:
    for name, written in {"plain": line(), "nested": line(parent_id="r-0"), "without a time": line(at=None)}.items():
        with subtests.test(name):
            event = decode(written)
            assert isinstance(event, w.OtherEvent) and event.name == "weather_turned"
            assert encode(event) == written and decode(encode(event)) == event


def test_unknown_event_kind_changes_only_the_event_list() -> None:
    plain, story = Story().begun(), Story().begun()
    story.add(w.OtherEvent, name="weather_turned", data={"sky": "clear"})
    assert list(story.run.rounds) == list(plain.run.rounds) and list(story.run.messages) == list(plain.run.messages)
    assert [type(event) for event in story.events] == [e.RunStarted, e.RoundStarted, w.OtherEvent]
    assert refolded(story.run) == story.run


def test_malformed_event_of_a_known_kind_is_an_error(subtests: pytest.Subtests) -> None:
    cases = {
        "a known kind with a wrong field": line(kind="warned", message=3),
        "our own name for unknown kinds": line(kind="other", name="run_started"),
        "a kind that is not text": line(kind=3),
        "without a run": line(run_id=None),
        "a number that is a text": line(seq="1"),
        "an invalid time": line(at="soon"),
    }
    for name, written in cases.items():
        with subtests.test(name), pytest.raises(TraceError, match="Not an agentnb event"):
            decode(written)
