"""Compaction, limits and recovery in the fold."""

from __future__ import annotations

import pytest
from run_builder import Story

from agentnb.core.compaction_records import Compacted, Compaction
from agentnb.core.log import events as e
from agentnb.core.log.wire import decode_lines, encode
from agentnb.core.messages import Message, Text, ToolCall, ToolResult, user
from agentnb.core.usage import Usage
from agentnb.detect.run import Run

SUMMARY = Compacted(1, 5, 4, "[Conversation Summary - 4 messages compacted]\n\nWell.")
LATER = Compacted(1, 9, 8, "[Conversation Summary - 8 messages compacted]\n\nBetter.")


@pytest.mark.req("R2.35", "KX.9")
def test_compaction_has_a_start_and_an_end_and_keeps_messages() -> None:
    story = Story().begun()
    before = list(story.run.messages)
    story.add(e.CompactionStarted, why="share", messages=4)
    assert story.run.last_round.compactions == (Compaction("share"),) and story.run.compacted is None
    story.add(e.ContextCompacted, why="share", compacted=SUMMARY, usage=Usage(input=9, output=1, cost=0.25), seconds=2.0)
    assert story.run.last_round.compactions == (Compaction("share", SUMMARY, Usage(input=9, output=1, cost=0.25), 2.0),)
    assert story.run.compacted is SUMMARY and list(story.run.messages) == before
    assert (story.run.cost, story.run.spent, story.run.usage.input) == (0.25, 0.25, 9)


@pytest.mark.req("R2.35")
def test_last_of_several_compactions_in_a_round_wins() -> None:
    story = Story().begun()
    story.add(e.ContextCompacted, why="messages", compacted=SUMMARY)
    story.add(e.CompactionStarted, why="overflow", messages=8)
    story.add(e.ContextCompacted, why="overflow", compacted=LATER, problem="no words")
    assert [compaction.why for compaction in story.run.last_round.compactions] == ["messages", "overflow"]
    assert story.run.compacted is LATER
    assert story.run.last_round.compactions[1].problem == "no words"


@pytest.mark.req("R2.35")
def test_continued_run_starts_with_the_earlier_compaction() -> None:
    story = Story(history=(user("a"), Message("assistant", (Text("b"),))), compacted=SUMMARY)
    assert story.run.compacted == SUMMARY


@pytest.mark.req("KX.9")
def test_unknown_compaction_cost_stays_unknown_and_known_cost_is_spent() -> None:
    story = Story().begun()
    story.replied(Text("a"), usage=Usage(cost=0.5))
    story.add(e.ContextCompacted, why="messages", compacted=SUMMARY, usage=Usage())
    assert (story.run.cost, story.run.spent) == (None, 0.5)


@pytest.mark.req("KX.2")
def test_permitted_calls_are_counted_and_user_messages_start_turns() -> None:
    story = Story().begun()
    one, other = ToolCall("work", {}, "c1"), ToolCall("work", {}, "c2")
    story.replied(one, other)
    story.add(e.ToolStarted, call=one)
    blocked = ToolResult("c2", "work", (Text("no"),), is_error=True, error_code="max_tool_calls")
    story.add(e.CallBlocked, call=other, result=blocked, rule="max_tool_calls")
    assert (story.run.calls_made, story.run.calls_this_turn) == (1, 1)
    assert story.run.last_round.records[1].rule == "max_tool_calls" and not story.run.last_round.records[1].ran
    story.add(e.CommandReceived, command="say", text="More.")
    assert (story.run.calls_made, story.run.calls_this_turn) == (1, 0)


@pytest.mark.req("R0.76")
def test_result_is_also_found_by_call_id_in_history() -> None:
    old, new = ToolResult("c1", "work", (Text("old"),)), ToolResult("c2", "work", (Text("new"),))
    call = ToolCall("work", {}, "c2")
    story = Story(history=(user("a"), Message("assistant", (ToolCall("work", {}, "c1"),)), Message("tool", (old,)))).begun()
    story.replied(call)
    assert story.run.result_of("c1") == old
    assert story.run.result_of("c2") is None is story.run.result_of("c9") and story.run.has_call_id("c2")
    story.add(e.ToolStarted, call=call)
    story.add(e.ToolFinished, result=new)
    assert story.run.result_of("c2") == new


@pytest.mark.req("KX.2")
def test_limit_that_ended_a_run_is_kept_with_its_value() -> None:
    story = Story().begun()
    story.replied(Text("a"))
    story.add(e.RoundFinished, index=0, status="success")
    story.add(e.LimitReached, limit="max_tokens", value=100)
    story.add(e.RunFinished, status="limited", stop_reason="max_tokens")
    assert story.run.limit is not None
    assert (story.run.limit.limit, story.run.limit.value, story.run.stop_reason) == ("max_tokens", 100, "max_tokens")


@pytest.mark.req("R2.35")
def test_compaction_limits_and_turns_survive_the_log() -> None:
    story = Story(compacted=SUMMARY).begun()
    story.add(e.CompactionStarted, why="overflow", messages=4)
    story.add(e.ContextCompacted, why="overflow", compacted=LATER, usage=Usage(input=9, cost=0.5), seconds=1.5, problem="x")
    story.add(e.LimitReached, limit="budget", value=0.5)
    lines = [encode(event) for event in story.run.events]
    assert Run.from_events(decode_lines(lines, "here")) == story.run
