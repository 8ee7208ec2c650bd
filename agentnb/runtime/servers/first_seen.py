"""First sightings of MCP servers and their tools, in the person's folder and in a log. Permissions are tied to them.

The person's folder has a small file for each, which is created once and in one piece, so that several processes agree
on it.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import msgspec
from msgspec.structs import replace

from agentnb import settings
from agentnb.core.log.events import RunStarted
from agentnb.core.log.work_events import ServerChanged, ToolsChanged
from agentnb.core.messages import encodable, encodable_data, visible
from agentnb.core.questions import ToolOrigin
from agentnb.core.redaction import redact
from agentnb.core.request import ToolSpec
from agentnb.personal_files import create_file, replace_file
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.questions.model_code import check_person
from agentnb.tools.mcp.connections.live_server import LiveServer
from agentnb.tools.mcp.logged import SERVERS, servers_of_log
from agentnb.tools.mcp.mcp_server import MCPServer, digest
from agentnb.tools.mcp.server_tool import Changed, Changes, MCPTool, tools_of_server

if TYPE_CHECKING:
    from mcp import types as t

ACCEPTING = "Accepting the changes of an MCP server"
"""Name of an act that a model's code may not perform."""

FOLDER = "mcp-first-seen"
MAX_TEXT_CHARACTERS = 20_000
"""Maximum characters of a description and schema that are kept in order to show later changes."""
MAX_DIFF_CHARACTERS = 8_000


class FirstSight(msgspec.Struct, frozen=True, omit_defaults=True):
    """A server, or one of its tools, at the time it was seen."""

    name: str = ""
    identity: str = ""
    text: str = ""
    """Text used to show a change: command or address; description and schema."""
    is_accepted: bool = False
    """True if the person accepted it as it was then, rather than merely used it."""


UNREADABLE = FirstSight()
"""Placeholder for a damaged file; nothing equals it."""


Sights: TypeAlias = dict[Changed, tuple[FirstSight, list[Path]]]
"""A server and each of its tools as they are now, each with the paths of its files, starting with the first sighting's."""
_known: dict[Path, FirstSight] = {}
"""Contents of files that were read, or that could not be written to the person's folder. Shared by the process."""


class Sightings:
    """First sightings of one run's servers and tools, both in the person's folder and in the run's log."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._reported: set[tuple[str, ...]] = set()

    def note(self, tools: Iterable[MCPTool]) -> None:
        """Record the run's tools, and set on each its changes since it was first seen. Reads and writes files."""
        note(tools, self._changes_since_log)

    def report(self, tools: Iterable[MCPTool]) -> None:
        """Log changes since the first sighting, each only once."""
        by_server: dict[tuple[str, str], dict[str, ToolOrigin]] = {}
        for tool in tools:
            origin = tool.origin
            if origin.changed and origin.identities not in self._reported:
                self._reported.add(origin.identities)
                by_server.setdefault((origin.server, origin.target), {})[tool.spec.name] = origin
        for (server, target), changed in by_server.items():
            before = [origin.target_before for origin in changed.values() if "server" in origin.changed]
            self._log.emit(
                ServerChanged,
                server=server,
                target=target,
                is_other=bool(before),
                target_before=next(iter(before), ""),
                tools=tuple([name for name, origin in changed.items() if "tool" in origin.changed]),
            )

    @cached_property
    def _specs(self) -> dict[str, ToolSpec]:
        """The tools as first logged, by name, or, if not in the log, as this run first had them."""
        having = [event for event in self._log.run.events if isinstance(event, RunStarted | ToolsChanged)]
        return {spec.name: spec for event in reversed(having) for spec in event.tools}

    def _changes_since_log(self, tool: MCPTool) -> Changes:
        changes: Changes = {}
        server, settings_then = tool.live.server, self._log.run.settings
        logged = settings_then.get(SERVERS)
        entry = logged.get(server.name) if isinstance(logged, dict) else None
        if isinstance(entry, dict) and {**entry, "tools": 0} != {**redact(encodable_data(server.as_logged)), "tools": 0}:
            shown = servers_of_log(settings_then).get(server.name)
            changes["server"] = "" if shown is None else shown.target
        spec = redact(tool.spec)
        logged_spec = self._specs.setdefault(spec.name, spec)
        if (logged_spec.description, logged_spec.input_schema) != (spec.description, spec.input_schema):
            changes["tool"] = diff(text_of(logged_spec), text_of(spec))
        return changes


