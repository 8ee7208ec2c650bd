"""The tools of MCP servers in one run, compared with what the person's folder and the log of the run first saw of them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

from agentnb.core.log.events import RunStarted
from agentnb.core.log.work_events import ServerChanged, ToolsChanged
from agentnb.core.questions import ToolOrigin
from agentnb.core.redaction import redact
from agentnb.core.request import ToolSpec
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.servers.first_seen import diff, first_seen, text_of
from agentnb.tools.mcp.logged import SERVERS, logged_servers, servers_of_log
from agentnb.tools.mcp.server import MCPServer, ServerTools
from agentnb.tools.mcp.server_tool import NO_CHANGE, MCPTool, ToolChange


class Sightings:
    """The servers and tools of one run as they were first seen: what was allowed belongs to these."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._specs: dict[str, ToolSpec] | None = None
        """The tools as the log first had them, by name."""
        self._reported: set[tuple[str, ...]] = set()

    def note(self, tools: Iterable[MCPTool]) -> None:
        """Take in the tools that the run gets: each knows from here on what of it has changed. Reads and writes files."""
        each = list(tools)
        first_seen.note(each)
        if self._specs is None:
            self._specs = _first_specs(self._log)
        for tool in each:
            logged = self._specs.setdefault(tool.spec.name, redact(tool.spec))
            tool.change_since_seen = partial(self._change, tool, self._change_since_log(tool, logged))

    def report(self, tools: Iterable[MCPTool]) -> None:
        """Log what has changed since it was first seen, each change once."""
        by_server: dict[str, dict[str, ToolOrigin]] = {}
        for tool in tools:
            origin = tool.origin
            if origin.changed and origin.identities not in self._reported:
                by_server.setdefault(origin.server_identity, {})[tool.spec.name] = origin
        for changed in by_server.values():
            origins = [*changed.values()]
            self._reported.update(origin.identities for origin in origins)
            other = next((origin for origin in origins if "server" in origin.changed), None)
            self._log.emit(
                ServerChanged,
                server=origins[0].server,
                target=origins[0].target,
                is_other=other is not None,
                target_before="" if other is None else other.target_before,
                tools=tuple([name for name, origin in changed.items() if "tool" in origin.changed]),
            )

    def _change(self, tool: MCPTool, since_log: ToolChange) -> ToolChange:
        """Return what has changed of a tool; what the person has accepted since then no longer counts as changed."""
        left = tuple([what for what in since_log.changed if not first_seen.is_accepted(tool, what)])
        return first_seen.change(tool).and_of(ToolChange(left, since_log.target_before, since_log.diff) if left else NO_CHANGE)

    def _change_since_log(self, tool: MCPTool, logged: ToolSpec) -> ToolChange:
        found, now = _server_change(tool.live.server, self._log.run.settings.get(SERVERS)), redact(tool.spec)
        is_same = (logged.description, logged.input_schema) == (now.description, now.input_schema)
        return found if is_same else found.and_of(ToolChange(("tool",), diff=diff(text_of(logged), text_of(now))))


def _server_change(server: MCPServer, logged: object) -> ToolChange:
    """Return the change of a server since the settings of a log named it; none if they do not."""
    before = logged.get(server.name) if isinstance(logged, dict) else None
    now = redact(logged_servers([ServerTools(server.name, server=server)])[SERVERS][server.name])
    if not isinstance(before, dict) or {**before, "tools": None} == {**now, "tools": None}:
        return NO_CHANGE
    shown = servers_of_log({SERVERS: {server.name: before}}).get(server.name)
    return ToolChange(("server",), "" if shown is None else shown.target)


def _first_specs(log: EventLog) -> dict[str, ToolSpec]:
    """Return the tools of a log, each as it first had it."""
    found: dict[str, ToolSpec] = {}
    for event in log.run.events:
        for spec in event.tools if isinstance(event, RunStarted | ToolsChanged) else ():
            found.setdefault(spec.name, spec)
    return found
