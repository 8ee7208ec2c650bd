"""The parts specific to a provider: where its requests go, and two pure functions, request to wire and stream to reply."""

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
"""Characters that a part of a reply counts for, such as a call, even if nothing is in it."""
SEALED = 4
"""Characters of opaque data in a reply, such as a signature, that count as one."""


def sealed_length(value: Any) -> int:
    """Return how many characters opaque data counts for."""
    try:
        return len(str(value)) // SEALED
    except RecursionError:  # nested so deep that it is refused elsewhere
        return 0


DONE: dict[str, Any] = {"choices": [{"finish_reason": "stop"}]}
"""The chunk for the mark ``[DONE]``, with which servers of OpenAI's APIs end a stream."""


class Reading(Protocol):
    """A reply being read from its stream."""

    @property
    def unshown(self) -> int:
        """How many characters came that no delta has shown: arguments of calls and what else is kept, `PART` for each part."""

    @property
    def ended(self) -> bool:
        """Whether the server has finished the reply: what may still come is its usage, and the end of the stream."""

    def take(self, chunk: Any) -> Iterable[ReplyDelta]:
        """Read the next chunk, as plain data, and return the deltas to show. Chunks of unknown kinds are ignored."""

    def reply(self) -> Reply:
        """Return the whole reply. Raises `CutOff` if the stream ended before the reply did."""


class CutOff(Exception):
    """The stream ended before the reply did."""


class ProviderError(NamedTuple):
    """The details of an SDK's error."""

    status: int | None
    """HTTP status, if there was a response."""
    name: str
    """The type or code, in the provider's words."""
    message: str
    headers: Mapping[str, str]
    body: Any = None
    """The whole body of the error: some servers name the field that they refuse apart from the message."""


class Refused(Exception):
    """An error that the provider sent inside the stream, instead of a reply."""

    def __init__(self, details: ProviderError) -> None:
        super().__init__(details.message)
        self.details = details


class Sdk(Protocol):
    """The library of a provider, imported nowhere else."""

    def client(self, url: str | None, key: Key | None, timeout: float) -> Any:
        """Return its asynchronous client, with its own retries off. Reveal the key only where it is handed over."""

    def error_details(self, error: BaseException) -> ProviderError | None:
        """Return the details of a provider's error; None for a connection error or any other exception."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One way to call a model."""

    name: str
    sdk: Sdk
    path: str
    """Path below the URL of the server."""
    body: Callable[[str, Request, Options], bytes]
    """Makes the wire form of a request, given the model's name."""
    reading: Callable[..., Reading]
    """Makes the reader of a reply, given the options of its request."""
    as_stream: Callable[[Any], Sequence[Any]]
    """Turns a reply that came whole into the chunks of a stream."""
    options: frozenset[str]
    """The options it supports."""
    needs_key: bool = True
    sees: bool = True
    """Whether its models take images, unless the ``images`` option is set."""
    takes_schema: Callable[[dict[str, Any]], bool] = lambda schema: False
    """Whether its own server holds a model to this JSON Schema of answers; another server may leave out the tools then."""
    thinks_by_budget: bool = False
    """Whether requests can set a number of tokens for thinking."""
    traits: Traits | None = None
    """Traits of its server; None for a wire that servers do not vary."""
    url: str | None = None
    """URL of its server, if its library does not know it."""
    own_url: str | None = None
    """URL of its server, if its library knows it."""
    models_path: str = "/models"
    """Path of its list of models, or the URL of the list of its own server."""


COMMON_OPTIONS = frozenset({"max_tokens", "stop", "stream", "timeout", "stall", "images", "url", "key", "price", "retries"})
"""Options that all providers support."""
