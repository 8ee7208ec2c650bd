"""The MCP servers of one run: connected before its first round, and looked at before each further one."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentnb.core.log.work_events import ServerStarted
from agentnb.core.messages import encodable, visible
from agentnb.errors import ServerFailed, SettingsError, UnknownTool, near, nearest
from agentnb.policies.permissions.rules import Rule
from agentnb.runtime.calls.run_tools import RunTools
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.servers.servers import Servers
from agentnb.runtime.servers.sightings import Sightings
from agentnb.tools.mcp.connections.live_server import LiveServer
from agentnb.tools.mcp.logged import logged_servers
from agentnb.tools.mcp.resources import resource_tools
from agentnb.tools.mcp.server import ServerTools
from agentnb.tools.mcp.server_tool import MCPTool, problem_of
from agentnb.tools.mcp.wire_names import WireNames, may_be_of, tool_of_word, wire_name, wire_names

if TYPE_CHECKING:
    from mcp import types as t


class RunServers:
    """The servers that a run names."""

    def __init__(
        self,
        log: EventLog,
        items: Sequence[ServerTools],
        servers: Servers,
        work_dir: Path,
        rules: Iterable[Rule] = (),
        *,
        owns: bool,
    ) -> None:
        """``rules``: those that the person gives the run; ``owns``: whether the connections end with the run."""
        self._rules = rules
        self._log = log
        self._items = items
        self._servers = servers
        self._work_dir = work_dir
        self._owns = owns
        self._live: list[tuple[ServerTools, LiveServer]] = []
        self._seen: dict[LiveServer, int] = {}
        """The version of each server's tools that the run has."""
        self._run_tools: list[RunTools] = []
        self._sightings = Sightings(log)

    @property
    def items(self) -> Sequence[ServerTools]:
        """The tools of servers that the run names, with their servers."""
        return self._items

    @property
    def as_logged(self) -> dict[str, Any]:
        """The servers for the settings of the log."""
        return logged_servers(self._items)

    def serve(self, tools: RunTools) -> None:
        """Have these tools of the run include those of the servers, from `connect` on."""
        self._run_tools.append(tools)

    @property
    def can_change(self) -> bool:
        """Whether the tools of the run may change while it continues."""
        return bool(self._items)

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
        self._check_rules(each)

    async def update(self) -> None:
        """Ask servers whose tools have changed for their tools, and offer these with the next request.

        Where that fails, the person is warned, and the tools stay as they are: a server must not end a run that works.
        """
        changed = [live for live, seen in self._seen.items() if live.version != seen]
        versions = {live: live.version for live in changed}
        try:
            await asyncio.gather(*[live.relist() for live in changed])
            await self._offer(changed, versions)
        except (SettingsError, ServerFailed) as error:
            self._seen.update(versions)
            self._log.warn_once(f"The tools of MCP servers have changed, and stay as they were in this run: {error.what}")

    async def close(self) -> None:
        """End the connections, unless they live longer than the run."""
        if self._owns and self._servers.used:
            await asyncio.to_thread(self._servers.close)

    async def _offer(self, looked_at: Sequence[LiveServer], versions: dict[LiveServer, int] | None = None) -> None:
        self._seen.update(versions or {live: live.version for live in looked_at})
        tools = self._tools()
        for item, live in self._live:
            _check_has(item, [*(tool.name for tool in live.tools), *(tool.tool_name for tool in tools[live])])
        single = [(item, live) for item, live in self._live if item.tool]
        named = {tool.spec.name for item, live in single for tool in tools[live] if _is_of(item, tool.tool_name)}
        every = [tool for each in tools.values() for tool in each]
        await asyncio.to_thread(self._sightings.note, every)
        for run_tools in self._run_tools:
            run_tools.take_server_tools(every, named)
        self._sightings.report(every)

    def _check_rules(self, servers: Iterable[LiveServer]) -> None:
        """Raise `SettingsError` for a rule whose name is nearly that of a tool of a server. Others may be offered later."""
        listed = [wire_name(live.server.name, tool.name) for live in servers for tool in live.tools]
        names = [*listed, *[tool.spec.name for tools in self._tools().values() for tool in tools]]
        for rule, item in product(self._rules, self._items):
            word, prefix = tool_of_word(rule.tools), wire_name(item.name, "")
            if rule.is_pattern or word in names or not may_be_of(item.name, word):
                continue
            if nearest(word.removeprefix(prefix), [name.removeprefix(prefix) for name in names]):
                raise SettingsError(f"The rule {rule.text!r} names no tool of its MCP server", near(word, names))

    def _tools(self) -> dict[LiveServer, list[MCPTool]]:
        """Return the tools that the run names, by server: first those that servers list, which may have any name."""
        names, items = WireNames(), dict[LiveServer, list[ServerTools]]()
        for item, live in self._live:
            items.setdefault(live, []).append(item)
        for live in items:
            for tool_name, why in live.set_aside.items():
                self._warn_left_out(live, tool_name, why)
        tools = {live: self._listed(live, of_server, names) for live, of_server in items.items()}
        for live, of_server in items.items():
            more = resource_tools(live, names)
            tools[live] += [tool for tool in more if any(_is_of(item, tool.tool_name) for item in of_server)]
            if not live.tools and not more:
                self._log.warn_once(f"The MCP server {live.server.name} lists no tools")
        return tools

    def _listed(self, live: LiveServer, items: Iterable[ServerTools], names: WireNames) -> list[MCPTool]:
        """Return the tools that the items name of those that a server lists."""
        server = live.server.name
        usable = [tool for tool in live.tools if any(_is_of(item, tool.name) for item in items) and self._is_usable(live, tool)]
        named = wire_names(server, [tool.name for tool in live.tools])
        for tool in usable:
            if named[tool.name] != wire_name(server, tool.name):
                what = f"The tool {visible(tool.name)!r} of the MCP server {server} is called {named[tool.name]}"
                self._log.warn_once(f"{what}, since another of its tools would have the same name. Rules name it so")
        return [MCPTool(live, tool, names.add(server, tool.name, named[tool.name])) for tool in usable]

    def _is_usable(self, live: LiveServer, tool: t.Tool) -> bool:
        """Return whether a model can take a tool; else warn the person, once."""
        problem = problem_of(tool)
        if problem:
            self._warn_left_out(live, tool.name, problem)
        return not problem

    def _warn_left_out(self, live: LiveServer, tool: str, why: str) -> None:
        self._log.warn_once(f"The tool {visible(tool)!r} of the MCP server {live.server.name} is left out: {why}")


def _is_of(item: ServerTools, tool: str) -> bool:
    """Return whether an item names a tool, as its server does or as models do."""
    return item.tool in ("", tool, wire_name(item.name, tool))


def _check_has(item: ServerTools, known: Sequence[str]) -> None:
    """Raise `UnknownTool` if a server has no tool of the name in an item."""
    if item.tool and not any(_is_of(item, name) for name in known):
        similar = nearest(item.tool, known) or nearest(item.tool, [wire_name(item.name, name) for name in known])
        raise UnknownTool(f"The MCP server {item.name} has no tool {item.tool}", similar)
