"""Outcomes of runs with expectations, in their logs and in the list of runs."""

from __future__ import annotations

from pathlib import Path

import pytest

import agentnb
from agentnb import Agent, Store, ToolCall, fork_sync, load_trace
from agentnb.core.log import work_events as w
from agentnb.core.log.outcome import Assessment
from agentnb.models import ScriptedModel
from agentnb.rerun.expect import expectations_extension


def ran(*texts: str, store: Store | None = None):  # type: ignore[no-untyped-def]
    extensions = [expectations_extension(texts)] if texts else []
    return Agent(ScriptedModel(["Done."]), extensions=extensions).run_sync("go", store=store)


def test_run_meeting_all_expectations_is_logged_as_passed(subtests: pytest.Subtests, tmp_path: Path) -> None:
    cases = {
        "all hold": (["rounds == 1", 'status == "completed"'], ("passed", 'rounds == 1, status == "completed"')),
        "one is broken": (["rounds == 1", "tool_calls > 0"], ("failed", "tool_calls > 0")),
        "one has no value": (["cost < 1", "followed_rate > 0"], ("failed", "followed_rate > 0")),
    }
    for name, (texts, (outcome, why)) in cases.items():
        with subtests.test(name):
            store = Store(tmp_path / name)
            run = ran(*texts, store=store)
            said = Assessment(outcome, "expectation", why)
            assert run.assessments == (said,) and run.outcome == outcome
            assert type(run.events[-2]) is w.OutcomeGiven
            (line,) = store.summaries()
            assert line.assessment == said
            text = store.path(run.id).read_text("utf-8")
            store.path(run.id).write_text(text.replace('"totals"', '"others"'), "utf-8")  # so that the whole file is read
            (line,) = store.summaries()
            assert line.assessment == said
            assert load_trace(store.path(run.id)).outcome == outcome


def test_a_run_without_expectations_has_no_outcome() -> None:
    run = ran()
    assert (run.outcome, run.assessment) == ("unknown", None)


def test_a_fork_does_not_inherit_the_outcome() -> None:
    run = ran("rounds == 1")
    forked = fork_sync(run, 2, model=ScriptedModel(["More."]))
    assert run.outcome == "passed" and forked.outcome == "unknown" and not forked.assessments


def test_assessment_failure_does_not_prevent_the_end_of_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(run: object, end: object) -> list[Assessment]:
        raise KeyError("odd")

    monkeypatch.setattr(agentnb, "assess_by_expectations", broken)
    run = ran("rounds == 1")
    assert (run.status, run.outcome) == ("completed", "unknown")


def test_failed_and_stopped_runs_are_assessed_too() -> None:
    def look() -> str:
        """Look."""
        return "a hat"

    agent = Agent(
        ScriptedModel([[ToolCall("look", {}, "c1")]] * 3),
        tools=[look],
        max_rounds=2,
        extensions=[expectations_extension(['status == "limited"', "rounds == 2"])],
    )
    assert agent.run_sync("go").outcome == "passed"
