"""Connections to providers: one client per event loop and endpoint, one limiter per account.

Clients are shared across the process, one per event loop, because a connection belongs to the loop that opened it. A host that
has its own limiters (`CallLimits`) shares them among its runs; all others are shared across the process.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from weakref import WeakSet

from agentnb.advice import Install
from agentnb.core.forks import after_fork
from agentnb.core.redaction import redact
from agentnb.errors import SettingsError
from agentnb.models.destinations.destination import is_local
from agentnb.models.provider import Sdk
from agentnb.models.transport.failure import readable
from agentnb.models.transport.limiter import CallLimiter, Limiter
from agentnb.models.transport.response_limit import bound
from agentnb.settings import Key


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The address for calls, and the key sent there."""

    provider: str
    url: str | None
    key: Key | None
    key_name: str = ""
    """The variable that holds the key, for messages to the person."""
    timeout: float = field(default=300.0)
    by_person: bool = field(default=False, compare=False)
    """True if the person named the model, and so chose the address and the key."""


_clients: dict[asyncio.AbstractEventLoop, dict[Endpoint, tuple[Any, AsyncIterator[None]]]] = {}
_of_the_parent: list[Any] = []
_lock = Lock()


class Account(NamedTuple):
    """The unit by which a provider counts calls, without the key itself."""

    provider: str
    key_name: str
    """The variable that holds the key; empty without a key."""
    url: str | None
    """The server, or None for the provider's own."""


def _usual(account: Account) -> CallLimiter:
    return Limiter(name=account.provider)


class CallLimits:
    """Limiters by account; an account is a key at a provider."""

    def __init__(self, make: Callable[[Account], CallLimiter] | None = None) -> None:
        """``make``: creates the limiter of an account; by default agentnb's own."""
        self._make = make or _usual
        self._limiters: dict[tuple[Key | None, str, str | None], CallLimiter] = {}
        self._lock = Lock()
        _all_limits.add(self)

    def of(self, endpoint: Endpoint) -> CallLimiter:
        """Return the limiter of this endpoint's account; providers that count a key's calls together share one."""
        account = endpoint.key, endpoint.key_name or endpoint.provider, endpoint.url
        with self._lock:
            if account not in self._limiters:
                self._limiters[account] = self._make(Account(endpoint.provider, endpoint.key_name, endpoint.url))
            return self._limiters[account]

    def begin_anew(self) -> None:
        """Drop all limiters, for example after a fork."""
        self._lock = Lock()  # a held lock of the parent process cannot be released here
        self._limiters = {}


_all_limits: WeakSet[CallLimits] = WeakSet()
current_limits: ContextVar[CallLimits] = ContextVar("current_limits", default=CallLimits())  # noqa: B039  # shared on purpose
"""Limiters for calls in this context: those of the run's host if it has its own, otherwise those of the process, since a
provider counts all calls with a key.
"""


def limiter_of(endpoint: Endpoint) -> CallLimiter:
    """Return the limiter for calls to this endpoint in this context."""
    return current_limits.get().of(endpoint)


def _begin_anew() -> None:
    """Reset after a fork: the event loops and calls of the parent process do not continue here, and its lock may be held."""
    global _lock  # noqa: PLW0603  # a held lock cannot be released here
    _lock = Lock()
    _of_the_parent.append(dict(_clients))  # kept: collecting them would touch connections that the parent still uses
    _clients.clear()
    for limits in [*_all_limits]:
        limits.begin_anew()


after_fork(_begin_anew)


async def client_of(endpoint: Endpoint, sdk: Sdk) -> Any:
    """Return the running event loop's client for this endpoint. Raises `SettingsError` if the environment prevents one."""
    loop = asyncio.get_running_loop()
    with _lock:
        mine = _clients.get(loop)
        if mine is None:
            for closed in [candidate for candidate in _clients if candidate.is_closed()]:
                del _clients[closed]  # it was closed without an orderly shutdown
            mine = _clients[loop] = {}
    if endpoint not in mine:
        # The first import of a library takes a second: the event loop must stay free to handle a stop.
        client = await loop.run_in_executor(None, _make_client, endpoint, sdk)
        if isinstance(client, SettingsError):
            raise client
        if endpoint not in mine:
            lifetime = _open_until_the_loop_ends(client, loop)
            await anext(lifetime)
            mine[endpoint] = client, lifetime
    return mine[endpoint][0]


def text_of(key: Key | None) -> str:
    """Return the key as plain text, for a library. Never put it in a variable: tracebacks may show variables."""
    return key.reveal() if key is not None else "none"


def http_settings(url: str | None) -> dict[str, Any]:
    """Return the HTTP settings of every client.

    No redirect is followed: it would carry the key and the conversation to another server. Servers on this machine are called
    without the environment's proxy: it is not meant for them.
    """
    import httpx2

    limits = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
    settings: dict[str, Any] = {"follow_redirects": False, "limits": limits, "event_hooks": {"response": [bound]}}
    return settings | {"transport": httpx2.AsyncHTTPTransport(limits=limits)} if is_local(url) else settings


def is_at(url: str | None, host: str) -> bool:
    """Return whether the URL is the provider's own: None, or an https URL on this host."""
    if url is None:
        return True
    parts = urlsplit(url)
    return parts.scheme == "https" and f".{parts.hostname}".endswith(f".{host}")


def _make_client(endpoint: Endpoint, sdk: Sdk) -> Any:
    """Return the client or the error. Raising the error here would put a frame with a key in its traceback."""
    try:
        return sdk.client(endpoint.url, endpoint.key, endpoint.timeout)
    except (ImportError, ValueError, OSError) as error:
        return _no_client(endpoint.provider, error, redact(str(error)))


def _no_client(provider: str, error: Exception, told: str) -> SettingsError:
    if isinstance(error, OSError):
        problem = "the certificates set in the environment cannot be read"
        return SettingsError(f"{provider}: {problem}", "Check the variables SSL_CERT_FILE and SSL_CERT_DIR")
    if isinstance(error, ImportError) and "socks" not in told.lower():
        return SettingsError(f"{provider}: its library cannot be loaded ({readable(told)})", "Reinstall agentnb")
    if isinstance(error, ImportError):
        return SettingsError(
            f"{provider}: the environment sets a SOCKS proxy, but the package socksio is not installed",
            Install("socksio", lead="Install it", rest=". Or check the variables ALL_PROXY, HTTPS_PROXY and HTTP_PROXY"),
        )
    # The error's text is not repeated: the URL of a proxy may hold a password.
    problem = "the environment sets an unusable proxy or has other invalid settings"
    return SettingsError(f"{provider}: {problem}", "Check the variables ALL_PROXY, HTTPS_PROXY and HTTP_PROXY")


async def _open_until_the_loop_ends(client: Any, loop: asyncio.AbstractEventLoop) -> AsyncIterator[None]:
    # An event loop closes its asynchronous generators when it shuts down: the only moment to close connections properly.
    try:
        yield
    finally:
        with _lock:
            _clients.pop(loop, None)
        await client.close()
