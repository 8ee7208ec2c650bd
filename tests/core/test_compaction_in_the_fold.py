"""What compaction, limits and recovery make of a run, event by event."""

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
def test_a_compaction_is_under_way_in_its_round_and_then_done_and_the_messages_stay() -> None:
    story = Story().begun()
    before = list(story.run.messages)
    story.add(e.CompactionStarted, why="share", messages=4)
    assert story.run.last_round.compactions == (Compaction("share"),) and story.run.compacted is None
    story.add(e.ContextCompacted, why="share", compacted=SUMMARY, usage=Usage(input=9, output=1, cost=0.25), seconds=2.0)
    assert story.run.last_round.compactions == (Compaction("share", SUMMARY, Usage(input=9, output=1, cost=0.25), 2.0),)
    assert story.run.compacted is SUMMARY and list(story.run.messages) == before
    assert (story.run.cost, story.run.spent, story.run.usage.input) == (0.25, 0.25, 9)


@pytest.mark.req("R2.35")
def test_the_last_compaction_is_how_the_conversation_is_sent_and_a_round_may_have_two() -> None:
    story = Story().begun()
    story.add(e.ContextCompacted, why="messages", compacted=SUMMARY)
    story.add(e.CompactionStarted, why="overflow", messages=8)
    story.add(e.ContextCompacted, why="overflow", compacted=LATER, problem="no words")
    assert [one.why for one in story.run.last_round.compactions] == ["messages", "overflow"]
    assert story.run.compacted is LATER
    assert story.run.last_round.compactions[1].problem == "no words"


@pytest.mark.req("R2.35")
def test_a_run_that_goes_on_from_a_compacted_one_is_compacted_from_its_first_event() -> None:
    story = Story(history=(user("a"), Message("assistant", (Text("b"),))), compacted=SUMMARY)
    assert story.run.compacted == SUMMARY


@pytest.mark.req("KX.9")
def test_a_cost_that_is_unknown_stays_unknown_and_what_is_known_is_spent() -> None:
    story = Story().begun()
    story.replied(Text("a"), usage=Usage(cost=0.5))
    story.add(e.ContextCompacted, why="messages", compacted=SUMMARY, usage=Usage())
    assert (story.run.cost, story.run.spent) == (None, 0.5)


@pytest.mark.req("KX.2")
def test_calls_that_were_let_run_are_counted_and_what_the_person_says_begins_a_turn() -> None:
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
def test_the_result_of_a_call_is_found_by_its_id_also_one_of_the_run_before() -> None:
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
def test_the_limit_that_ended_a_run_has_its_name_and_value() -> None:
    story = Story().begun()
    story.replied(Text("a"))
    story.add(e.RoundFinished, index=0, status="success")
    story.add(e.LimitReached, limit="max_tokens", value=100)
    story.add(e.RunFinished, status="limited", stop_reason="max_tokens")
    assert story.run.limit is not None
    assert (story.run.limit.limit, story.run.limit.value, story.run.stop_reason) == ("max_tokens", 100, "max_tokens")


@pytest.mark.req("R2.35")
def test_all_of_it_goes_through_the_log() -> None:
    story = Story(compacted=SUMMARY).begun()
    story.add(e.CompactionStarted, why="overflow", messages=4)
    story.add(e.ContextCompacted, why="overflow", compacted=LATER, usage=Usage(input=9, cost=0.5), seconds=1.5, problem="x")
    story.add(e.LimitReached, limit="budget", value=0.5)
    lines = [encode(event) for event in story.run.events]
    assert Run.from_events(decode_lines(lines, "here")) == story.run
