"""The tools of a run in progress: the single source of what requests offer and what can be called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from agentnb.core.log.work_events import ToolsChanged
from agentnb.errors import InvalidTool
from agentnb.runtime.calls.virtual_tools import Handler, VirtualTools
from agentnb.runtime.event_log import EventLog
from agentnb.tools.mcp.server_tool import MCPTool
from agentnb.tools.mcp.tool_search import Offer, ToolFinder, next_offer
from agentnb.tools.mcp.wire_names import FIND_TOOLS
from agentnb.tools.tool import Tool, ToolOutcome
from agentnb.tools.toolbox import Toolbox, how_to_rename

_NONE: frozenset[str] = frozenset()


@runtime_checkable
class StandIn(Protocol):
    """A replacement for a server's tool, such as a tool with recorded results."""

    def put_behind(self, tool: Tool) -> None:
        """Set the server's tool, for calls that this tool does not answer itself."""


class RunTools:
    """The tools of one run."""

    def __init__(
        self,
        log: EventLog,
        toolbox: Toolbox,
        *,
        logs_changes: bool = True,
        earlier: Iterable[str] = (),
        handlers: Mapping[str, Handler] | None = None,
    ) -> None:
        """``logs_changes``: whether the log lists the tools, as for an agent; otherwise all of them are offered.
        ``earlier``: tools of the conversation's last run, in order; ``handlers``: functions that answer calls by
        name, before any tool.
        """
        self._virtual = VirtualTools(handlers) if handlers else None
        self._log = log
        self._own = toolbox
        self.toolbox = toolbox
        """Tools that can currently be called."""
        self._logs_changes = logs_changes
        self._earlier = tuple(earlier)
        self._of_servers: dict[str, MCPTool] = {}
        self._named: tuple[str, ...] = ()
        self._wanted: tuple[str, ...] = ()
        """Server tools that the model searched for or called by name, in order."""
        self.hidden: frozenset[str] = _NONE
        """Server tools that can be called but are not offered."""
        self._finder: ToolFinder | None = None

    def get(self, name: str) -> Tool | None:
        """Return the tool or handler for calls by this name, or None."""
        tool = self.toolbox.get(name)
        return tool if self._virtual is None else self._virtual.get(name, tool)

    def offered_tools(self) -> tuple[Tool, ...]:
        """Return the tools that the next request offers."""
        return tuple(filter(None, [self.toolbox.get(spec.name) for spec in self.toolbox.specs]))

    def not_found(self, name: str) -> ToolOutcome:
        """Return the error result for an unknown tool."""
        advice = f"Search for others with {FIND_TOOLS}." if self.hidden else ""
        return self.toolbox.not_found(name, sorted(self.hidden), advice)

    def take_server_tools(self, tools: Iterable[MCPTool], named: Iterable[str] = ()) -> None:
        """Replace the MCP servers' tools, which are listed after the run's own.

        If there are too many, offer only those that the person ``named`` individually and those that the model finds.
        Raises `InvalidTool` for a name clash.
        """
        free = [tool for tool in tools if self._is_free(tool, f"{tool.tool_name!r} of the MCP server {tool.live.server.name}")]
        self._compose("mcp_servers", {tool.spec.name: tool for tool in free}, tuple(named))

    def offer(self, names: Sequence[str]) -> Sequence[str]:
        """Offer the hidden tools among these names from now on, and return their names."""
        new = [name for name in names if name in self.hidden]
        if new:
            self._wanted = (*self._wanted, *new)
            self._compose(FIND_TOOLS, self._of_servers, self._named)
        return new

    def change(self, toolbox: Toolbox) -> None:
        """Replace the tools: only these are offered in the next request and can be called. Running calls are not affected."""
        self._own = toolbox
        self._compose("", {})

    def _compose(self, reason: str, of_servers: dict[str, MCPTool], named: tuple[str, ...] = ()) -> None:
        """Combine the tools. Tools offered before keep their positions, since a different order would invalidate
        prompt caches.
        """
        offer = self._next_offer(tuple(of_servers), named)
        shown: list[Tool] = []
        for name in offer.shown:
            tool = of_servers.get(name) or self._search(of_servers)
            if name in of_servers or self._is_free(tool, "The search for tools of MCP servers"):
                shown.append(tool)
        toolbox = self._own.with_tools(shown, [of_servers[name] for name in offer.hidden])
        if self._logs_changes and toolbox.specs != self._log.run.tools:
            self._log.emit(ToolsChanged, tools=toolbox.specs, reason=reason)
        self._of_servers, self._named = of_servers, named
        self.toolbox, self.hidden = toolbox, frozenset(offer.hidden)

    def _next_offer(self, servers: Sequence[str], named: Iterable[str]) -> Offer:
        if not self._logs_changes:
            return Offer(tuple(servers))
        before = [*[spec.name for spec in self._log.run.tools], *self._earlier]
        return next_offer(
            len(self._own), servers, [name for name in before if self._own.get(name) is None], [*named, *self._wanted]
        )

    def _is_free(self, tool: Tool, described: str) -> bool:
        """Return whether none of the run's own tools has this name; a `StandIn` with this name takes over the server's tool.

        Raises `InvalidTool` for a name clash.
        """
        own: Any = self._own.get(tool.spec.name)
        if own is None:
            return True
        if not isinstance(own, StandIn):
            raise InvalidTool(f"{described} and one of your tools would both be called {tool.spec.name}", how_to_rename(own))
        own.put_behind(tool)
        return False

    def _search(self, of_servers: Mapping[str, MCPTool]) -> ToolFinder:
        """Return the tool search; its description does not change during a run, for the sake of prompt caches."""
        if self._finder is None:
            servers = Counter([tool.live.server.name for tool in of_servers.values()])
            self._finder = ToolFinder(lambda: [*self._of_servers.values()], self.offer, servers)
        return self._finder
