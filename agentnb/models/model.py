"""The `Model` protocol: the loop's only interface to models."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from agentnb.core.log.events import ReplyDelta
from agentnb.core.messages import Message, Text, Thinking
from agentnb.core.request import Request
from agentnb.core.usage import UNKNOWN, Usage


class Reply(msgspec.Struct, frozen=True):
    """A complete reply. Its text equals the joined deltas before it; deltas are optional."""

    message: Message
    usage: Usage = UNKNOWN
    stop_reason: str = ""
    """The provider's stop reason. The loop ignores it: tool calls in the message decide whether it continues."""
    metadata: dict[str, Any] = {}
    """Data to keep with the reply in the log."""
    raw: Any = None
    """The provider's own object, for inspection. Not logged."""
    seconds: float | None = None
    """Duration of the call, if the model measures it better than its caller can, for example by excluding the time to load a
    library.
    """


class Retry(msgspec.Struct, frozen=True, gc=False):
    """A failed attempt; another follows after ``seconds``. Discard the deltas of the reply so far."""

    attempt: int
    """Number of the failed attempt, from 1; 0 while the call waits for other calls before its first attempt."""
    seconds: float
    reason: str
    """A sentence."""
    status: int | None = None
    """HTTP status, if there was a response."""


class Unshown(msgspec.Struct, frozen=True, gc=False):
    """Received content that no delta shows, such as arguments of a call; it counts towards limits."""

    characters: int


class Checkpoint(msgspec.Struct, frozen=True, gc=False):
    """Parts of the reply to log now (the deltas since the last checkpoint), because they cannot be requested again."""

    parts: tuple[Text | Thinking, ...]
    metadata: dict[str, Any] = {}
    """Metadata of the reply so far."""


class Notice(msgspec.Struct, frozen=True, gc=False):
    """A warning to the person about the call, shown once per run."""

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

        `Unshown` counts received content that no delta shows; it is also optional, as is a `Notice` before the deltas. After a
        `Checkpoint` the log has the reply so far. While a model's attribute ``is_in_turn`` is true, it is still working between
        its replies, and pausing the run waits for it.
        """
