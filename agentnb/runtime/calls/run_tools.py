"""The tools of a run while it continues: the one source of what requests offer and what can be called."""

from __future__ import annotations

from agentnb.core.log.work_events import ToolsChanged
from agentnb.runtime.event_log import EventLog
from agentnb.tools.tool import Tool, ToolOutcome
from agentnb.tools.toolbox import Toolbox


class RunTools:
    """The tools of one run."""

    def __init__(self, log: EventLog, toolbox: Toolbox) -> None:
        self._log = log
        self._toolbox = toolbox

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name, or None."""
        return self._toolbox.get(name)

    def offered(self) -> tuple[Tool, ...]:
        """Return the tools that the next request offers."""
        return tuple(filter(None, [self._toolbox.get(spec.name) for spec in self._toolbox.specs]))

    def not_found(self, name: str) -> ToolOutcome:
        """Return the error result for an unknown tool."""
        return self._toolbox.not_found(name)

    def change(self, toolbox: Toolbox) -> None:
        """Replace the tools: the next request offers these, and only these can be called. Calls that run are not affected."""
        self._log.emit(ToolsChanged, tools=toolbox.specs)
        self._toolbox = toolbox
