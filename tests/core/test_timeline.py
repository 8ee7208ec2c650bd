"""The timeline of a run: its parts with their first and last events."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from run_builder import RunBuilder, Story

from agentnb.core.compaction_records import Compacted
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.messages import Message, Text, ToolCall, ToolResult
from agentnb.core.run.timeline import TOO_LONG, Attempt, Compaction, ModelCall, Part, Pause, Round, Step, Tool, Wait, timeline
from agentnb.core.usage import Usage

ONE, TWO = ToolCall("look", {}, "1"), ToolCall("look", {}, "2")
REPLY = Message("assistant", (Text("Done."),))


def seqs(parts: list[Part]) -> list[tuple[int | None, int | None]]:
    """Return the numbers of the first and last events of each part."""
    return [(part.begun and part.begun.seq, part.ended and part.ended.seq) for part in parts]


def retry(run: RunBuilder, attempt: int = 1) -> RunBuilder:
    return run.add(e.RetryScheduled, attempt=attempt, seconds=2.0, reason="busy")


def begun() -> RunBuilder:
    return RunBuilder("Go").add(e.RoundStarted, index=0, reason="prompt")


def replied(run: RunBuilder) -> RunBuilder:
    return run.add(e.ModelReplied, message=REPLY).add(e.RoundFinished, index=0, status="success")


def refused() -> RunBuilder:
    """Build a call refused as too long after a retry, its retried summary, and the call again."""
    run = retry(retry(begun()).add(e.CompactionStarted, why="overflow", messages=2))
    return replied(run.add(e.ContextCompacted, why="overflow", compacted=Compacted("S", 1, 1), usage=Usage(3, 1)))


def called(run: RunBuilder) -> list[tuple[str, int, str]]:
    return [(call.operation, len(call.retries), call.problem) for call in timeline(run.run, ModelCall)]  # type: ignore[attr-defined]


def test_model_call_has_its_attempts_and_waits() -> None:
    run = replied(retry(retry(begun()), 2))
    assert seqs(timeline(run.run, ModelCall)) == [(1, 4)] and called(run) == [("chat", 2, "")]
    assert seqs(timeline(run.run, Attempt)) == [(1, 2), (2, 3), (3, 4)]
    assert seqs(timeline(run.run, Wait)) == [(2, 3), (3, 4)]
    assert seqs(timeline(run.run, Round)) == [(1, 5)]


def test_wait_before_the_first_attempt_is_not_an_attempt() -> None:
    run = replied(retry(begun(), 0))
    assert seqs(timeline(run.run, Attempt)) == [(2, 3)] and seqs(timeline(run.run, Wait)) == [(2, 3)]


def test_refused_call_summary_and_next_call_are_separate() -> None:
    run = refused()
    assert called(run) == [("chat", 1, TOO_LONG), ("compaction", 1, ""), ("chat", 0, "")]
    assert seqs(timeline(run.run, ModelCall)) == [(1, 3), (3, 5), (5, 6)]
    assert seqs(timeline(run.run, Compaction)) == [(3, 5)]
    assert seqs(timeline(run.run, Attempt)) == [(1, 2), (5, 6)]


def test_summary_without_a_model_is_not_a_model_call() -> None:
    run = begun().add(e.CompactionStarted, why="share", messages=2)
    replied(run.add(e.ContextCompacted, why="share", compacted=Compacted("S", 1, 1)))
    assert called(run) == [("chat", 0, "")] and seqs(timeline(run.run, Compaction)) == [(2, 3)]


def test_side_request_has_no_start_in_the_timeline() -> None:
    run = RunBuilder("Go").add(w.ModelCalled, operation="planner").add(e.RoundStarted, index=0, reason="prompt")
    replied(run).add(w.ModelCalled, operation="judge", error="busy")
    calls = timeline(run.run, ModelCall)
    assert called(run) == [("planner", 0, ""), ("chat", 0, ""), ("judge", 0, "busy")]
    assert seqs(calls) == [(None, 1), (2, 3), (None, 5)]
    assert [call.round for call in calls] == [None, 0, 0]  # type: ignore[attr-defined]


def test_tool_calls_steps_and_pauses_have_both_ends() -> None:
    run = RunBuilder("Go", run_kind="workflow").add(w.StepStarted, step="a")
    result = ToolResult("1", "look", (Text("x"),))
    run.add(e.ToolStarted, call=ONE, step="a").add(e.CommandReceived, command="pause")
    run.add(e.ToolFinished, result=result, step="a").add(e.CommandReceived, command="resume")
    run.add(e.CallBlocked, call=TWO, result=ToolResult("2", "look"), rule="own", step="a")
    run.add(w.StepAttempted, step="a", attempt=1).add(w.StepStarted, step="a", attempt=2).add(w.StepFinished, step="a")
    run.add(w.StepSkipped, step="b")
    assert seqs(timeline(run.run, Tool)) == [(2, 4), (None, 6)]
    assert [part.call for part in timeline(run.run, Tool)] == [ONE, TWO]  # type: ignore[attr-defined]
    assert seqs(timeline(run.run, Step)) == [(1, 7), (8, 9), (None, 10)]
    assert seqs(timeline(run.run, Pause)) == [(3, 5)]


def test_call_blocked_after_a_crash_has_both_ends() -> None:
    run = begun().add(e.ModelReplied, message=Message("assistant", (ONE,))).add(e.ToolStarted, call=ONE)
    run.add(e.CallBlocked, call=ONE, result=ToolResult("1", "look"), rule="own")
    assert seqs(timeline(run.run, Tool)) == [(3, 4)]


def test_unfinished_entries_have_no_end(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[type[Part], Callable[[], RunBuilder]]] = {
        "round": (Round, begun),
        "call": (ModelCall, begun),
        "attempt": (Attempt, begun),
        "wait": (Wait, lambda: retry(begun())),
        "compaction": (Compaction, lambda: begun().add(e.CompactionStarted, why="share", messages=2)),
        "step": (Step, lambda: RunBuilder("Go").add(w.StepStarted, step="a")),
        "pause": (Pause, lambda: RunBuilder("Go").add(e.CommandReceived, command="pause")),
        "tool": (Tool, lambda: begun().add(e.ModelReplied, message=Message("assistant", (ONE,))).add(e.ToolStarted, call=ONE)),
    }
    for name, (kind, built) in cases.items():
        with subtests.test(name):
            assert [part.ended for part in timeline(built().run, kind)] == [None]


def test_timeline_of_all_kinds_equals_single_kind_timelines() -> None:
    for run in (refused().run, Story().begun().replied(ONE).ran(ONE).ended().over().run):
        kinds = (Round, ModelCall, Attempt, Wait, Compaction, Tool, Step, Pause)
        alone = [part for kind in kinds for part in timeline(run, kind)]
        assert sorted(map(repr, timeline(run))) == sorted(map(repr, alone))
