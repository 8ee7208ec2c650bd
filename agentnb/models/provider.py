"""What is particular to a provider: where its requests go, and two pure functions, request to wire and stream to reply."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from agentnb.core.events import Delta
from agentnb.core.request import Request
from agentnb.models.model import Reply
from agentnb.models.options import Options
from agentnb.settings import Key


class Reading(Protocol):
    """One reply while it is read off its stream."""

    def take(self, chunk: Any) -> Iterable[Delta]:
        """Take in the next piece, as plain data; returns what may be shown of it. Of what it does not know it takes nothing."""

    def reply(self) -> Reply:
        """All of it. Raises `CutOff` if the stream has ended before the reply did."""


class CutOff(Exception):
    """The stream ended, and the reply had not."""


class ProviderError(NamedTuple):
    """What an error of an SDK says."""

    status: int | None
    """Of HTTP, if it came to an answer."""
    name: str
    """The type or code, in the provider's words."""
    message: str
    headers: Mapping[str, str]


class Refused(Exception):
    """Inside the stream, the provider said this instead of a reply."""

    def __init__(self, details: ProviderError) -> None:
        super().__init__(details.message)
        self.details = details


class Sdk(Protocol):
    """The library of a provider: the only place where it is imported."""

    def client(self, url: str | None, key: Key | None, timeout: float) -> Any:
        """Its asynchronous client, without retries of its own. The key is revealed only where it is handed over."""

    def stream_class(self) -> Any:
        """Its class of streams."""

    def error_details(self, error: BaseException) -> ProviderError | None:
        """What the error says, if it is one of the provider; None for one of the connection, or of nobody."""


@dataclass(frozen=True, slots=True)
class Provider:
    """One way to call a model."""

    name: str
    sdk: Sdk
    path: str
    """Below the URL of the server."""
    body: Callable[[str, Request, Options], bytes]
    """The wire form of a request for the model of this name."""
    reading: Callable[[], Reading]
    as_stream: Callable[[Any], Sequence[Any]]
    """A reply that came whole, as the pieces of a stream."""
    options: frozenset[str]
    """The options it knows."""
    needs_key: bool = True
    sees: bool = True
    """Whether its models can see, if nobody says otherwise."""
    thinks_by_budget: bool = False
    """Whether a number of tokens to think with can be asked for."""
    url: str | None = None
    """Where it is, if its library does not know."""
    models_path: str = "/models"
    """Where it lists its models."""


COMMON_OPTIONS = frozenset({"max_tokens", "stop", "stream", "timeout", "stall", "images", "url", "key", "price"})
"""Options that all providers know."""
