"""The parts around a running card: totals, chip, messages of the person."""

from __future__ import annotations

import re
from datetime import timedelta
from functools import partial
from html import unescape
from itertools import count

import pytest
from msgspec.structs import replace
from run_builder import START, Fact, RunBuilder, begun, run_of

from agentnb.core.guidance import Followed, Guidance
from agentnb.core.log.events import (
    AnyEvent,
    CallBlocked,
    CommandReceived,
    GuidanceGiven,
    ModelReplied,
    RetryScheduled,
    RoundFinished,
    RoundStarted,
    RunFinished,
    TextDelta,
    ToolFinished,
    ToolStarted,
)
from agentnb.core.messages import Message, Text, ToolCall, ToolResult
from agentnb.core.run.rounds import DUPLICATE, WorkflowRound
from agentnb.display.card import live_card
from agentnb.display.card.live_card import LiveCard
from agentnb.display.parts.run_totals import Totals

DUPLICATED = ToolResult("c-3", "add", (Text("again"),), is_error=True, error_code=DUPLICATE)


def words(html: str) -> str:
    return unescape(re.sub("<[^>]+>", "", html))


def facts(*given: Fact) -> list[AnyEvent]:
    """Return the events of a run in its first round."""
    return list(run_of(*begun(0), *given).events)


def followed_live(*given: Fact) -> list[str]:
    """Return the words of the totals after each event."""
    card, told = LiveCard(), []
    for event in facts(*given):
        card.take(event)
        card.frame()
        told.append(words(card.whole()["slots"]["totals"]))
    return told


def test_totals_count_calls_and_failures_immediately() -> None:
    good, bad = ToolCall("add", {"a": 1}, "c-1"), ToolCall("add", {"a": "x"}, "c-2")
    totals = followed_live(
        (ModelReplied, {"message": Message("assistant", (good, bad))}),
        (ToolStarted, {"call": good}),
        (ToolFinished, {"result": ToolResult("c-1", "add", (Text("3"),))}),
        (ToolStarted, {"call": bad}),
        (ToolFinished, {"result": ToolResult("c-2", "add", (Text("no"),), is_error=True, error_code="tool_error")}),
        (RoundFinished, {"index": 0, "status": "success"}),
        (RoundStarted, {"index": 1, "reason": "tool_results"}),
        (ModelReplied, {"message": Message("assistant", (replace(good, id="c-3"),))}),
        (CallBlocked, {"call": replace(good, id="c-3"), "result": DUPLICATED, "rule": "consecutive"}),
    )
    counts = [one.partition("calls: ")[2] for one in totals]
    two, failed = "2 calls", "2 calls, 1 failed"
    assert counts == ["", "", *[two] * 4, *[failed] * 3, "3 calls, 1 failed", "3 calls, 1 rejected, 1 failed"]


def test_totals_count_followed_guidance_after_each_round() -> None:
    guidance = Guidance("matrix", "tools", "Use your tools.")
    totals = followed_live(
        (GuidanceGiven, {"guidance": guidance}),
        (ModelReplied, {"message": Message("assistant", (ToolCall("add", {"a": 1}, "c-1"),))}),
        (ToolStarted, {"call": ToolCall("add", {"a": 1}, "c-1")}),
        (ToolFinished, {"result": ToolResult("c-1", "add", (Text("3"),))}),
        (RoundFinished, {"index": 0, "status": "success"}),
        (RoundStarted, {"index": 1, "reason": "tool_results"}),
        (GuidanceGiven, {"guidance": replace(guidance, cell="todos_text")}),
        (ModelReplied, {"message": Message("assistant", (Text("No."),))}),
        (RoundFinished, {"index": 1, "status": "natural_completion"}),
    )
    assert [one.partition("guidance followed: ")[2] for one in totals] == [""] * 6 + ["1 of 1"] * 4 + ["1 of 2"]


def test_unjudged_guidance_is_not_counted() -> None:
    given, verdicts = Guidance("matrix", "tools", "Go on."), [Followed(followed, "why") for followed in (True, False, None)]
    totals = Totals([WorkflowRound(0, "prompt", START, guidance=(given,) * 3, followed=tuple(verdicts))])
    assert (totals.judged, totals.followed) == (2, 1)


@pytest.mark.req("R3.37")
def test_retry_shows_the_time_of_the_next_attempt() -> None:
    card = LiveCard()
    for event in facts((RetryScheduled, {"attempt": 1, "seconds": 4.5, "reason": "too many requests"})):
        card.take(event)
    frame = card.whole()
    until = (event.at + timedelta(seconds=4.5)).timestamp() * 1_000
    assert frame["say"] == "Retrying" and "Retrying" in words(frame["slots"]["chip"])
    assert f'data-until="{until:.0f}"' in frame["slots"]["chip"]
    card.take(TextDelta("Now"))  # the next attempt starts
    assert "Retrying" not in card.whole()["say"]


@pytest.mark.parametrize(("model", "is_counted"), [("acp:opencode", True), ("openai:gpt", False)])
def test_controls_say_that_an_external_agent_works_in_turns(model: str, is_counted: bool) -> None:
    card, deaf = LiveCard(), LiveCard(controls=False)
    story = RunBuilder(model=model).extend(*begun(0))
    for event in story.events:
        card.take(event)
        deaf.take(event)
    assert ('type="submit" value="now"' in card.whole()["slots"]["now"]) is is_counted
    card.note_command("say", "Hurry")
    assert ("its next prompt" in card.whole()["slots"]["asked"]) is is_counted
    card.note_command("pause")
    assert ("after this turn" in card.whole()["slots"]["controls"]) is is_counted
    assert not deaf.whole()["slots"]["now"]
    card.take(story.add(RunFinished, status="completed", stop_reason="natural").events[-1])
    assert not card.whole()["slots"]["now"]


@pytest.mark.parametrize(("model", "is_counted"), [("acp:opencode", True), ("openai:gpt", False)])
def test_time_without_output_from_an_external_agent_is_shown(model: str, is_counted: bool) -> None:
    card, call = LiveCard(), ToolCall("bash", {"command": "make"}, "c-1")
    story = RunBuilder(model=model).extend(*begun(0))
    *begins, replied = story.add(ModelReplied, message=Message("assistant", (call,))).events
    for event in begins:
        card.take(event)
    assert ("data-silent" in card.whole()["slots"]["chip"]) is is_counted
    card.take(replied)
    assert "data-silent" not in card.whole()["slots"]["chip"]


def test_frame_contains_the_time_of_the_last_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_card, "_milliseconds_now", partial(next, count()))
    card = LiveCard()
    for event in facts():
        card.take(event)
    first = card.whole()["changed_at"]
    assert card.whole()["changed_at"] == first
    card.take(TextDelta("Now"))
    assert card.whole()["changed_at"] > first


def test_message_appears_in_the_round_that_reads_it() -> None:
    card = LiveCard()
    say = (CommandReceived, {"command": "say", "text": "Faster <b>"})
    over, next_one = (RoundFinished, {"index": 0, "status": "success"}), (RoundStarted, {"index": 1, "reason": "said"})
    for event in facts(say, over, next_one, say):
        card.take(event)
    said = [words(round_["html"]["said"]) for round_ in card.whole()["rounds"]]
    assert said == ["You: Faster <b>"] * 2
