"""MCP servers and their tools as they were first seen, to which permissions belong.

Kept in the person's own folder, in a small file for each, which is created whole and once: so several processes agree on it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from msgspec.structs import replace

from agentnb import settings
from agentnb.core.messages import encodable, visible
from agentnb.core.redaction import redact
from agentnb.core.request import ToolSpec
from agentnb.personal_files import create_file, replace_file
from agentnb.runtime.questions.model_code import check_person
from agentnb.tools.mcp.connections.live_server import LiveServer
from agentnb.tools.mcp.server import MCPServer, digest
from agentnb.tools.mcp.server_tool import NO_CHANGE, Changed, MCPTool, ToolChange, found_tools

if TYPE_CHECKING:
    from mcp import types as t

ACCEPTING = "Accepting an MCP server as it is now"
"""The act, for the code of a model, which may not do it."""

FOLDER = "mcp-first-seen"
MAX_TEXT_CHARACTERS = 20_000
"""Characters of a description and schema that are kept, to show what has changed in them."""
MAX_DIFF_CHARACTERS = 8_000


class FirstSight(msgspec.Struct, frozen=True, omit_defaults=True):
    """A server, or a tool of one, as it was seen."""

    name: str = ""
    identity: str = ""
    text: str = ""
    """What a change is shown with: command or address; description and schema."""
    is_accepted: bool = False
    """Whether the person took it as it was then, and did not merely use it."""


UNREADABLE = FirstSight()
"""Stands for a file that is damaged: whatever is there now differs from it."""


class FirstSeen:
    """Servers and tools as first seen, in the person's folder; where that cannot be written, in this process. Thread-safe."""

    def __init__(self) -> None:
        self._known: dict[Path, FirstSight] = {}
        """What the files hold that were read, or would hold."""

    def note(self, tools: Iterable[MCPTool]) -> None:
        """Take the servers and the tools as first seen, unless they were seen before. Reads and writes files.

        Each tool knows from here on what has changed of it.
        """
        each = [*tools]
        for server in {tool.live.server.name: tool.live.server for tool in each}.values():
            first = self._look(_path_of(server.name), _seen_server(server))
            if first is None or first.identity != server.identity:
                self._look(_path_of(server.name, server.identity))
        for tool in each:
            self._look(_tool_path(tool), _seen_tool(tool))
            tool.change_since_seen = partial(self.change, tool)

    def change(self, tool: MCPTool) -> ToolChange:
        """Return what has changed of a tool that was noted."""
        server, change = tool.live.server, NO_CHANGE
        known, seen = self._known.get(_path_of(server.name)), self._known.get(_tool_path(tool))
        if known and known.identity != server.identity and _path_of(server.name, server.identity) not in self._known:
            change = ToolChange(("server",), known.text)
        if seen and seen.identity != tool.identity:
            change = change.and_of(ToolChange(("tool",), diff=diff(seen.text, text_of(tool.spec))))
        return change

    def is_accepted(self, tool: MCPTool, what: Changed) -> bool:
        """Return whether the person took a tool, or its server, as it is now."""
        server = tool.live.server
        paths = [_tool_path(tool)] if what == "tool" else [_path_of(server.name), _path_of(server.name, server.identity)]
        identity = tool.identity if what == "tool" else server.identity
        return any(one.is_accepted and one.identity == identity for one in filter(None, map(self._known.get, paths)))

    def accept(self, server: MCPServer, tools: Iterable[MCPTool]) -> bool:
        """Take a server and these tools of it as they are: rules that allow count for them, also in runs that are live.

        What was accepted before stays so. Returns whether that outlives the process. Raises `SettingsError` in the code of a
        model.
        """
        check_person(ACCEPTING, is_lasting=True)
        before = self._look(_path_of(server.name))
        kept = [self._replace(_path_of(server.name, before.identity), before)] if before is not None and before.identity else []
        kept.append(self._replace(_path_of(server.name), replace(_seen_server(server), is_accepted=True)))
        kept += [self._replace(_tool_path(tool), replace(_seen_tool(tool), is_accepted=True)) for tool in tools]
        return all(kept)

    def forget(self) -> None:
        """Forget what this process has read: files decide again."""
        self._known.clear()

    def _look(self, path: Path, now: FirstSight | None = None) -> FirstSight | None:
        """Return what a file holds: this, if it is not there yet. Where it cannot be written, it holds in this process."""
        found = self._known.get(path, now)
        with suppress(OSError):
            found = _read(path) or (found if now is None else _create(path, now))
        if found is not None:
            self._known[path] = found
        return found

    def _replace(self, path: Path, now: FirstSight) -> bool:
        self._known[path] = now
        try:
            replace_file(path, msgspec.json.encode(now))
        except OSError:
            return False
        return True


first_seen = FirstSeen()
"""That of this process."""


def compared_tools(live: LiveServer, tools: Iterable[t.Tool]) -> tuple[MCPTool, ...]:
    """Return the tools of a server with what has changed of them since they were first seen, if they were."""
    found = found_tools(live, tools).usable
    first_seen.note(found)
    return found


def diff(before: str, now: str) -> str:
    """Return the change of a text as a unified diff, bounded; empty if the earlier text is not known."""
    if not before:
        return ""
    lines = difflib.unified_diff(before.splitlines(), now.splitlines(), "first seen", "now", lineterm="")
    return "\n".join(lines)[:MAX_DIFF_CHARACTERS]


def text_of(spec: ToolSpec) -> str:
    """Return the description and the schema of a tool as lines, redacted."""
    schema = msgspec.json.format(msgspec.json.encode(spec.input_schema, order="sorted"), indent=2).decode()
    return redact(encodable(f"{spec.description}\n{visible(schema)}"))[:MAX_TEXT_CHARACTERS]


def _seen_server(server: MCPServer) -> FirstSight:
    return FirstSight(server.name, server.identity, redact(visible(server.target)))


def _seen_tool(tool: MCPTool) -> FirstSight:
    return FirstSight(encodable(tool.tool_name), tool.identity, text_of(tool.spec))


def _path_of(name: str, *parts: str) -> Path:
    """Return the path of a file about a server of this name: as first seen, as accepted since, or of a tool of one.

    Digests: a file system may not tell upper from lower case.
    """
    return settings.personal_folder() / FOLDER / digest([name]) / f"{'-'.join(parts) or 'server'}.json"


def _tool_path(tool: MCPTool) -> Path:
    server = tool.live.server
    return _path_of(server.name, server.identity, digest([encodable(tool.tool_name)]))


def _read(path: Path) -> FirstSight | None:
    """Return what a file holds; None if it is not there. Raises OSError."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=FirstSight)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError:
        return UNREADABLE


def _create(path: Path, now: FirstSight) -> FirstSight:
    """Create a file, and return what it holds: this, or that of another process which was quicker. Raises OSError."""
    create_file(path, msgspec.json.encode(now))
    return _read(path) or now
