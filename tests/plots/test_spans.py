"""When each part of a run took place."""

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


def test_each_part_has_its_lane_its_time_and_its_outcome() -> None:
    found = spans_of(eventful())
    parts = {}
    for span in found.spans:
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
    assert [number for number, _, _ in found.rounds] == [1, 2, 3, 4, 5, 6]
    assert found.rounds[2] == (3, 13.0, 29.0) and found.rounds[-1] == (6, 50.0, 52.0)
    assert found.marks == [("message from you", 34.0), ("loop found", 47.0)]
    assert (found.timed, found.inferred, found.cuts) == (True, False, [])


def test_a_canned_answer_is_no_call_of_a_model() -> None:
    told = Told().add(w.ModelCalled, operation="clarify_blank")
    assert spans_of(told.run).spans == []
    assert [span.lane for span in spans_of(told.add(w.ModelCalled, operation="judge").run).spans] == ["side calls"]


def test_without_times_each_round_is_equally_wide_and_its_parts_are_in_order() -> None:
    found = spans_of(without_times(eventful()))
    assert not found.timed
    assert [(end - start) for _, start, end in found.rounds] == [1.0] * 6
    third = [span for span in found.spans if 2.5 <= span.start < 3.5]
    assert [span.lane for span in third] == ["wait to retry", "model", "ask_person"]
    assert [span.end for span in third[:-1]] == pytest.approx([span.start for span in third[1:]])
    assert found.marks == [("loop found", 5.5)]


def test_a_run_of_which_only_some_times_are_known_is_drawn_in_order() -> None:
    events = eventful().events
    unknown = next(event for event in events if isinstance(event, e.ToolFinished))
    assert not spans_of(Run.from_events([replace(event, at=None) if event is unknown else event for event in events])).timed


def test_what_the_log_leaves_open_ends_where_the_log_ends() -> None:
    told = Told()
    told.extend(*begun(0)).replied(called("nap", "c1"))
    told.add(e.ToolStarted, call=called("nap", "c1")).passes(4)
    (model, tool) = spans_of(told.run).spans
    assert (model.lane, model.outcome) == (MODEL, OK)
    assert (tool.lane, tool.start, tool.end, tool.outcome) == ("nap", 3.0, 7.0, OPEN)
    told = Told()
    told.extend(*begun(0)).passes(3)
    assert [(span.lane, span.start, span.end, span.outcome) for span in spans_of(told.run).spans] == [(MODEL, 1.0, 4.0, OPEN)]


def test_a_wait_that_was_cut_short_ends_with_its_round_and_no_attempt_follows() -> None:
    told = RunBuilder().extend(*begun(0)).add(e.RetryScheduled, attempt=1, seconds=600.0, reason="busy")
    told.add(e.CommandReceived, command="stop").add(e.RoundFinished, index=0, status="cancelled")
    found = [(span.lane, span.start, span.end) for span in spans_of(told.run).spans]
    assert found == [("model", 1.0, 2.0), ("wait to retry", 2.0, 4.0)]


def test_the_time_without_a_process_is_left_out() -> None:
    told = Told()
    told.extend(*begun(0)).replied(called("nap", "c1"))
    told.add(e.ToolStarted, call=called("nap", "c1"))
    events = told.events
    late = timedelta(hours=10)
    again = [
        e.RunRecovered(seq=4, at=START + late, run_id="r-1", schema=e.SCHEMA),
        e.RoundStarted(seq=5, at=START + late + timedelta(seconds=1), run_id="r-1", index=1, reason="tool_results"),
    ]
    found = spans_of(Run.from_events([*events, *again]))
    assert found.cuts == [3.0]
    assert max(span.end for span in found.spans) <= 5.0


def test_starts_that_a_trace_does_not_record_follow_from_seconds_or_from_the_end_of_what_came_before() -> None:
    writer = RunWriter(Origin("chat", "chat.json", "0"))
    writer.say("Go", at=START)
    writer.reply("", [ToolCall("look", {}, "c1")], at=START + timedelta(seconds=5))
    writer.result("c1", "seen", at=START + timedelta(seconds=7))
    writer.reply("", [ToolCall("nap", {}, "c2")], at=START + timedelta(seconds=20), seconds=4.0)
    writer.result("c2", "slept", at=START + timedelta(seconds=30), seconds=1.0)
    found = spans_of(writer.finish(at=START + timedelta(seconds=31)))
    parts = [(span.lane, span.start, span.end) for span in found.spans]
    assert parts == [("model", 0, 5), ("look", 5, 7), ("model", 16, 20), ("nap", 29, 30)]
    assert found.timed and found.inferred
