"""What a model was sent in each round of a run, made again from its events alone.

The messages are prepared by the one `RequestBuilder` that prepared them when they were sent; here stands only what tells
them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal, NamedTuple, TypeAlias, cast

from agentnb.context.request_builder import RequestBuilder, WhyLeftOut, ephemeral_text
from agentnb.core.compaction import Compacted
from agentnb.core.events import (
    CompactionStarted,
    ContextCompacted,
    ExtraUsage,
    GuidanceGiven,
    RetryScheduled,
    RoundStarted,
    RunRecovered,
    RunStarted,
    Warned,
)
from agentnb.core.messages import Message
from agentnb.core.request import Request, Sent
from agentnb.core.run import Run
from agentnb.core.usage import Usage
from agentnb.core.view import View
from agentnb.errors import SettingsError
from agentnb.guidance.reminder import system_reminder

WhyNotSent: TypeAlias = WhyLeftOut | Literal["empty"]
BEFORE_THE_REPLY = (
    GuidanceGiven,
    RetryScheduled,
    CompactionStarted,
    ContextCompacted,
    ExtraUsage,
    RunRecovered,
    Warned,
)
"""Events of a round that stand before its request was sent, or sent for the last time."""


class LeftOut(NamedTuple):
    """Something of the conversation that a request does not hold."""

    message: Message
    """The whole message, or those of its parts that were not sent."""
    why: WhyNotSent
    """``workflow_mode``: words that workflow mode went on from; ``failed_round``: every call of the round failed; ``empty``:
    there was nothing in it to send.
    """
    place: int
    """How many messages of the request stand before it."""


@dataclass(frozen=True, slots=True)
class SentRequest:
    """What the model saw in one round: the exact request, and where each piece of it came from."""

    index: int
    """Of the round, counted from 0."""
    request: Request
    """As it was sent; every attempt of the round sent the same."""
    ephemeral: str
    """The text that stands in this request only, as its last part; empty if nothing was said in passing."""
    lasting: Message
    """The last message without that part: what is stored of it."""
    inherited: int
    """How many messages at the beginning are of the run that this one goes on with."""
    sent_before: int
    """How many messages the request of the round before had; 0 in the first round."""
    unchanged: int
    """How many of them stand in this request to the letter: a provider's prompt cache may hold them."""
    kept: int
    """How many of them are the same but for what is said in passing: `unchanged`, or one more."""
    left_out: Sequence[LeftOut]
    """What of the conversation is not in this request, in its order."""
    left_out_before: int
    """How many of these were left out of the round before too."""
    compacted: Compacted | None
    """The summary in it, and what that stands for."""
    truncated: int
    """How many messages were left out behind the first because there were too many."""
    tokens: int
    """Of the request: as the provider counted them, else about."""
    tokens_estimated: bool
    """Whether that number is a guess."""
    cached: int | None
    """Tokens of it that the provider read from its cache; None if it did not say, or has not replied."""


def sent_requests(run: Run) -> Iterator[tuple[int, SentRequest]]:
    """The index of each round and what the model saw in it, in one pass over the run's events."""
    folded, past, due = Run(), None, False
    for event in run.events:
        if due and not isinstance(event, BEFORE_THE_REPLY):
            yield _next(past, folded, run)
            due = False
        folded.apply(event)
        if isinstance(event, RunStarted):
            past = _Past(event)
        due = due or isinstance(event, RoundStarted)
    if due:
        yield _next(past, folded, run)


def sent_request(run: Run, index: int) -> SentRequest:
    """What the model saw in this round; `SettingsError` if the run has no such round."""
    for found, seen in sent_requests(run):
        if found == index:
            return seen
    raise SettingsError(f"Run {run.id} has no round {index}", f"Its rounds are numbered from 0; it has {len(run.rounds)}")


def _next(past: _Past | None, folded: Run, run: Run) -> tuple[int, SentRequest]:
    assert past is not None, "a run begins with RunStarted"
    usage = run.rounds[len(folded.rounds) - 1].usage or Usage()
    return folded.last_round.index, past.seen(folded, usage)


class _Past:
    """The requests of one run, made again one after the other. Work a round depends on what is new in it."""

    def __init__(self, started: RunStarted) -> None:
        self._request_builder = RequestBuilder.of_run(started)
        self._history = len(started.history)
        self._before: Sent | None = None
        self._left_out: list[LeftOut] = []
        self._noted: set[int] = set()

    def seen(self, run: Run, usage: Usage) -> SentRequest:
        """What was sent in the open round of this run, which has come as far as that."""
        left_out_before = len(self._left_out)
        request = self._request_builder.request(run, ephemeral_text(run), may_call=not run.last_round.is_final)
        self._note_left_out(run)
        messages = cast(Sent, request.messages)
        before, self._before = self._before, messages
        counted = 0 if usage.estimated else usage.input or 0
        return SentRequest(
            index=run.last_round.index,
            request=request,
            ephemeral=system_reminder(self._request_builder.ephemeral) if self._request_builder.ephemeral else "",
            lasting=messages.lasting,
            inherited=self._request_builder.inherited(self._history),
            sent_before=0 if before is None else len(before),
            unchanged=0 if before is None else _leading(before[-1], before, messages),
            kept=0 if before is None else _leading(before.lasting, before, messages, stored=True),
            left_out=View(self._left_out, len(self._left_out)),
            left_out_before=left_out_before,
            compacted=run.compacted,
            truncated=self._request_builder.truncated_by,
            tokens=counted or self._request_builder.estimated_tokens(request),
            tokens_estimated=not counted,
            cached=usage.cache_read,
        )

    def _note_left_out(self, run: Run) -> None:
        """Note what the conversation has left out since the last time, and where."""
        found = self._request_builder.left_out.keys() | self._request_builder.empty.keys()
        for index in sorted(found - self._noted):
            self._noted.add(index)
            why: WhyNotSent = self._request_builder.left_out.get(index, "empty")
            message = self._request_builder.empty[index] if why == "empty" else run.messages[index]
            self._left_out.append(LeftOut(message, why, self._request_builder.prepared_of(index)))


def _leading(last: Message, before: Sent, now: Sent, *, stored: bool = False) -> int:
    """How many messages at the beginning of ``now`` are those of the request before, whose last is ``last``."""
    place = len(before) - 1
    if not now.goes_on(before):
        return _in_common([*before[:-1], last], [*now[:-1], now.lasting if stored else now[-1]])
    same_place = now.lasting if stored and place == len(now) - 1 else now[place]
    return place + (same_place == last)


def _in_common(before: Sequence[Message], now: Sequence[Message]) -> int:
    same = (one == other for one, other in zip(before, now, strict=False))
    return sum(takewhile(bool, same))
