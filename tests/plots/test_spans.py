"""Spans: start and end of each part of a run."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace
from plotted_runs import Told, eventful, without_times
from run_builder import START, RunBuilder, begun, called

from agentnb import Run
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.events import Origin
from agentnb.core.messages import ToolCall
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.plots.drawing.plot_spans import FAILED, MODEL, OK, OPEN, SKIPPED, spans_of


def test_span_has_its_lane_time_and_outcome() -> None:
    spans = spans_of(eventful())
    parts = {}
    for span in spans.spans:
        parts.setdefault(span.lane, []).append((span.start, span.end, span.outcome))
    assert parts == {
        "side calls": [(0.0, 1.0, OK)],
        "model": [(2, 3, OK), (8, 9, OK), (13, 14, FAILED), (17, 19, OK), (35, 36, OK), (44, 45, OK), (50, 51, OK)],
        "look": [(4, 6, OK), (37, 38, OK), (39, 40, OK), (46, 46, SKIPPED)],
        "fail": [(10, 11, FAILED)],
        "wait to retry": [(14, 17, OK)],
        "ask_person": [(20, 28, OK)],
        "you": [(21, 27, OK)],
        "paused": [(30, 33, OK)],
        "compaction": [(43, 44, OK)],
    }
    assert [number for number, _, _ in spans.rounds] == [1, 2, 3, 4, 5, 6]
    assert spans.rounds[2] == (3, 13.0, 29.0) and spans.rounds[-1] == (6, 50.0, 52.0)
    assert spans.marks == [("message from you", 34.0), ("loop found", 47.0)]
    assert (spans.timed, spans.inferred, spans.cuts) == (True, False, [])


def test_canned_answer_is_not_a_model_call() -> None:
    told = Told().add(w.ModelCalled, operation="clarify_blank")
    assert spans_of(told.run).spans == []
    assert [span.lane for span in spans_of(told.add(w.ModelCalled, operation="judge").run).spans] == ["side calls"]


def test_rounds_without_times_have_equal_width_and_keep_order() -> None:
    spans = spans_of(without_times(eventful()))
    assert not spans.timed
    assert [(end - start) for _, start, end in spans.rounds] == [1.0] * 6
    third = [span for span in spans.spans if 2.5 <= span.start < 3.5]
    assert [span.lane for span in third] == ["wait to retry", "model", "ask_person"]
    assert [span.end for span in third[:-1]] == pytest.approx([span.start for span in third[1:]])
    assert spans.marks == [("loop found", 5.5)]


def test_run_with_some_known_times_is_drawn_in_order() -> None:
    events = eventful().events
    unknown = next(event for event in events if isinstance(event, e.ToolFinished))
    assert not spans_of(Run.from_events([replace(event, at=None) if event is unknown else event for event in events])).timed


def test_spans_left_open_end_with_the_log() -> None:
    told = Told()
    told.extend(*begun(0)).replied(called("nap", "c1"))
    told.add(e.ToolStarted, call=called("nap", "c1")).passes(4)
    (model, tool) = spans_of(told.run).spans
    assert (model.lane, model.outcome) == (MODEL, OK)
    assert (tool.lane, tool.start, tool.end, tool.outcome) == ("nap", 3.0, 7.0, OPEN)
    told = Told()
    told.extend(*begun(0)).passes(3)
    assert [(span.lane, span.start, span.end, span.outcome) for span in spans_of(told.run).spans] == [(MODEL, 1.0, 4.0, OPEN)]


def test_interrupted_wait_ends_with_its_round_without_an_attempt() -> None:
    told = RunBuilder().extend(*begun(0)).add(e.RetryScheduled, attempt=1, seconds=600.0, reason="busy")
    told.add(e.CommandReceived, command="stop").add(e.RoundFinished, index=0, status="cancelled")
    found = [(span.lane, span.start, span.end) for span in spans_of(told.run).spans]
    assert found == [("model", 1.0, 2.0), ("wait to retry", 2.0, 4.0)]


def test_time_without_a_process_is_omitted() -> None:
    told = Told()
    told.extend(*begun(0)).replied(called("nap", "c1"))
    told.add(e.ToolStarted, call=called("nap", "c1"))
    events = told.events
    late = timedelta(hours=10)
    again = [
        e.RunRecovered(seq=4, at=START + late, run_id="r-1", schema=e.SCHEMA),
        e.RoundStarted(seq=5, at=START + late + timedelta(seconds=1), run_id="r-1", index=1, reason="tool_results"),
    ]
    spans = spans_of(Run.from_events([*events, *again]))
    assert spans.cuts == [3.0]
    assert max(span.end for span in spans.spans) <= 5.0


def test_missing_start_times_are_derived_from_durations_or_previous_ends() -> None:
    writer = RunWriter(Origin("chat", "chat.json", "0"))
    writer.say("Go", at=START)
    writer.reply("", [ToolCall("look", {}, "c1")], at=START + timedelta(seconds=5))
    writer.result("c1", "seen", at=START + timedelta(seconds=7))
    writer.reply("", [ToolCall("nap", {}, "c2")], at=START + timedelta(seconds=20), seconds=4.0)
    writer.result("c2", "slept", at=START + timedelta(seconds=30), seconds=1.0)
    spans = spans_of(writer.finish(at=START + timedelta(seconds=31)))
    parts = [(span.lane, span.start, span.end) for span in spans.spans]
    assert parts == [("model", 0, 5), ("look", 5, 7), ("model", 16, 20), ("nap", 29, 30)]
    assert spans.timed and spans.inferred
