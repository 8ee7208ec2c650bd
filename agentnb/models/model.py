"""The one thing the loop knows of a model."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Protocol, TypeAlias, runtime_checkable

import msgspec

from agentnb.core.events import Delta
from agentnb.core.messages import Message
from agentnb.core.request import Request
from agentnb.core.usage import UNKNOWN, Usage


class Reply(msgspec.Struct, frozen=True):
    """A whole reply. The deltas before it, joined, are its text; without any delta it is just as good."""

    message: Message
    usage: Usage = UNKNOWN
    stop_reason: str = ""
    """In the provider's words. Whether the loop goes on depends on the calls in the message, not on this."""
    metadata: dict[str, Any] = {}
    """What should be kept with the reply in the log."""
    raw: Any = None
    """The provider's own object, for those who look. Not kept."""
    seconds: float | None = None
    """What the call took, where the model knows better than who waits for it: without loading a library first, say."""


class Retry(msgspec.Struct, frozen=True, gc=False):
    """An attempt failed; another follows after ``seconds``. What was streamed of the reply so far does not count."""

    attempt: int
    """The one that failed, counted from 1; 0: none was made, it waits for others before the first."""
    seconds: float
    reason: str
    """One sentence."""
    status: int | None = None
    """Of HTTP, if it came to that."""


StreamItem: TypeAlias = Delta | Retry | Reply


@runtime_checkable
class Model(Protocol):
    """Answers requests. Any exception that `stream` raises is a failure of the model."""

    @property
    def name(self) -> str:
        """``provider:model``."""

    def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        """Yields the deltas of a reply, if there are any, and then the `Reply`; a `Retry` where it begins anew."""
