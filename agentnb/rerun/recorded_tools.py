"""Tools that return a run's recorded results instead of running."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, cast

from agentnb.core.messages import Image, Text, ToolCall
from agentnb.core.questions import ToolOrigin
from agentnb.core.request import ToolSpec
from agentnb.core.run.call_window import call_key
from agentnb.core.run.rounds import NOT_RUN, CallRecord, WorkflowRound
from agentnb.core.todos import TODO_TOOL
from agentnb.detect.run import Run
from agentnb.tools.builtin.builtin_names import tools_of
from agentnb.tools.mcp.logged import servers_of_log
from agentnb.tools.mcp.mcp_server import ServerTools, servers_among
from agentnb.tools.mcp.wire_names import may_be_of
from agentnb.tools.subject import Flag, Subject, flag_of, origin_of, reads_tree, subject_of
from agentnb.tools.tool import Effect, Tool, ToolContext, ToolOutcome, failure

NOT_RECORDED = "not_recorded"
"""Error code of a call that has neither a recorded result nor a live tool."""


class RecordedResults:
    """Recorded results of a run, by call: from one round onwards, in order, and then the last one repeatedly."""

    def __init__(self, run: Run, from_round: int = 0) -> None:
        self._left: dict[tuple[str, bytes], deque[CallRecord]] = {}
        self._last: dict[tuple[str, bytes], CallRecord] = {}
        for round_ in run.rounds:
            for record in _ran(round_):
                key = call_key(record.call)
                self._last[key] = record
                if round_.index >= from_round:
                    self._left.setdefault(key, deque()).append(record)

    def take(self, name: str, arguments: Any) -> CallRecord | None:
        """Return the next record of this call, or None."""
        key = call_key(ToolCall(name, arguments))
        remaining = self._left.get(key)
        return remaining.popleft() if remaining else self._last.get(key)


def _ran(round_: WorkflowRound) -> Iterable[CallRecord]:
    return (record for record in round_.records if record.result is not None and record.result.error_code not in NOT_RUN)


class RecordedTool:
    """A tool of a recorded run: returns recorded results, or else runs the tool behind it, or refuses the call."""

    parallel_safe = False
    blocking = False
    timeout = None

    def __init__(
        self, spec: ToolSpec, results: RecordedResults, behind: Tool | None = None, origin: ToolOrigin | None = None
    ) -> None:
        """``origin``: MCP server of the recorded tool, if it came from one."""
        self.spec = spec
        self._results, self._behind, self._origin = results, behind, origin

    def put_behind(self, tool: Tool) -> None:
        """Let an MCP server's tool run calls that were not recorded, unless this one already has a tool behind it."""
        self._behind = self._behind or tool

    @property
    def effects(self) -> frozenset[Effect] | None:
        """Effects of the tool behind it, or else of the recorded tool, or None if undeclared."""
        if self._behind is not None:
            return cast("frozenset[Effect] | None", getattr(self._behind, "effects", None))
        return cast("frozenset[Effect] | None", frozenset(self.spec.effects) or None)

    @property
    def flag(self) -> Flag | None:
        """Permission that the tool behind it needs."""
        return flag_of(self._behind)

    @property
    def origin(self) -> ToolOrigin | None:
        """MCP server of the tool behind it, or else of the recorded tool; that server's grants are repeated."""
        return self._origin if self._behind is None else origin_of(self._behind)

    @property
    def subject(self) -> Subject | None:
        """Subject of the tool behind it."""
        return subject_of(self._behind)

    @property
    def nature(self) -> Any:
        """Nature of the calls of the tool behind it, for `nature_of`."""
        return getattr(self._behind, "nature", None)

    @property
    def reads_tree(self) -> bool:
        """True if the tool behind it reads everything below the path it is given."""
        return reads_tree(self._behind)

    @property
    def new_text(self) -> Any:
        """Change that the tool behind it makes to a file, for the question about a call."""
        return getattr(self._behind, "new_text", None)

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Return the recorded outcome of this call."""
        record = self._results.take(self.spec.name, arguments)
        if record is not None and record.result is not None:
            result = record.result
            parts = tuple([part for part in result.parts if isinstance(part, Text | Image)])
            return ToolOutcome(not result.is_error, parts, error_code=result.error_code, display=record.display)
        if self._behind is not None:
            return await self._behind.run(arguments, context)
        text = f"{self.spec.name} was not called with these arguments in the recording and cannot be run now."
        return failure(NOT_RECORDED, f"{text} Use the results that you have.")


def recorded_tools(run: Run, from_round: int = 0, behind: Iterable[Any] = ()) -> list[Tool | ServerTools]:
    """Return the run's tools, except the todo tool, which has its own list; tools ``behind`` run calls that were not
    recorded.

    Items of ``behind`` that the run did not have are returned unchanged, and so are MCP servers, whose tools arrive
    when the run starts. If ``behind`` has no server, none is started.
    """
    behind = tuple(behind)
    results = RecordedResults(run, from_round)
    live: Mapping[str, Tool] = {tool.spec.name: tool for value in behind for tool in tools_of(value)}
    specs = [spec for spec in run.tools if spec.name != TODO_TOOL]
    named = {spec.name for spec in specs}
    servers = servers_among(behind)
    origins = _origins(run, named)
    recorded: list[Tool] = [RecordedTool(spec, results, live.get(spec.name), origins.get(spec.name)) for spec in specs]
    return [*recorded, *[tool for name, tool in live.items() if name not in named], *servers]


def _origins(run: Run, names: Iterable[str]) -> dict[str, ToolOrigin]:
    """Return the MCP servers of these tools, identified by the tool names and the log."""
    asked = {entry.question.about.origin for entry in run.questions if entry.question.about is not None}
    identities = {origin.server: origin.server_identity for origin in asked if origin is not None}
    servers = {
        name: ToolOrigin(name, logged.target, "", identities.get(name, ""))
        for name, logged in servers_of_log(run.settings).items()
    }
    longest_first = sorted(servers, key=len, reverse=True)
    matches = {name: next((server for server in longest_first if may_be_of(server, name)), None) for name in names}
    return {name: servers[server] for name, server in matches.items() if server is not None}
