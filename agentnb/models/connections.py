"""The connections to providers: one client for an event loop and endpoint, one limiter for an endpoint.

This is the one state that the whole process shares. It must be: a provider counts the calls of a key, whoever makes them,
and a connection is for the event loop it was opened on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from agentnb.models.limiter import Limiter
from agentnb.models.provider import Sdk
from agentnb.settings import Key


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where calls go, and with which key."""

    provider: str
    url: str | None
    key: Key | None
    key_name: str = ""
    """The variable of the key, for what people are told."""
    timeout: float = field(default=300.0)


_clients: dict[asyncio.AbstractEventLoop, dict[Endpoint, tuple[Any, AsyncIterator[None]]]] = {}
_limiters: dict[tuple[str, str | None], Limiter] = {}
_lock = Lock()


def limiter_of(endpoint: Endpoint) -> Limiter:
    """The limiter of this provider; providers that count the calls of one key together have one together."""
    with _lock:
        return _limiters.setdefault((endpoint.key_name or endpoint.provider, endpoint.url), Limiter())


async def client_of(endpoint: Endpoint, sdk: Sdk) -> Any:
    """The client of the running event loop for this endpoint."""
    loop = asyncio.get_running_loop()
    with _lock:
        mine = _clients.get(loop)
        if mine is None:
            for closed in [other for other in _clients if other.is_closed()]:
                del _clients[closed]  # it did not end in order
            mine = _clients[loop] = {}
    if endpoint not in mine:
        key = endpoint.key.reveal() if endpoint.key is not None else "none"
        # The first import of a library takes a second: the loop should hear a stop meanwhile.
        client = await loop.run_in_executor(None, sdk.client, endpoint.url, key, endpoint.timeout)
        if endpoint not in mine:
            lifetime = _open_until_the_loop_ends(client, loop)
            await anext(lifetime)
            mine[endpoint] = client, lifetime
    return mine[endpoint][0]


async def _open_until_the_loop_ends(client: Any, loop: asyncio.AbstractEventLoop) -> AsyncIterator[None]:
    # A loop closes the asynchronous generators begun on it when it shuts down: the one moment to close connections properly.
    try:
        yield
    finally:
        with _lock:
            _clients.pop(loop, None)
        await client.close()
