"""The tools of a run while it continues: the one source of what requests offer and what can be called."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from agentnb.core.log.work_events import ToolsChanged
from agentnb.runtime.event_log import EventLog
from agentnb.tools.mcp.finding import FIND_TOOLS, ToolFinder, offered
from agentnb.tools.tool import Tool, ToolOutcome
from agentnb.tools.toolbox import Toolbox


class RunTools:
    """The tools of one run."""

    def __init__(self, log: EventLog, toolbox: Toolbox, *, logs_changes: bool = True) -> None:
        """``logs_changes``: whether the log has the tools, as that of an agent does."""
        self._log = log
        self._own = toolbox
        self._toolbox = toolbox
        self._logs_changes = logs_changes
        self._of_servers: dict[str, Tool] = {}
        self._named: Container[str] = ()
        """The tools of servers that the person named one by one."""
        self._found: list[str] = []
        """The tools of servers that the model found, in order."""

    @property
    def toolbox(self) -> Toolbox:
        """The tools that can be called now."""
        return self._toolbox

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name, or None."""
        return self._toolbox.get(name)

    def offered(self) -> tuple[Tool, ...]:
        """Return the tools that the next request offers."""
        return tuple(filter(None, [self._toolbox.get(spec.name) for spec in self._toolbox.specs]))

    def not_found(self, name: str) -> ToolOutcome:
        """Return the error result for an unknown tool."""
        return self._toolbox.not_found(name)

    def take_server_tools(self, tools: Iterable[Tool], named: Container[str] = ()) -> None:
        """Offer these tools of MCP servers instead of those before, after the tools of the run's own.

        Of too many, only those that the person ``named`` one by one, and those that the model finds. Raises `InvalidTool` for a
        name that is taken.
        """
        self._of_servers = {tool.spec.name: tool for tool in tools}
        self._named = named
        self._compose("mcp_servers")

    def change(self, toolbox: Toolbox) -> None:
        """Replace the tools: the next request offers these, and only these can be called. Calls that run are not affected."""
        self._log.emit(ToolsChanged, tools=toolbox.specs)
        self._toolbox = toolbox

    def _compose(self, reason: str) -> None:
        """Put the tools together. Those that were offered before keep their places: another order loses caches of prompts."""
        before = [spec.name for spec in self._log.run.tools] if self._logs_changes else []
        names = offered(len(self._own), self._of_servers, self._named, {*before, *self._found})
        hidden = [tool for name, tool in self._of_servers.items() if name not in names]
        added = {name: self._of_servers[name] for name in names}
        if FIND_TOOLS in before or (hidden and self._logs_changes):
            added[FIND_TOOLS] = ToolFinder(self._hidden, self._offer_found, len(self._of_servers))
        order = {name: place for place, name in enumerate([*before, FIND_TOOLS, *self._found])}
        toolbox = self._own
        for name in sorted(added, key=lambda name: order.get(name, len(order))):
            toolbox = toolbox.with_tool(added[name])
        for tool in hidden:
            toolbox.check_free(tool)
            toolbox = toolbox.knowing(tool)
        if self._logs_changes and toolbox.specs != self._log.run.tools:
            self._log.emit(ToolsChanged, tools=toolbox.specs, reason=reason)
        self._toolbox = toolbox

    def _hidden(self) -> Sequence[Tool]:
        shown = {spec.name for spec in self._toolbox.specs}
        return [tool for name, tool in self._of_servers.items() if name not in shown]

    def _offer_found(self, names: Sequence[str]) -> None:
        self._found += names
        self._compose(FIND_TOOLS)
