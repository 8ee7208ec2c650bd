"""Plain HTTP client for a loopback server, including requests that no library sends."""

from __future__ import annotations

import base64
import json
from http.client import HTTPConnection, HTTPResponse
from typing import Any, NamedTuple

from agentnb.testing import LoopbackServer

PATHS = {"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"}
HEADERS = {"authorization": "Bearer secret", "anthropic-version": "2026-10-21", "content-type": "application/json"}
PNG = base64.b64encode(b"\x89PNG\r\n\x1a\n").decode()
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}}
MINIMAL: dict[str, dict[str, Any]] = {
    "messages": {"model": "loopback", "max_tokens": 100, "messages": [{"role": "user", "content": "Hi"}]},
    "chat": {"model": "loopback", "messages": [{"role": "user", "content": "Hi"}]},
    "responses": {"model": "loopback", "store": False, "input": [{"role": "user", "content": "Hi"}]},
}


class Answered(NamedTuple):
    status: int
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return json.loads(self.raw)

    @property
    def events(self) -> list[tuple[str | None, Any]]:
        """Names and data of the events of a stream, exactly as they came."""
        found = []
        for block in self.raw.decode().split("\n\n")[:-1]:
            lines = dict(line.split(": ", 1) for line in block.split("\n"))
            data = lines["data"]
            found.append((lines.get("event"), data if data == "[DONE]" else json.loads(data)))
        return found


def connect(server: LoopbackServer) -> HTTPConnection:
    return HTTPConnection(server.url.removeprefix("http://"), timeout=10)


def begin(connection: HTTPConnection, wire: str, body: Any = None, headers: dict[str, str] | None = None) -> HTTPResponse:
    raw = body if isinstance(body, bytes) else json.dumps(MINIMAL[wire] if body is None else body).encode()
    connection.request("POST", PATHS[wire], raw, HEADERS if headers is None else headers)
    return connection.getresponse()


def post(server: LoopbackServer, wire: str, body: Any = None, headers: dict[str, str] | None = None) -> Answered:
    connection = connect(server)
    try:
        response = begin(connection, wire, body, headers)
        return Answered(response.status, {name.lower(): value for name, value in response.getheaders()}, response.read())
    finally:
        connection.close()


def streamed(wire: str, **fields: Any) -> dict[str, Any]:
    """The smallest request for a stream."""
    return {**MINIMAL[wire], "stream": True, **fields}
