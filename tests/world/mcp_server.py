"""An MCP server as people run them: its tools go through each strict wire, and of each wire a call is made of it."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from counterpart_cases import Case, placed
from environments import Environment

from agentnb.agent.agent import Agent
from agentnb.core.log.events import ToolFinished
from agentnb.core.messages import Text, ToolCall
from agentnb.errors import AgentnbError
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.servers.servers import Servers
from agentnb.testing import LoopbackServer
from agentnb.tools.mcp import tool_search
from agentnb.tools.mcp.mcp_server import MCPServer
from agentnb.tools.mcp.wire_names import wire_name

WIRES = {"Chat": "openai", "Responses": "openai-responses", "Messages": "anthropic"}
SECONDS = 120.0
tool_search.MAX_OFFERED = 1_000  # so that each of them goes through the wires
TRIED = "its tools through the strict wires; a call on each"


def cases(row: dict[str, Any], environment: Environment) -> Iterator[Case]:
    """Yield a run on each strict wire with all tools of the server, of which it calls the one that the row names."""
    for wire, provider in WIRES.items():
        with tempfile.TemporaryDirectory() as folder:
            yield Case(wire, "; ".join(_problems(placed(row, folder=folder), environment, Path(folder), provider)))


def _server(row: dict[str, Any], environment: Environment, folder: Path) -> MCPServer:
    """Return the server, which starts in this folder."""
    for name, text in row.get("files", {}).items():
        (folder / name).write_text(text, encoding="utf-8")
    if "before" in row:
        subprocess.run(row["before"], cwd=folder, check=True)
    return MCPServer(
        "tried",
        environment.program(row.get("command", row["name"])),
        args=row.get("args", []),
        env={"PATH": f"{environment.path}:{os.environ['PATH']}", **row.get("env", {})},
        cwd=folder,
        timeout=SECONDS,
    )


def _problems(row: dict[str, Any], environment: Environment, folder: Path, provider: str) -> Iterator[str]:
    """Yield what is wrong with a run that calls a tool of the server once."""
    server, servers = _server(row, environment, folder), Servers()
    call = ToolCall(wire_name(server.name, row["call"]), row.get("arguments", {}))
    with LoopbackServer([call, "Done."]) as strict, use_host(Host(servers=servers)):
        try:
            run = Agent(strict.model(provider), tools=[server], todos=False).run_sync("Go.", approve="auto")
        except AgentnbError as error:
            yield str(error)
            return
        finally:
            listed = {name for live in servers.used for name in (*live.set_aside, *[one.name for one in live.tools])}
            servers.close()
            yield from strict.problems
    if run.status != "completed":
        yield f"{run.status}: {run.error or run.stop_reason}"
    results = [event.result for event in run.events if isinstance(event, ToolFinished)]
    if not results:
        yield "no call was made"
    for result in results:
        if result.is_error:
            yield f"{row['call']}: {' '.join(part.text for part in result.parts if isinstance(part, Text))}"
    offered, left_out = {one.name for one in run.tools}, {*row.get("left_out", [])}
    for name in sorted({name for name in listed if wire_name(server.name, name) not in offered} ^ left_out):
        yield f"{name} is {'offered' if name in left_out else 'left out'}"
