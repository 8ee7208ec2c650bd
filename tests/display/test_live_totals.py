"""What stands beside a live card while its run goes on: the totals, the chip, what the person says."""

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
    """The events of a run in its first round."""
    return list(run_of(*begun(0), *given).events)


def followed_live(*given: Fact) -> list[str]:
    """The words of the totals after each event."""
    card, told = LiveCard(), []
    for event in facts(*given):
        card.take(event)
        card.frame()
        told.append(words(card.whole()["slots"]["totals"]))
    return told


def test_the_totals_count_calls_and_failures_while_they_happen() -> None:
    good, bad = ToolCall("add", {"a": 1}, "c-1"), ToolCall("add", {"a": "x"}, "c-2")
    told = followed_live(
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
    counts = [one.partition("calls: ")[2] for one in told]
    two, failed = "2 calls", "2 calls, 1 failed"
    assert counts == ["", "", *[two] * 4, *[failed] * 3, "3 calls, 1 failed", "3 calls, 1 skipped, 1 failed"]


def test_the_totals_count_the_guidance_that_was_followed_once_a_round_is_over() -> None:
    given = Guidance("matrix", "tools", "Use your tools.")
    told = followed_live(
        (GuidanceGiven, {"guidance": given}),
        (ModelReplied, {"message": Message("assistant", (ToolCall("add", {"a": 1}, "c-1"),))}),
        (ToolStarted, {"call": ToolCall("add", {"a": 1}, "c-1")}),
        (ToolFinished, {"result": ToolResult("c-1", "add", (Text("3"),))}),
        (RoundFinished, {"index": 0, "status": "success"}),
        (RoundStarted, {"index": 1, "reason": "tool_results"}),
        (GuidanceGiven, {"guidance": replace(given, cell="todos_text")}),
        (ModelReplied, {"message": Message("assistant", (Text("No."),))}),
        (RoundFinished, {"index": 1, "status": "natural_completion"}),
    )
    assert [one.partition("guidance followed: ")[2] for one in told] == [""] * 6 + ["1 of 1"] * 4 + ["1 of 2"]


def test_guidance_that_cannot_be_judged_counts_as_given_and_not_as_followed() -> None:
    given, verdicts = Guidance("matrix", "tools", "Go on."), [Followed(followed, "why") for followed in (True, False, None)]
    totals = Totals([WorkflowRound(0, "prompt", START, guidance=(given,) * 3, followed=tuple(verdicts))])
    assert (totals.guided, totals.judged, totals.followed) == (3, 2, 1)


@pytest.mark.req("R3.37")
def test_a_retry_is_told_with_the_moment_of_the_next_attempt() -> None:
    card = LiveCard()
    for event in facts((RetryScheduled, {"attempt": 1, "seconds": 4.5, "reason": "too many requests"})):
        card.take(event)
    frame = card.whole()
    until = (event.at + timedelta(seconds=4.5)).timestamp() * 1_000
    assert frame["say"] == "Retrying" and "Retrying" in words(frame["slots"]["chip"])
    assert f'data-until="{until:.0f}"' in frame["slots"]["chip"]
    card.take(TextDelta("Now"))  # the next attempt is heard
    assert "Retrying" not in card.whole()["say"]


@pytest.mark.parametrize(("model", "is_counted"), [("acp:opencode", True), ("openai:gpt", False)])
def test_the_silence_of_an_agent_of_others_is_counted_until_it_replies(model: str, is_counted: bool) -> None:
    card, call = LiveCard(), ToolCall("bash", {"command": "make"}, "c-1")
    story = RunBuilder(model=model).extend(*begun(0))
    *begins, replied = story.add(ModelReplied, message=Message("assistant", (call,))).events
    for event in begins:
        card.take(event)
    assert ("data-silent" in card.whole()["slots"]["chip"]) is is_counted
    card.take(replied)
    assert "data-silent" not in card.whole()["slots"]["chip"]


def test_a_frame_says_when_the_card_last_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_card, "_milliseconds_now", partial(next, count()))
    card = LiveCard()
    for event in facts():
        card.take(event)
    first = card.whole()["changed_at"]
    assert card.whole()["changed_at"] == first
    card.take(TextDelta("Now"))
    assert card.whole()["changed_at"] > first


def test_what_the_person_says_stands_in_the_round_in_which_it_is_heard() -> None:
    card = LiveCard()
    say = (CommandReceived, {"command": "say", "text": "Faster <b>"})
    over, next_one = (RoundFinished, {"index": 0, "status": "success"}), (RoundStarted, {"index": 1, "reason": "said"})
    for event in facts(say, over, next_one, say):
        card.take(event)
    said = [words(one["html"]["said"]) for one in card.whole()["rounds"]]
    assert said == ["You: Faster <b>"] * 2
