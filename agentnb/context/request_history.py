"""Requests sent in each round of a run, rebuilt from its events alone.

The `RequestBuilder` that prepared the messages when they were sent prepares them again; this module only compares
requests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal, NamedTuple, TypeAlias, cast

from agentnb.context.request_builder import RequestBuilder, WhyLeftOut, ephemeral_text
from agentnb.core.compaction_records import Compacted
from agentnb.core.messages import Message
from agentnb.core.request import Request, Sent
from agentnb.core.usage import Usage
from agentnb.core.view import View
from agentnb.detect.run import Run
from agentnb.detect.walk import walk_rounds
from agentnb.errors import SettingsError
from agentnb.guidance.reminder import system_reminder

WhyNotSent: TypeAlias = WhyLeftOut | Literal["empty"]


class LeftOut(NamedTuple):
    """Part of the conversation that a request omits."""

    message: Message
    """The complete message, or the parts of it that were not sent."""
    why: WhyNotSent
    """``workflow_mode``: text after which workflow mode continued the run; ``failed_round``: every call of the round failed;
    ``empty``: no content to send.
    """
    place: int
    """Number of messages in the request that precede it."""


@dataclass(frozen=True, slots=True)
class SentRequest:
    """The exact request of one round, with the origin of each piece."""

    index: int
    """Index of the round, from 0."""
    request: Request
    """The request; every attempt of the round sent the same one."""
    ephemeral: str
    """Ephemeral text, which is the last part of this request only; may be empty."""
    lasting: Message
    """The last message as stored, without the ephemeral text."""
    inherited: int
    """Number of messages at the beginning that come from the run that this one continues."""
    sent_before: int
    """Number of messages in the previous round's request; 0 in the first round."""
    unchanged: int
    """Number of those messages that this request repeats exactly, so that a provider's prompt cache may hold them."""
    kept: int
    """Number of those messages that are the same except for the ephemeral text: `unchanged`, or one more."""
    left_out: Sequence[LeftOut]
    """Parts of the conversation that this request omits, in order."""
    left_out_before: int
    """Number of parts in ``left_out`` that the previous round's request omitted too."""
    compacted: Compacted | None
    """Summary in the request, and the messages that it replaces."""
    truncated: int
    """Number of messages after the first that were left out because there were too many."""
    tokens: int
    """Tokens of the request, as counted by the provider, or else estimated."""
    tokens_estimated: bool
    """True if ``tokens`` is an estimate."""
    cached: int | None
    """Tokens that the provider read from its cache, or None if unknown or if it has not replied yet."""


def sent_requests(run: Run) -> Iterator[tuple[int, SentRequest]]:
    """Yield the index and request of each round, in one pass over the run's events."""
    folded, past = Run(), _Past(run)
    for round_ in walk_rounds(run):
        folded.extend((*round_.before, round_.start, *round_.prepared))
        yield _next(past, folded, run)
        folded.extend(round_.answered)


def sent_request(run: Run, index: int) -> SentRequest:
    """Return the request of this round. Raises `SettingsError` for an unknown round."""
    for position, seen in sent_requests(run):
        if position == index:
            return seen
    raise SettingsError(f"Run {run.id} has no round {index}", f"Rounds are numbered from 0; the run has {len(run.rounds)}")


def _next(past: _Past, folded: Run, run: Run) -> tuple[int, SentRequest]:
    usage = run.rounds[len(folded.rounds) - 1].usage or Usage()
    return folded.last_round.index, past.rebuild_request(folded, usage)


class _Past:
    """Requests of one run, rebuilt in order. The work per round depends only on its new messages."""

    def __init__(self, run: Run) -> None:
        self._request_builder = RequestBuilder.of_run(run.opening)
        self._history = run.inherited
        self._before: Sent | None = None
        self._left_out: list[LeftOut] = []
        self._noted: set[int] = set()

    def rebuild_request(self, run: Run, usage: Usage) -> SentRequest:
        """Return the request of the open round of ``run``, which must have been folded up to that round."""
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
            inherited=self._request_builder.count_inherited(self._history),
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
        """Record the parts left out of the conversation since the last round, and their positions."""
        omitted = self._request_builder.left_out.keys() | self._request_builder.empty.keys()
        for index in sorted(omitted - self._noted):
            self._noted.add(index)
            why: WhyNotSent = self._request_builder.left_out.get(index, "empty")
            message = self._request_builder.empty[index] if why == "empty" else run.messages[index]
            self._left_out.append(LeftOut(message, why, self._request_builder.prepared_of(index)))


def _leading(last: Message, before: Sent, current: Sent, *, stored: bool = False) -> int:
    """Return the number of leading messages of ``current`` that the previous request has too; ``last`` is that request's last
    message.
    """
    last_index = len(before) - 1
    if not current.extends(before):
        return _in_common([*before[:-1], last], [*current[:-1], current.lasting if stored else current[-1]])
    same_place = current.lasting if stored and last_index == len(current) - 1 else current[last_index]
    return last_index + (same_place == last)


def _in_common(before: Sequence[Message], current: Sequence[Message]) -> int:
    same = (old == new for old, new in zip(before, current, strict=False))
    return sum(takewhile(bool, same))
