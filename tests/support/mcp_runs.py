"""Runs with the MCP server for tests: over stdio and HTTP, with connections that live across runs, or end with each."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import forked_servers
import pytest

from agentnb.agent.agent import Agent
from agentnb.core.log.events import ToolFinished
from agentnb.core.messages import ToolCall, ToolResult
from agentnb.detect.run import Run
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.mcp.mcp_server import MCPServer

PROGRAM = forked_servers.__file__
"""The server for tests: forked from one process where a test has the fixture `forked`, and else started afresh."""

ODD = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    answers = {
        "initialize": {"result": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                                  "serverInfo": {"name": "odd", "version": "1"}}},
        "tools/list": json.loads(sys.argv[1]),
        "tools/call": json.loads(sys.argv[2]) or {"result": {"content": json.dumps(asked.get("params", {}).get("arguments"))}},
    }
    told = asked.get("params", {}).get("_meta", {}).get("progressToken")
    if told is not None:
        told = {"progressToken": told, "progress": 1}
        print(json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": told}), flush=True)
    answer = answers.get(asked.get("method"), {"error": {"code": -32601, "message": "Method not found"}})
    if "id" in asked:
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **answer}), flush=True)
"""
"""A server that answers as its arguments say."""


def bench(*arguments: str, name: str = "bench", **settings: Any) -> MCPServer:
    """Return the server for tests, started as a program with these arguments."""
    return MCPServer(name, sys.executable, args=[PROGRAM, *arguments], **settings)


def odd(listed: dict[str, Any], result: Any = None, name: str = "odd") -> MCPServer:
    """Return a server with this answer to the request for its tools, and this result of each call, or answer with an error.

    Without a result, a call returns its arguments as text.
    """
    is_answer = result is None or (isinstance(result, dict) and "error" in result)
    called = result if is_answer else {"result": result}
    return MCPServer(name, sys.executable, args=["-c", ODD, json.dumps(listed), json.dumps(called)])


@pytest.fixture(scope="session")
def forked() -> Iterator[None]:
    """Have servers forked from a process that has imported what they need: each takes most of a second else."""
    if sys.platform != "linux":
        yield  # they are started afresh
        return
    program = [sys.executable, "-c", f"import forked_servers; forked_servers.serve({os.getpid()})"]
    environment = {**os.environ, "PYTHONPATH": str(Path(PROGRAM).parent)}
    with subprocess.Popen(program, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield
        process.stdin.close()


@pytest.fixture(scope="module", autouse=True)
def forked_where_used(request: pytest.FixtureRequest) -> None:
    """Have the servers of modules forked that use something of this one."""
    if any(getattr(used, "__module__", "") == __name__ for used in vars(request.module).values()):
        request.getfixturevalue("forked")


@pytest.fixture(scope="module")
def servers() -> Iterator[Servers]:
    """Connections of all tests of a module."""
    held = Servers()
    yield held
    held.close()


@contextmanager
def over_http(port: int = 0) -> Iterator[str]:
    """Serve the server for tests at a port of this machine, by default a free one, while the block runs; return its address."""
    program = [sys.executable, PROGRAM, str(port)]
    with subprocess.Popen(program, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        address = next(found[0] for line in process.stderr if (found := re.search(r"http://127\.0\.0\.1:\d+", line)))
        try:
            yield f"{address}/mcp"
        finally:
            process.kill()


def calls(*named: tuple[str, dict[str, Any]]) -> list[ToolCall]:
    """Return a reply that calls tools of the server, one after the other."""
    return [ToolCall(f"mcp_bench_{name}", arguments) for name, arguments in named]


def played(replies: Sequence[Any], tools: Sequence[Any], servers: Servers | None = None, **options: Any) -> Run:
    """Return the run of a scripted model that may call all tools. ``servers``: connections that outlive it."""
    agent = Agent(ScriptedModel([*replies, "Done."]), tools=tools, todos=False)
    with use_host(Host(servers=servers)):
        return agent.run_sync("Go.", **{"approve": "auto", **options})


def results(run: Run) -> list[ToolResult]:
    """Return the results of a run in the order in which they came."""
    return [event.result for event in run.events if isinstance(event, ToolFinished)]


def texts(run: Run) -> list[str]:
    """Return the texts of the results of a run."""
    return [" ".join(getattr(part, "text", "(picture)") for part in result.parts) for result in results(run)]


def process_of(text: str) -> int:
    """Return the process that the tool ``where`` names."""
    return int(text.rpartition(" ")[2])


def is_alive(process: int) -> bool:
    """Return whether a process runs; one that has ended and was not waited for does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        if not Path("/proc").exists():
            os.kill(process, 0)
            return True
        return False


def wait_until_ended(process: int) -> None:
    """Return when a process has ended; it need not be a child of this one."""
    subprocess.run(["tail", "--pid", str(process), "-f", os.devnull], check=True, timeout=60)
