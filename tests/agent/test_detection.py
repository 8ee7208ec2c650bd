"""Live detectors, and the consequences of their findings."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from asserted_sentences import Snapshot
from marked_logs import cut_log
from scripted_runs import look

from agentnb import Agent, Minimal, Store, ToolCall, load_trace
from agentnb.core.log import events as e
from agentnb.core.log.work_events import FindingMade
from agentnb.detect import Run, findings
from agentnb.display.texts.states import why
from agentnb.errors import SettingsError
from agentnb.models import ScriptedModel
from agentnb.policies import PolicyBundle, natural_stop
from agentnb.session.recovery import recover


class Bare:
    """A policy without rules of its own."""

    name = "bare"

    def rules(self, *given: object, **how: object) -> PolicyBundle:
        return PolicyBundle((natural_stop,))


def live(calls: int, store: Store | None = None) -> Run:
    replies = [*[ToolCall("look", {"n": 1})] * calls, "Done."]
    agent = Agent(ScriptedModel(replies), tools=[look], policy=Bare(), todos=False, detect="default")  # type: ignore[arg-type]
    return agent.run_sync("go", store=store)


def test_loop_is_nudged_then_blocked_then_stopped(snapshot: Snapshot) -> None:
    run = live(12)
    assert (run.status, run.stop_reason, len(run.rounds)) == ("stopped", "loop_detected", 5)
    assert [(finding.last + 1, finding.severity) for finding in run.findings] == [(3, "nudge"), (4, "block"), (5, "stop")]
    assert [bool(round.guidance) for round in run.rounds] == [False, False, False, True, True]
    assert [round.records[0].rule for round in run.rounds] == ["", "", "", "", "nothing_new"]
    assert why(run) == snapshot


def test_findings_are_logged_immediately() -> None:
    kinds = [type(event) for event in live(12).events]
    places = [place for place, kind in enumerate(kinds) if kind is FindingMade]
    assert len(places) == 3 and all(kinds[place - 1] is e.RoundFinished for place in places)
    assert e.RoundStarted in kinds[places[0] :]


def test_run_that_follows_the_nudge_continues() -> None:
    run = live(3)
    assert (run.status, len(run.findings), run.text) == ("completed", 1, "Done.")


def test_live_findings_equal_findings_from_the_log(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = live(12, store)
    again = load_trace(store.path(run.id))
    assert [(one.rule, one.last) for one in findings(again)] == [(finding.rule, finding.last) for finding in again.findings]


def test_unknown_detector_name_is_refused_at_once() -> None:
    with pytest.raises(SettingsError, match="no detector preset 'defualt'"):
        Agent(ScriptedModel([]), detect="defualt")


def test_agent_without_detectors_logs_no_extension() -> None:
    run = Agent(ScriptedModel(["Done."]), policy=Minimal()).run_sync("go")
    assert "extensions" not in run.settings


def test_resumed_run_keeps_its_detectors(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = live(12, store)
    cut = next(place for place, one in enumerate(run.events) if isinstance(one, FindingMade) and one.severity == "block")
    cut_log(store.path(run.id), cut + 1)
    model = ScriptedModel([ToolCall("look", {"n": 1})] * 5)
    agent = Agent(model, tools=[look], policy=Bare(), todos=False, detect="default")  # type: ignore[arg-type]
    resumed = asyncio.run(recover(store.load(run.id), agent=agent, store=store))
    assert (resumed.stop_reason, len(resumed.rounds), len(resumed.findings)) == ("loop_detected", 5, 3)
