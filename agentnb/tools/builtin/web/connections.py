"""Connections to servers whose addresses were judged: the address that is judged is the address that is used."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterable
from typing import Any

from agentnb.tools.builtin.web.addresses import check_addresses, refused_host
from agentnb.tools.builtin.web.errors import no_certificates, not_resolved

MAX_ADDRESSES = 4
"""Addresses of a host that are tried, one after the other."""
CONNECT_SECONDS = 5.0


async def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a host. With `connect`, all that reaches the network: tests replace the two."""
    entries = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


async def connect(address: str, port: int) -> Any:
    """Return a connection to an IP address."""
    from httpcore2 import AnyIOBackend

    return await AnyIOBackend().connect_tcp(address, port, timeout=CONNECT_SECONDS)


async def connection_pool(*, is_local: bool) -> Any:
    """Return an HTTP client that keeps no cookies, reads no proxy from the environment, and judges where it connects.

    Raises `ToolRefused` if the certificates to trust cannot be read.
    """
    import httpcore2

    try:
        trusted = await asyncio.to_thread(httpcore2.default_ssl_context)
    except OSError:
        raise no_certificates() from None
    backend: Any = _JudgedConnections(is_local)
    return httpcore2.AsyncConnectionPool(ssl_context=trusted, network_backend=backend, http2=False, retries=0)


class _JudgedConnections:
    """A network backend of httpcore2 that resolves each name once, judges all its addresses and connects to these."""

    def __init__(self, is_local: bool) -> None:
        self._is_local = is_local

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109  # as httpcore2 calls it
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> Any:
        """Return a connection to the host."""
        try:
            addresses = await resolve(host, port)
        except (OSError, UnicodeError):
            raise not_resolved(host) from None
        if not self._is_local:
            check_addresses(host, addresses)
        stream = await _first_connection(addresses[:MAX_ADDRESSES], port)
        if not self._is_local and _is_own(stream):
            await stream.aclose()
            raise refused_host(host, addresses)
        return stream

    async def connect_unix_socket(self, path: str, *_: Any, **__: Any) -> Any:
        """Refuse: no page is behind a socket of this machine."""
        raise refused_host(path, [])

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)


async def _first_connection(addresses: list[str], port: int) -> Any:
    from httpcore2 import ConnectError, ConnectTimeout

    problem: Exception = ConnectError("no address")
    for address in addresses:
        try:
            return await connect(address, port)
        except (ConnectError, ConnectTimeout) as error:
            problem = error
    raise problem


def _is_own(stream: Any) -> bool:
    """Return whether a connection ends at this machine, by a public address of its own."""
    ends = [stream.get_extra_info(name) for name in ("client_addr", "server_addr")]
    return None not in ends and ends[0][0] == ends[1][0]


def tls_problem(error: BaseException) -> str:
    """Return why TLS failed; empty if the error is another one."""
    cause = error.__cause__ or error.__context__
    if isinstance(cause, ssl.SSLCertVerificationError):
        return cause.verify_message.rstrip(".")
    return (cause.reason or "TLS failed").replace("_", " ").lower() if isinstance(cause, ssl.SSLError) else ""
