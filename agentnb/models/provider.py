"""Provider-specific parts: where requests go, and two pure functions, from request to wire format and from stream to reply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from agentnb.core.log.events import ReplyDelta
from agentnb.core.request import Request
from agentnb.models.model import Reply
from agentnb.models.options import Options
from agentnb.models.traits import Traits
from agentnb.settings import Key

PART = 100
"""Minimum number of characters to count for each part of a reply, such as a call, even if it is empty."""
SEALED = 4
"""Number of characters of opaque data in a reply, such as a signature, that count as one."""


def sealed_length(value: Any) -> int:
    """Return the character count of opaque data, for limits."""
    try:
        return len(str(value)) // SEALED
    except RecursionError:  # nesting that is refused elsewhere
        return 0


DONE: dict[str, Any] = {"choices": [{"finish_reason": "stop"}]}
"""Chunk for the end marker ``[DONE]`` in the streams of OpenAI's APIs."""


class Reading(Protocol):
    """A reply being read from its stream."""

    @property
    def unshown(self) -> int:
        """Number of received characters that no delta shows: arguments of calls and other kept data, plus `PART` for each
        part.
        """

    @property
    def ended(self) -> bool:
        """True once the server has finished the reply: only its usage and the end of the stream may follow."""

    def take(self, chunk: Any) -> Iterable[ReplyDelta]:
        """Read the next chunk, as plain data, and return the deltas to show. Chunks of unknown kinds are ignored."""

    def reply(self) -> Reply:
        """Return the complete reply. Raises `CutOff` if the stream ended before the reply did."""


class CutOff(Exception):
    """The stream ended before the reply did."""


class ProviderError(NamedTuple):
    """Details of an SDK's error."""

    status: int | None
    """HTTP status, if there was a response."""
    name: str
    """The provider's error type or code."""
    message: str
    headers: Mapping[str, str]
    body: Any = None
    """Complete body of the error: some servers name the refused field outside the message."""


class Refused(Exception):
    """An error that the provider sent inside the stream, instead of a reply."""

    def __init__(self, details: ProviderError) -> None:
        super().__init__(details.message)
        self.details = details


class Sdk(Protocol):
    """A provider's library; it is imported nowhere else."""

    def client(self, url: str | None, key: Key | None, timeout: float) -> Any:
        """Return its asynchronous client, with its own retries off. Reveal the key only in the call that needs it."""

    def error_details(self, error: BaseException) -> ProviderError | None:
        """Return the details of a provider's error, or None for a connection error or any other exception."""


@dataclass(frozen=True, slots=True)
class Provider:
    """A way to call a model."""

    name: str
    sdk: Sdk
    path: str
    """Path below the URL of the server."""
    body: Callable[[str, Request, Options], bytes]
    """Encodes a request for the model with this name."""
    reading: Callable[..., Reading]
    """Creates the reader of a reply from the options of its request."""
    as_stream: Callable[[Any], Sequence[Any]]
    """Converts a complete reply to the chunks of a stream."""
    options: frozenset[str]
    """Options that it supports."""
    needs_key: bool = True
    sees: bool = True
    """True if its models accept images, unless the ``images`` option is set."""
    takes_schema: Callable[[dict[str, Any]], bool] = lambda schema: False
    """Returns whether its own server enforces this JSON Schema for answers; given a schema, other servers may ignore the
    tools.
    """
    thinks_by_budget: bool = False
    """True if requests can set the number of thinking tokens."""
    traits: Traits | None = None
    """Traits of its server, or None for an API that all servers implement in the same way."""
    url: str | None = None
    """URL of its server, if its library does not know it."""
    own_url: str | None = None
    """URL of its server, if its library knows it."""
    models_path: str = "/models"
    """Path of its list of models, or the URL of the list on its own server."""


COMMON_OPTIONS = frozenset({"max_tokens", "stop", "stream", "timeout", "stall", "images", "url", "key", "price", "retries"})
"""Options that all providers support."""
