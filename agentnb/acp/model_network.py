"""The network of an agent in a sandbox: a proxy that connects it with the hosts of its model only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

from agentnb.acp.bridge import CHUNK, PROXY
from agentnb.acp.door import Connections
from agentnb.acp.known_agents import KnownAgent
from agentnb.errors import ModelError, SettingsError
from agentnb.models.destinations.destination import destination_of, is_local

OF_ADDRESSES = "BASE_URL"
"""Suffix of variables that hold the address of a model."""
HOP_BY_HOP = (b"connection:", b"keep-alive:", b"proxy-")
"""Prefixes of headers between a client and its proxy."""
END_OF_HEAD = b"\r\n\r\n"
MAX_REFUSED = 20
"""Maximum number of refused addresses that are kept."""
MAX_HOST_CHARACTERS = 253
"""Maximum length of a host's name, as in DNS."""
FIRST_FREE_PORT = 1024
"""First port that needs no privileges."""


def address_of(text: str, where: str = "of a model's host") -> str:
    """Return ``HOST:PORT`` for a URL, ``HOST:PORT``, or ``HOST`` with the port 443. Raises `SettingsError`.

    ``where``: origin of the address, for the error.
    """
    try:
        address, _, _ = text.partition("?")
        server = destination_of(address if "://" in address else f"https://{address}")
        if len(server.host) > MAX_HOST_CHARACTERS:
            raise SettingsError("The host is too long")
    except SettingsError as error:
        advice = "Write HOST, HOST:PORT or a URL, such as api.example.org or http://127.0.0.1:1234/v1"
        raise SettingsError(f"The address {where} is invalid", advice) from error
    return f"{server.host}:{server.port}"


def model_addresses(agent: KnownAgent, model: str, variables: Mapping[str, str], named: Iterable[str]) -> frozenset[str]:
    """Return the addresses, as ``HOST:PORT``, that an agent needs to reach its model. Raises `SettingsError`.

    ``variables``: those that it receives; ``named``: hosts that the person names in place of those in the agent's entry.
    """
    usual = (*agent.hosts, *agent.providers.get(model.partition("/")[0], ()))
    of_variables = [address_of(text, f"in {name}") for name, text in variables.items() if name.endswith(OF_ADDRESSES) and text]
    return frozenset((*map(address_of, tuple(named) or usual), *of_variables))


class ModelNetwork:
    """Sockets in a folder: one for a proxy, and one for each port of this machine that the agent may reach.

    Used on one event loop. Names are resolved here, since the sandbox has no network.
    """

    def __init__(self, folder: Path, addresses: frozenset[str]) -> None:
        """``addresses``: the permitted ones, as ``HOST:PORT``."""
        self._folder, self._addresses = folder, addresses
        self._refused: dict[str, None] = {}
        self._connections = Connections()

    async def open(self) -> None:
        """Open the sockets. Raises `ModelError`."""
        local = {address.rpartition(":")[2]: address for address in self._addresses if is_local(f"http://{address}")}
        for port, address in local.items():
            if int(port) < FIRST_FREE_PORT:
                problem = f"An agent in a sandbox cannot reach {address}: ports below {FIRST_FREE_PORT} need privileges"
                raise ModelError(problem, "Let the model's server listen on a higher port")
        try:
            for name, address in {PROXY: "", **local}.items():
                await self._connections.listen(self._folder / name, partial(self._serve, address), CHUNK)
        except OSError as error:
            location = f"No socket for the model could be created in {self._folder}"
            raise ModelError(f"{location}: {error.strerror or error}") from error

    async def close(self) -> None:
        """Close the sockets and all connections."""
        await self._connections.close()

    @property
    def warning(self) -> str:
        """Sentence about refused connections, or ""."""
        return f"The sandbox refused connections to {', '.join(self._refused)}" if self._refused else ""

    async def _serve(self, address: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a client: connect it with an address, or else with the one that it requests."""
        with suppress(OSError, EOFError, asyncio.LimitOverrunError):  # the client has ended or sends no request
            if address:
                await self._connect(address, b"", b"", reader, writer)
            else:
                await self._serve_request(await reader.readuntil(END_OF_HEAD), reader, writer)

    async def _serve_request(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a request to the proxy: ``CONNECT HOST:PORT``, or a method with an ``http://`` URL."""
        request, *headers = head.removesuffix(END_OF_HEAD).split(b"\r\n")
        method, _, target = request.decode("latin-1").rpartition(" ")[0].partition(" ")
        scheme, _, location = ("https", "", target) if method == "CONNECT" else target.partition("://")
        authority = location.replace("?", "/").partition("/")[0]
        path = location.removeprefix(authority).removeprefix("/")
        try:
            if method != "CONNECT" and scheme.lower() != "http":  # it would be sent in clear text
                raise SettingsError("The URL has another scheme")
            address = address_of(f"{scheme}://{authority}")
        except SettingsError:
            await _answer(writer, "400 Bad Request", "The sandbox forwards CONNECT requests, and requests for an http:// URL.")
            return
        if address not in self._addresses:
            if len(self._refused) < MAX_REFUSED:
                self._refused[address] = None
            await _answer(writer, "403 Forbidden", f"The sandbox connects to the hosts of the model only, not to {address}.")
        elif method == "CONNECT":
            await self._connect(address, b"", b"HTTP/1.1 200 Connection established" + END_OF_HEAD, reader, writer)
        else:  # one request for each connection, since the next one may be for another host
            kept = [line for line in headers if not line.lower().startswith(HOP_BY_HOP)]
            first = [f"{method} /{path} HTTP/1.1".encode("latin-1"), *kept, b"Connection: close"]
            await self._connect(address, b"\r\n".join(first) + END_OF_HEAD, b"", reader, writer)

    async def _connect(
        self, address: str, first: bytes, answer: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Connect a client with an address. ``first``: bytes to send there first; ``answer``: first bytes for the client."""
        host, _, port = address.rpartition(":")
        try:
            incoming, outgoing = await asyncio.open_connection(host.strip("[]"), int(port))
        except (OSError, UnicodeError) as error:  # the latter for a name such as a..b
            await _answer(writer, "502 Bad Gateway", f"{address} cannot be reached: {error}")
            return
        try:
            outgoing.write(first)
            writer.write(answer)
            await asyncio.gather(_copy(reader, outgoing), _copy(incoming, writer))
        finally:
            outgoing.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()
    with suppress(OSError):
        writer.write_eof()


async def _answer(writer: asyncio.StreamWriter, status: str, text: str) -> None:
    body = f"{text}\n".encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: text/plain\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    writer.write(head.encode() + body)
    await writer.drain()
