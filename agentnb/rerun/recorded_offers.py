"""The tools that each recorded request offered, offered again in a new run."""

from __future__ import annotations

from pathlib import Path

from agentnb.core.log.events import RoundStarted, ToolsOffered
from agentnb.core.request import ToolSpec
from agentnb.detect.run import Run
from agentnb.rerun.recorded_tools import RecordedResults, RecordedTool
from agentnb.runtime.calls.run_servers import RunServers
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.servers.servers import Servers
from agentnb.tools.tool import Tool


class RecordedOffers(RunServers):
    """Replaces the MCP servers of a run whose tools changed during the run. Starts no server."""

    def __init__(self, run: Run, log: EventLog) -> None:
        """``run``: the recorded run; ``log``: log of the new run."""
        super().__init__(log, (), Servers(), Path())
        self._made = log.run
        self._by_round = _tools_by_round(run)
        results = RecordedResults(run)
        ever = {spec.name: spec for specs in self._by_round for spec in specs}
        self._recorded = [RecordedTool(spec, results) for spec in ever.values()]

    @property
    def has_news(self) -> bool:
        """True if the next request offered tools other than the run's current ones."""
        return self._next() != self._made.tools

    async def connect(self) -> None:
        """Offer the tools of the first request."""
        await self.update()

    async def update(self) -> None:
        """Offer the tools of the next request. All recorded tools can be called."""
        for tools in self._run_tools:
            gone: list[Tool] = [tool for tool in self._recorded if tools.get(tool.spec.name) is None]
            toolbox = tools.toolbox.with_tools((), gone)
            # Unrecorded tools, such as the todo list, have the specs of this version.
            specs = [
                spec if isinstance(tool := toolbox.get(spec.name), RecordedTool) or tool is None else tool.spec
                for spec in self._next()
            ]
            tools.change(toolbox.advertising(specs))

    def _next(self) -> tuple[ToolSpec, ...]:
        position = min(len(self._made.rounds), len(self._by_round) - 1)
        return self._by_round[position]


def _tools_by_round(run: Run) -> list[tuple[ToolSpec, ...]]:
    """Return the tools of each round; if there are no rounds, the tools of the run."""
    by_round, tools = [], run.tools
    for event in run.events:
        if isinstance(event, ToolsOffered):
            tools = event.tools
        elif isinstance(event, RoundStarted):
            by_round.append(tools)
    return by_round or [tools]


def has_changing_tools(run: Run) -> bool:
    """True if the run's tools changed during the run."""
    return any(isinstance(event, ToolsOffered) for event in run.events[1:])
