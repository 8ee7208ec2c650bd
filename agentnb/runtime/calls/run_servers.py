"""MCP servers of one run: connected before its first round, and checked for changes before each later round."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from agentnb.core.log.work_events import ServerStarted
from agentnb.core.messages import encodable, visible
from agentnb.errors import ServerFailed, SettingsError, UnknownTool, suggest_names, suggest_similar
from agentnb.policies.permissions.permission_rules import Rule
from agentnb.runtime.calls.run_tools import RunTools
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.servers.first_seen import Sightings
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.mcp.connections.live_server import LiveServer
from agentnb.tools.mcp.logged import logged_servers
from agentnb.tools.mcp.mcp_server import ServerTools
from agentnb.tools.mcp.resources import resource_tools
from agentnb.tools.mcp.server_tool import ListedTools, MCPTool, names_of, tools_of_server
from agentnb.tools.mcp.wire_names import may_be_of, tool_of_word, wire_name, wire_names

MAX_PLACES = 5
"""Maximum number of tools, and of keywords per tool, in one warning."""


class RunServers:
    """The servers that a run names."""

    def __init__(
        self,
        log: EventLog,
        items: Sequence[ServerTools],
        servers: Servers,
        work_dir: Path,
        rules: Iterable[Rule] = (),
    ) -> None:
        """``rules``: the person's permission rules for the run."""
        self._rules = rules
        self._log = log
        self._items = items
        self._servers = servers
        self._work_dir = work_dir
        self._live: dict[LiveServer, list[ServerTools]] = {}
        """The items that name tools, keyed by server."""
        self._seen: dict[LiveServer, int] = {}
        """Version of the run's tools, keyed by server."""
        self._run_tools: list[RunTools] = []
        self._sightings = Sightings(log)

    @property
    def items(self) -> Sequence[ServerTools]:
        """The server tools that the run names, with their servers."""
        return self._items

    @property
    def as_logged(self) -> dict[str, Any]:
        """The servers, in the form for the settings in the log."""
        return logged_servers(self._items)

    def serve(self, tools: RunTools) -> None:
        """Include the servers' tools in these tools once `connect` has been called."""
        self._run_tools.append(tools)

    @property
    def has_news(self) -> bool:
        """True if a server's tools have changed."""
        return any(live.version != seen for live, seen in self._seen.items())

    async def connect(self) -> None:
        """Start any servers that are not running, concurrently, and offer their tools. Raises `SettingsError` or
        `ServerFailed`.
        """
        if not self._items:
            return
        for item in self._items:
            self._live.setdefault(self._servers.live(item, self._work_dir), []).append(item)
        for live in self._live:
            if live.state != "ready":
                self._log.emit(ServerStarted, server=live.server.name, target=encodable(live.server.target))
        await asyncio.gather(*[live.start() for live in self._live])
        self._check_rules(await self._offer({live: live.version for live in self._live}))

    async def update(self) -> None:
        """List the tools of changed servers again, and offer them in the next request.

        On failure, the person is warned and the tools are left unchanged: a server must not end a healthy run.
        """
        versions = {live: live.version for live, seen in self._seen.items() if live.version != seen}
        try:
            await asyncio.gather(*[live.relist() for live in versions])
            await self._offer(versions)
        except (SettingsError, ServerFailed) as error:
            self._seen.update(versions)
            self._log.warn_once(f"The tools of MCP servers have changed, but this run keeps the earlier ones: {error.what}")

    async def _offer(self, versions: Mapping[LiveServer, int]) -> Sequence[MCPTool]:
        """Offer the tools that the run names, and return all tools of its servers. ``versions``: the resulting
        versions of the tools.
        """
        self._seen.update(versions)
        named, tools = dict[MCPTool, list[str]](), self._tools()
        for live, items in self._live.items():
            for item in items:
                if not any(tool.is_of(item) for tool in tools[live]):
                    _check_has(item, live)
            named |= {tool: words for tool in tools[live] if (words := [item.tool for item in items if tool.is_of(item)])}
        await asyncio.to_thread(self._sightings.note, named)
        for run_tools in self._run_tools:
            run_tools.take_server_tools(named, {tool.spec.name for tool, words in named.items() if any(words)})
        self._sightings.report(named)
        return [tool for server_tools in tools.values() for tool in server_tools]

    def _check_rules(self, tools: Sequence[MCPTool]) -> None:
        """Raise `SettingsError` for a rule that misspells the name of a server's tool. Other names pass: the tool may
        appear later.
        """
        names = [tool.spec.name for tool in tools]
        for rule, item in product(self._rules, self._items):
            word, prefix = tool_of_word(rule.tools), wire_name(item.name, "")
            is_about = any(rule.is_about(tool.spec.name, tool) for tool in tools)
            if rule.is_pattern or is_about or not may_be_of(item.name, word):
                continue
            if suggest_similar(word.removeprefix(prefix), [name.removeprefix(prefix) for name in names]):
                raise SettingsError(
                    f"The rule {rule.text!r} does not match any tool of its MCP server", suggest_names(word, names)
                )

    def _tools(self) -> dict[LiveServer, list[MCPTool]]:
        """Return the tools by server. Listed tools come first, since their names are arbitrary."""
        names = wire_names([name for live in self._live for name in names_of(live, live.tools)])
        by_server = {live: tools_of_server(live, live.tools, names) for live in self._live}
        used_names = {tool.spec.name for listed in by_server.values() for tool in listed.usable}
        tools = {live: [*listed.usable, *resource_tools(live, used_names)] for live, listed in by_server.items()}
        for live, items in self._live.items():
            for warning in _warnings(live, by_server[live], items, is_empty=not tools[live]):
                self._log.warn_once(warning)
        return tools


def _warnings(live: LiveServer, found: ListedTools, items: Sequence[ServerTools], *, is_empty: bool) -> Iterator[str]:
    """Yield warnings about listed tools that the items refer to."""
    server = live.server.name
    for name, why in found.left_out.items():
        if any(item.tool in ("", name) for item in items):
            yield f"The tool {visible(name)!r} of the MCP server {server} is left out: {visible(why)}"
    usable = [tool for tool in found.usable if any(map(tool.is_of, items))]
    for tool in usable:
        if tool.spec.name != wire_name(server, tool.tool_name):
            renamed = f"The tool {visible(tool.tool_name)!r} of the MCP server {server} is called {tool.spec.name}"
            yield f"{renamed}, to avoid a name clash. Rules that allow it use this name"
    if unchecked := [f"{tool.spec.name} ({', '.join(tool.unchecked[:MAX_PLACES])})" for tool in usable if tool.unchecked]:
        places = visible("; ".join(unchecked[:MAX_PLACES]))
        yield f"agentnb cannot read the schemas of some arguments, so only the MCP server {server} checks them: {places}"
    if is_empty and not found.left_out:
        yield f"The MCP server {server} lists no tools"


def _check_has(item: ServerTools, live: LiveServer) -> None:
    """Raise `UnknownTool` if the server lacks an item's tool. An excluded tool does not count as missing."""
    names = [*[tool.name for tool in live.tools], *live.set_aside]
    wire = [wire_name(item.name, name) for name in names]
    if item.tool and item.tool not in (*names, *wire):
        problem = f"The MCP server {item.name} has no tool {item.tool}"
        raise UnknownTool(problem, suggest_similar(item.tool, names) or suggest_similar(item.tool, wire))
