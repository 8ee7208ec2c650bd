"""The tools of a run while it continues: the one source of what requests offer and what can be called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from agentnb.core.log.work_events import ToolsChanged
from agentnb.errors import InvalidTool
from agentnb.runtime.event_log import EventLog
from agentnb.tools.mcp.finding import FIND_TOOLS, Findable, Offer, ToolFinder, next_offer
from agentnb.tools.mcp.server_tool import MCPTool
from agentnb.tools.tool import Tool, ToolOutcome
from agentnb.tools.toolbox import Toolbox, how_to_rename


class RunTools:
    """The tools of one run."""

    def __init__(self, log: EventLog, toolbox: Toolbox, *, logs_changes: bool = True, earlier: Iterable[str] = ()) -> None:
        """``logs_changes``: whether the log has the tools, as that of an agent does; else all of them are offered.

        ``earlier``: the tools that the last run of the conversation had, in order.
        """
        self._log = log
        self._own = toolbox
        self._toolbox = toolbox
        self._logs_changes = logs_changes
        self._earlier = tuple(earlier)
        self._of_servers: dict[str, MCPTool] = {}
        self._named: tuple[str, ...] = ()
        self._wanted: list[str] = []
        """The tools of servers that the model found, or called by their names, in order."""
        self._hidden: frozenset[str] = frozenset()
        """The tools of servers that can be called, and are not offered."""
        self._finder: ToolFinder | None = None

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name, or None."""
        return self._toolbox.get(name)

    def offered(self) -> tuple[Tool, ...]:
        """Return the tools that the next request offers."""
        return tuple(filter(None, [self._toolbox.get(spec.name) for spec in self._toolbox.specs]))

    def not_found(self, name: str) -> ToolOutcome:
        """Return the error result for an unknown tool."""
        advice = f"Search for others with {FIND_TOOLS}." if self._hidden else ""
        return self._toolbox.not_found(name, self._hidden, advice)

    def take_server_tools(self, tools: Iterable[MCPTool], named: Iterable[str] = ()) -> None:
        """Offer these tools of MCP servers instead of those before, after the tools of the run's own.

        Of too many, only those that the person ``named`` one by one, and those that the model finds. Raises `InvalidTool` for a
        name that is taken.
        """
        of_servers = {tool.spec.name: tool for tool in tools}
        for name, tool in of_servers.items():
            if (other := self._own.get(name)) is not None:
                what = f"{tool.tool_name!r} of the MCP server {tool.live.server.name} would be called {name}, as your tool is"
                raise InvalidTool(what, how_to_rename(other))
        self._of_servers, self._named = of_servers, tuple(named)
        self._compose("mcp_servers")

    def note_call(self, name: str) -> None:
        """Offer a tool of a server from now on that the model has called without having found it."""
        if name in self._hidden:
            self._offer([name])

    def change(self, toolbox: Toolbox) -> None:
        """Replace the tools: the next request offers these, and only these can be called. Calls that run are not affected."""
        self._own, self._of_servers = toolbox, {}
        self._compose("")

    def _compose(self, reason: str) -> None:
        """Put the tools together. Those that were offered before keep their places: another order loses caches of prompts."""
        offer = self._next_offer()
        if FIND_TOOLS in offer.shown and (taken := self._own.get(FIND_TOOLS)) is not None:
            what = (
                f"There are too many tools of MCP servers to offer all, and your tool {FIND_TOOLS} has the name of their search"
            )
            raise InvalidTool(what, how_to_rename(taken))
        shown = [self._of_servers.get(name) or self._search() for name in offer.shown]
        toolbox = self._own.with_tools(shown, [self._of_servers[name] for name in offer.hidden])
        if self._logs_changes and toolbox.specs != self._log.run.tools:
            self._log.emit(ToolsChanged, tools=toolbox.specs, reason=reason)
        self._toolbox, self._hidden = toolbox, frozenset(offer.hidden)

    def _next_offer(self) -> Offer:
        if not self._logs_changes:
            return Offer(tuple(self._of_servers))
        before = [
            name for name in [spec.name for spec in self._log.run.tools] + [*self._earlier] if self._own.get(name) is None
        ]
        return next_offer(len(self._own), tuple(self._of_servers), before, [*self._named, *self._wanted])

    def _search(self) -> ToolFinder:
        """Return the tool that finds others; its description stays the same in a run, for caches of prompts."""
        if self._finder is None:
            servers = Counter([tool.live.server.name for tool in self._of_servers.values()])
            self._finder = ToolFinder(self._findable, self._offer, servers)
        return self._finder

    def _findable(self) -> Sequence[Findable]:
        return [Findable(tool.spec, tool.tool_name, tool.title) for tool in self._of_servers.values()]

    def _offer(self, names: Sequence[str]) -> Sequence[str]:
        """Offer those of the tools that are not offered, and return them."""
        new = [name for name in names if name in self._hidden]
        if new:
            self._wanted += new
            self._compose(FIND_TOOLS)
        return new
