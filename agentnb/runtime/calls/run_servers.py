"""The MCP servers of one run: connected before its first round, and looked at before each further one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from agentnb.core.log.work_events import ServerStarted
from agentnb.core.messages import encodable, visible
from agentnb.errors import UnknownTool, nearest
from agentnb.runtime.calls.run_tools import RunTools
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.servers.servers import Servers
from agentnb.runtime.servers.sightings import Sightings
from agentnb.tools.mcp.live_server import LiveServer
from agentnb.tools.mcp.server import ServerTools
from agentnb.tools.mcp.server_tool import MCPTool, problem_of
from agentnb.tools.mcp.wire_names import WireNames


class RunServers:
    """The servers that a run names."""

    def __init__(self, log: EventLog, items: Sequence[ServerTools], servers: Servers, work_dir: Path, *, owns: bool) -> None:
        """``owns``: whether the connections end with the run."""
        self._log = log
        self._items = items
        self._servers = servers
        self._work_dir = work_dir
        self._owns = owns
        self._live: list[tuple[ServerTools, LiveServer]] = []
        self._seen: dict[LiveServer, int] = {}
        """The version of each server's tools that the run has."""
        self._offers: list[RunTools] = []
        self._sightings = Sightings(log)

    def serve(self, tools: RunTools) -> None:
        """Have these tools of the run include those of the servers, from `connect` on."""
        self._offers.append(tools)

    @property
    def has_news(self) -> bool:
        """Whether a server has other tools than the run knows."""
        return any(live.version != seen for live, seen in self._seen.items())

    async def connect(self) -> None:
        """Start the servers that are not running, at once, and offer their tools. Raises `SettingsError`, `ServerFailed`."""
        if not self._items:
            return
        self._live = [(item, self._servers.live(item, self._work_dir)) for item in self._items]
        each = list(dict.fromkeys(live for _, live in self._live))
        for live in each:
            if live.state != "ready":
                self._log.emit(ServerStarted, server=live.server.name, target=encodable(live.server.target))
        await asyncio.gather(*[live.start() for live in each])
        await self._offer(each)

    async def update(self) -> None:
        """Ask servers whose tools have changed for their tools, and offer these with the next request."""
        changed = [live for live, seen in self._seen.items() if live.version != seen]
        versions = {live: live.version for live in changed}
        await asyncio.gather(*[live.relist() for live in changed])
        await self._offer(changed, versions)

    async def close(self) -> None:
        """End the connections, unless they live longer than the run."""
        if self._owns and self._live:
            await asyncio.to_thread(self._servers.close)

    async def _offer(self, looked_at: Sequence[LiveServer], versions: dict[LiveServer, int] | None = None) -> None:
        self._seen.update(versions or {live: live.version for live in looked_at})
        names, found = WireNames(), {}
        for item, live in self._live:
            for tool in live.tools:
                if item.tool not in ("", tool.name):
                    continue
                if problem := problem_of(tool):
                    what = f"The tool {visible(encodable(tool.name))!r} of the MCP server {live.server.name} is left out"
                    self._log.warn_once(f"{what}: {problem}")
                else:
                    name = names.add(live.server.name, tool.name)
                    found[name] = MCPTool(live, tool, name)
            if item.tool and item.tool not in [tool.name for tool in live.tools]:
                known = [tool.name for tool in live.tools]
                raise UnknownTool(f"The MCP server {item.name} has no tool {item.tool}", nearest(item.tool, known))
        await asyncio.to_thread(self._sightings.note, found.values())
        for offer in self._offers:
            offer.take_server_tools(found.values())
        self._sightings.report(found.values())