def note(tools: Iterable[MCPTool], since_log: Callable[[MCPTool], Changes] = lambda tool: {}) -> None:
    """Record first sightings of servers and tools not seen before. Reads and writes files.

    Sets on each tool its changes since it was first seen. ``since_log`` returns the differences from a run's log.
    """
    looked = set[Path]()
    for tool in tools:
        sights = _sights(tool)
        for record, paths in sights.values():
            for path in paths:
                if path not in looked:
                    _look(path, record if path == paths[0] else None)
                    looked.add(path)
        tool.changes = partial(_changes, sights, since_log(tool))


def _changes(sights: Sights, since_log: Changes) -> Changes:
    """Return the changes; those that the person has since accepted do not count as changes since the log."""
    changes: Changes = {}
    for subject, (record, paths) in sights.items():
        seen = [*filter(None, map(_known.get, paths))]
        same = [earlier for earlier in seen if earlier.identity == record.identity]
        if seen and not same:
            before = seen[0].text
            changes[subject] = (before if subject == "server" else diff(before, record.text)) or since_log.get(subject, "")
        elif subject in since_log and not any(earlier.is_accepted for earlier in same):
            changes[subject] = since_log[subject]
    return changes


def accept(server: MCPServer, tools: Iterable[MCPTool]) -> bool:
    """Accept a server and these tools as they are: rules that allow calls apply to them, including in live runs.

    Earlier acceptances remain. Returns whether the acceptance outlives the process. Raises `SettingsError` if called
    by a model's code.
    """
    check_person(ACCEPTING, is_lasting=True)
    before = _look(_path_of(server.name))
    kept = [] if before is None or not before.identity else [_replace(_path_of(server.name, before.identity), before)]
    accepted = {_path_of(server.name): _record_of_server(server)}
    for tool in tools:
        record, (path,) = _sights(tool)["tool"]
        accepted[path] = record
    kept += [_replace(path, replace(record, is_accepted=True)) for path, record in accepted.items()]
    return all(kept)


def forget() -> None:
    """Clear the cache, so that the files are read again."""
    _known.clear()


def compare_tools(live: LiveServer, tools: Iterable[t.Tool]) -> tuple[MCPTool, ...]:
    """Return a server's tools with the changes since they were first seen."""
    usable = tools_of_server(live, tools).usable
    note(usable)
    return usable


def diff(before: str, now: str) -> str:
    """Return the change to a text as a unified diff of limited length; empty if the earlier text is unknown."""
    if not before:
        return ""
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), "first seen", "now", lineterm="")
    return "\n".join(lines)[:MAX_DIFF_CHARACTERS]


def text_of(spec: ToolSpec) -> str:
    """Return the description and the schema of a tool as lines, redacted."""
    schema = msgspec.json.format(msgspec.json.encode(spec.input_schema, order="sorted"), indent=2).decode()
    return redact(encodable(f"{spec.description}\n{visible(schema)}"))[:MAX_TEXT_CHARACTERS]


def _record_of_server(server: MCPServer) -> FirstSight:
    return FirstSight(server.name, server.identity, redact(visible(server.target)))


def _sights(tool: MCPTool) -> Sights:
    server, name = tool.live.server, encodable(tool.tool_name)
    paths = [_path_of(server.name), _path_of(server.name, server.identity)]
    of_tool = FirstSight(name, tool.identity, text_of(tool.spec))
    return {
        "server": (_record_of_server(server), paths),
        "tool": (of_tool, [_path_of(server.name, server.identity, digest([name]))]),
    }


def _path_of(name: str, *parts: str) -> Path:
    """Return the path of a file about a server with this name (as first seen or as later accepted) or about one of its
    tools.

    Uses digests, since a file system may not distinguish upper and lower case.
    """
    return settings.personal_folder() / FOLDER / digest([name]) / f"{'-'.join(parts) or 'server'}.json"


def _look(path: Path, now: FirstSight | None = None) -> FirstSight | None:
    """Return the content of a file, creating it from ``now`` if it is missing. If it cannot be written, keep it in memory."""
    record = _known.get(path, now)
    try:
        if now is not None and not path.exists():
            create_file(path, msgspec.json.encode(now))
        record = msgspec.json.decode(path.read_bytes(), type=FirstSight)
    except msgspec.DecodeError:
        record = UNREADABLE
    except OSError:
        pass
    if record is not None:
        _known[path] = record
    return record


def _replace(path: Path, now: FirstSight) -> bool:
    _known[path] = now
    with suppress(OSError):
        replace_file(path, msgspec.json.encode(now))
        return True
    return False
