"""The `Model` protocol: all that the loop knows of a model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from agentnb.core.log.events import ReplyDelta
from agentnb.core.messages import Message, Text, Thinking
from agentnb.core.request import Request
from agentnb.core.usage import UNKNOWN, Usage


class Reply(msgspec.Struct, frozen=True):
    """A whole reply. Its text is that of the deltas before it, joined; deltas are optional."""

    message: Message
    usage: Usage = UNKNOWN
    stop_reason: str = ""
    """In the provider's words. Tool calls in the message decide whether the loop continues, not this."""
    metadata: dict[str, Any] = {}
    """Data to keep with the reply in the log."""
    raw: Any = None
    """The provider's own object, for inspection. Not logged."""
    seconds: float | None = None
    """Duration of the call, if the model measures it better than its caller can: without loading a library first, say."""


class Retry(msgspec.Struct, frozen=True, gc=False):
    """A failed attempt; another follows after ``seconds``. Discard the deltas of the reply so far."""

    attempt: int
    """Number of the failed attempt, from 1; 0: no attempt was made yet, the call waits for other calls first."""
    seconds: float
    reason: str
    """One sentence."""
    status: int | None = None
    """HTTP status, if there was a response."""


class Unshown(msgspec.Struct, frozen=True, gc=False):
    """Something of the reply has come that no delta shows, such as arguments of a call: it counts for limits."""

    characters: int


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """Parts of the reply that the log is to have now, since no request can bring them again: the deltas after the last one."""

    parts: tuple[Text | Thinking, ...]
    metadata: dict[str, Any] = {}
    """Metadata of the reply, as far as it is known."""


class Notice(msgspec.Struct, frozen=True, gc=False):
    """A warning for the person about the call, once per run."""

    message: str
    advice: str = ""


StreamItem: TypeAlias = ReplyDelta | Unshown | Checkpoint | Retry | Notice | Reply


@runtime_checkable
class Model(Protocol):
    """An object that answers requests. Any exception that `stream` raises is a failure of the model."""

    @property
    def name(self) -> str:
        """``provider:model``."""

    def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """Yield the deltas of a reply, if any, then the `Reply`; a `Retry` where the reply starts over.

        `Unshown` tells how much has come of what has no deltas; it is optional too, and so is a `Notice` before them. After a
        `Checkpoint` the log has what came so far. While an attribute ``is_in_turn`` is true, a model works on between its
        replies: a pause of the run then waits until it is false.
        """
