"""What a model was sent in each round of a run, made again from its events alone.

The messages are prepared by the one `Conversation` that prepared them when they were sent; here stands only what tells
them apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, cast

from agentnb.agent.conversation import is_empty, said_in_passing
from agentnb.agent.guidance.reminder import system_reminder
from agentnb.agent.start import conversation_of
from agentnb.core.events import GuidanceGiven, RoundStarted, RunStarted
from agentnb.core.messages import Message
from agentnb.core.request import Request, Sent
from agentnb.core.run import Run
from agentnb.core.usage import Usage
from agentnb.core.view import View
from agentnb.errors import SettingsError
from agentnb.models.estimate import tokens_of_message, tokens_of_text, tokens_of_tools

WhyLeftOut: TypeAlias = Literal["workflow_mode", "empty"]


class LeftOut(NamedTuple):
    """Something of the conversation that a request does not hold."""

    message: Message
    """The whole message, or those of its parts that were not sent."""
    why: WhyLeftOut
    """``workflow_mode``: words that workflow mode went on from; ``empty``: there was nothing in it to send."""
    place: int
    """How many messages of the request stand before it."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What the model saw in one round: the exact request, and where each piece of it came from."""

    index: int
    """Of the round, counted from 0."""
    request: Request
    """As it was sent; every attempt of the round sent the same."""
    passing: str
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
    tokens: int
    """Of the request: as the provider counted them, else about."""
    tokens_estimated: bool
    """Whether that number is a guess."""
    cached: int | None
    """Tokens of it that the provider read from its cache; None if it did not say, or has not replied."""


def requests_of(run: Run) -> Iterator[tuple[int, Seen]]:
    """The index of each round and what the model saw in it, in one pass over the run's events."""
    folded, past, due = Run(), None, False
    for event in run.events:
        if due and not isinstance(event, GuidanceGiven):
            yield _next(past, folded, run)
            due = False
        folded.apply(event)
        if isinstance(event, RunStarted):
            past = _Past(event)
        due = due or isinstance(event, RoundStarted)
    if due:
        yield _next(past, folded, run)


def seen_in(run: Run, index: int) -> Seen:
    """What the model saw in this round; `SettingsError` if the run has no such round."""
    for found, seen in requests_of(run):
        if found == index:
            return seen
    raise SettingsError(f"Run {run.id} has no round {index}", f"Its rounds are numbered from 0; it has {len(run.rounds)}")


def _next(past: _Past | None, folded: Run, run: Run) -> tuple[int, Seen]:
    assert past is not None, "a run begins with RunStarted"
    usage = run.rounds[len(folded.rounds) - 1].usage or Usage()
    return folded.last_round.index, past.seen(folded, usage)


class _Past:
    """The requests of one run, made again one after the other. Work a round depends on what is new in it."""

    def __init__(self, started: RunStarted) -> None:
        self._conversation = conversation_of(started)
        self._history = len(started.history)
        self._inherited = 0
        self._left_out: list[LeftOut] = []
        self._taken = 0
        self._place = 0
        self._side: bool | None = None
        self._before: Sent | None = None
        self._settled_tokens = tokens_of_text(started.system) + tokens_of_tools(started.tools)
        self._counted = 0

    def seen(self, run: Run, usage: Usage) -> Seen:
        """What was sent in the open round of this run, which has come as far as that."""
        left_out_before = len(self._left_out)
        self._look_at_new(run)
        said = said_in_passing(run)
        request = self._conversation.request(run, said)
        messages = cast(Sent, request.messages)
        before, self._before = self._before, messages
        counted = 0 if usage.estimated else usage.input or 0
        return Seen(
            index=run.last_round.index,
            request=request,
            passing=system_reminder(said) if said else "",
            lasting=messages.lasting,
            inherited=self._inherited,
            sent_before=0 if before is None else len(before),
            unchanged=0 if before is None else _leading(before[-1], before, messages),
            kept=0 if before is None else _leading(before.lasting, before, messages, stored=True),
            left_out=View(self._left_out, len(self._left_out)),
            left_out_before=left_out_before,
            tokens=counted or self._estimated(messages),
            tokens_estimated=not counted,
            cached=usage.cache_read,
        )

    def _look_at_new(self, run: Run) -> None:
        """Note what the conversation is about to leave out, and where."""
        for index in range(self._taken, len(run.messages)):
            if index == self._history:
                self._inherited = self._place
            message = run.messages[index]
            if self._conversation.leaves_out(message, run):
                self._left_out.append(LeftOut(message, "workflow_mode", self._place))
            else:
                self._look_at(message)
                if index == self._history and self._place == self._inherited:
                    self._inherited = max(0, self._place - 1)  # the prompt has joined the last of these messages
        self._taken = len(run.messages)

    def _look_at(self, message: Message) -> None:
        empty = tuple(part for part in message.parts if is_empty(part))
        if empty or not message.parts:
            self._left_out.append(LeftOut(Message(message.role, empty), "empty", self._place))
        side = message.role == "assistant"
        if len(empty) < len(message.parts) and side is not self._side:
            self._place, self._side = self._place + 1, side

    def _estimated(self, messages: Sent) -> int:
        """About how many tokens it is; of a message behind which another stands they are counted once."""
        while self._counted < len(messages) - 1:
            self._settled_tokens += tokens_of_message(messages[self._counted])
            self._counted += 1
        return self._settled_tokens + tokens_of_message(messages[-1])


def _leading(last: Message, before: Sent, now: Sent, *, stored: bool = False) -> int:
    """How many messages at the beginning of ``now`` are those of the request before; of these only the last can change."""
    place = len(before) - 1
    same_place = now.lasting if stored and place == len(now) - 1 else now[place]
    return place + (same_place == last)
