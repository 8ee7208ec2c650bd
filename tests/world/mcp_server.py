"""An MCP server as people run them: its tools go through each strict wire, and of each wire a call is made of it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from counterpart_cases import Case
from environments import Environment

from agentnb.agent.agent import Agent
from agentnb.core.log.events import ToolFinished
from agentnb.core.messages import Text, ToolCall
from agentnb.runtime.host.host import Host, hosted
from agentnb.runtime.servers.servers import Servers
from agentnb.testing import LoopbackServer
from agentnb.tools.mcp.server import MCPServer
from agentnb.tools.mcp.wire_names import wire_name

WIRES = {"Chat": "openai", "Responses": "openai-responses", "Messages": "anthropic"}
SECONDS = 120.0


def cases(row: dict[str, Any], environment: Environment) -> Iterator[Case]:
    """Yield a run on each strict wire with all tools of the server, of which it calls the one that the row names."""
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for name, text in row.get("files", {}).items():
            (folder / name).write_text(text, encoding="utf-8")
        placed = {"folder": made, "environment": environment.folder}
        server = MCPServer(
            "tried",
            environment.program(row["command"]),
            args=[argument.format(**placed) for argument in row.get("args", [])],
            env={"PATH": f"{environment.path}:{os.environ['PATH']}", **row.get("env", {})},
            cwd=folder,
            timeout=SECONDS,
        )
        arguments = {name: _placed(value, placed) for name, value in row.get("arguments", {}).items()}
        servers = Servers()
        with hosted(Host(servers=servers)):
            for wire, provider in WIRES.items():
                left_out = row.get("left_out", [])
                yield Case(wire, "; ".join(_problems(servers, server, provider, row["call"], arguments, left_out)))
        servers.close()


def _placed(value: Any, placed: dict[str, Any]) -> Any:
    return value.replace("{folder}", placed["folder"]) if isinstance(value, str) else value


def _problems(
    servers: Servers, server: MCPServer, provider: str, tool: str, arguments: dict[str, Any], left_out: list[str]
) -> Iterator[str]:
    """Yield what is wrong with a run that calls a tool of the server once. ``left_out``: the tools that it has to set aside."""
    call = ToolCall(wire_name(server.name, tool), arguments)
    with LoopbackServer([call, "Done."]) as strict:
        run = Agent(strict.model(provider), tools=[server], todos=False).run_sync("Go.", approve="auto")
        yield from strict.problems
    if run.status != "completed":
        yield f"{run.status}: {run.error or run.stop_reason}"
        return
    results = [event.result for event in run.events if isinstance(event, ToolFinished)]
    if not results:
        yield "no call was made"
    for result in results:
        if result.is_error:
            yield f"{tool}: {' '.join(part.text for part in result.parts if isinstance(part, Text))}"
    offered = {one.name for one in run.tools}
    listed = {name for live in servers.used for name in (*live.set_aside, *[one.name for one in live.tools])}
    for name in sorted({name for name in listed if wire_name(server.name, name) not in offered} ^ {*left_out}):
        yield f"{name} is {'offered' if name in left_out else 'left out'}"
