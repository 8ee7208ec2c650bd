"""The tools of a run while it continues: the one source of what requests offer and what can be called."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

from agentnb.core.log.work_events import ToolsChanged
from agentnb.runtime.event_log import EventLog
from agentnb.tools.tool import Tool, ToolOutcome
from agentnb.tools.toolbox import Toolbox


@runtime_checkable
class StandIn(Protocol):
    """A tool that stands for one of a server, such as one with recorded results."""

    def put_behind(self, tool: Tool) -> None:
        """Take the server's tool, for the calls that it does not answer itself."""


class RunTools:
    """The tools of one run."""

    def __init__(self, log: EventLog, toolbox: Toolbox, *, logs_changes: bool = True) -> None:
        """``logs_changes``: whether the log has the tools, as that of an agent does."""
        self._log = log
        self._own = toolbox
        self._toolbox = toolbox
        self._logs_changes = logs_changes

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

    def take_server_tools(self, tools: Iterable[Tool]) -> None:
        """Offer these tools of MCP servers instead of those before, after the tools of the run's own.

        Tools that were there before keep their places: another order loses caches of prompts. Raises `InvalidTool` for a name
        that is taken.
        """
        place = {spec.name: index for index, spec in enumerate(self._log.run.tools if self._logs_changes else ())}
        toolbox = self._own
        for tool in sorted(tools, key=lambda tool: place.get(tool.spec.name, len(place))):
            recorded: object = toolbox.get(tool.spec.name)
            if isinstance(recorded, StandIn):
                recorded.put_behind(tool)
            else:
                toolbox = toolbox.with_tool(tool)
        if self._logs_changes and toolbox.specs != self._log.run.tools:
            self._log.emit(ToolsChanged, tools=toolbox.specs, reason="mcp_servers")
        self._toolbox = toolbox

    def change(self, toolbox: Toolbox) -> None:
        """Replace the tools: the next request offers these, and only these can be called. Calls that run are not affected."""
        self._log.emit(ToolsChanged, tools=toolbox.specs)
        self._toolbox = toolbox
