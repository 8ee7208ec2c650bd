"""The socket through which an external agent reaches functions of the notebook: whatever comes there, others are served."""

from __future__ import annotations

import asyncio
import json
import os
import stat
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agentnb.acp import door
from agentnb.acp.door import Door
from agentnb.core.request import ToolSpec
from agentnb.tools.rendering import success
from agentnb.tools.tool import ToolOutcome

SPEC = ToolSpec("total", "Add numbers.", {"type": "object", "properties": {"numbers": {"type": "array"}}})
SECONDS = 10
HELLO = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}


def line(method: str, number: int | None = None, **params: Any) -> bytes:
    numbered = {} if number is None else {"id": number}
    return json.dumps({"jsonrpc": "2.0", **numbered, "method": method, "params": params}).encode() + b"\n"


BEGIN = line("initialize", 1, **HELLO) + line("notifications/initialized")
CALL = line("tools/call", 2, name="total", arguments={"numbers": [1]})
ATTACKS: Mapping[str, bytes] = {
    "nothing": b"",
    "no JSON": b"this is no JSON\n",
    "bytes that are no text": b"\xff\xfe\n",
    "half a message": b'{"jsonrpc": "2.0"',
    "a call before the beginning": CALL,
    "a line without an end": b"x" * 300_000,
    "a message that is too long": b"x" * 300_000 + b"\n" + BEGIN,
    "a function that is not offered": BEGIN + line("tools/call", 2, name="bash", arguments={"command": "ls"}),
    "a name that is a list": BEGIN + line("tools/call", 2, name=["total"], arguments={}),
    "arguments that are a list": BEGIN + line("tools/call", 2, name="total", arguments=[1]),
    "a method that is not served": BEGIN + line("resources/read", 2, uri="file:///etc/passwd"),
    "an answer to no question": BEGIN + b'{"jsonrpc": "2.0", "id": 77, "result": {}}\n',
    "a call, and gone": BEGIN + CALL,
    "many calls, and gone": BEGIN + CALL * 50,
}


async def _close(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()


async def _answer(socket: Path, secret: bytes) -> str:
    """Call the function as a client does that behaves, and return the text of the answer."""
    reader, writer = await asyncio.open_unix_connection(socket)
    writer.write(secret + BEGIN + CALL)
    while (message := json.loads(await reader.readline())).get("id") != 2:
        pass
    await _close(writer)
    return str(message["result"]["content"][0]["text"])


def test_other_connections_are_served_during_socket_attacks(
    subtests: pytest.Subtests, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "MAX_LINE_BYTES", 100_000)
    called: list[tuple[str, Any]] = []

    async def call(name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        called.append((name, arguments))
        return success("1")

    async def play() -> None:
        opened = Door([SPEC], call)
        entry = await opened.open(os.getpid())
        socket, secret = Path(entry["args"][-1]), entry["env"][0]["value"].encode() + b"\n"
        assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
        for name, data in ATTACKS.items():
            with subtests.test(name):
                _, writer = await asyncio.open_unix_connection(socket)
                writer.write(secret + data)
                await writer.drain()
                if "gone" in name:
                    await _close(writer)
                assert await _answer(socket, secret) == "1"
                await _close(writer)
        with subtests.test("many connections"):
            idle = [await asyncio.open_unix_connection(socket) for _ in range(100)]
            assert await asyncio.gather(*[_answer(socket, secret) for _ in range(20)]) == ["1"] * 20
            await _close(*[writer for _, writer in idle])
        await opened.close()
        assert not socket.parent.exists()

    asyncio.run(asyncio.wait_for(play(), SECONDS))
    assert {name for name, _ in called} == {"total"}
    assert all(arguments == {"numbers": [1]} for _, arguments in called)


STRANGERS: Mapping[str, bytes] = {
    "no secret": b"",
    "an empty secret": b"\n",
    "another secret": b"0" * 64 + b"\n",
    "half of the secret": b"HALF\n",
    "a secret without an end": b"x" * 300_000,
}


def test_socket_rejects_calls_from_strangers(subtests: pytest.Subtests, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(door, "MAX_LINE_BYTES", 100_000)
    called: list[str] = []

    async def call(name: str, arguments: Mapping[str, Any]) -> ToolOutcome:
        called.append(name)
        return success("1")

    async def knock(owner: int, secret: bytes | None = None) -> bytes:
        """Call the function, by default with the right secret, and return everything that comes back."""
        opened = Door([SPEC], call)
        entry = await opened.open(owner)
        right = entry["env"][0]["value"].encode()
        first_line = right + b"\n" if secret is None else secret.replace(b"HALF", right[:32])
        reader, writer = await asyncio.open_unix_connection(entry["args"][-1])
        writer.write(first_line + BEGIN + CALL)
        answer = b""
        with suppress(OSError):  # closed with something unread
            answer = await asyncio.wait_for(reader.read(), SECONDS)
        await _close(writer)
        await opened.close()
        return answer

    for name, secret in STRANGERS.items():
        with subtests.test(name):
            assert asyncio.run(knock(os.getpid(), secret)) == b""
    with subtests.test("another program"), subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as agent:
        if sys.platform == "linux":
            assert asyncio.run(knock(agent.pid)) == b""
        agent.kill()
    assert called == []
