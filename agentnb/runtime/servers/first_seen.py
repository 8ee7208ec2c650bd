"""MCP servers and their tools as they were first seen, to which permissions belong.

Kept in the person's own folder, in a small file for each, which is created whole and once: so several processes agree on it.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import msgspec
from msgspec.structs import replace

from agentnb import settings
from agentnb.core.messages import encodable, visible
from agentnb.core.redaction import redact
from agentnb.core.request import ToolSpec
from agentnb.personal_files import create_file, replace_file
from agentnb.tools.mcp.server import MCPServer, digest
from agentnb.tools.mcp.server_tool import NO_CHANGE, Changed, MCPTool, ToolChange

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
        """Take the servers and the tools as first seen, unless they were seen before. Reads and writes files."""
        each, folder = [*tools], settings.personal_folder()
        for server in {tool.live.server.name: tool.live.server for tool in each}.values():
            first = self._first(_server_path(server.name, folder), _seen_server(server))
            if first.identity != server.identity:
                self._read(_accepted_path(server, folder))
        for tool in each:
            self._first(_tool_path(tool, folder), _seen_tool(tool))

    def change(self, tool: MCPTool) -> ToolChange:
        """Return what has changed of a tool that was noted."""
        server, folder = tool.live.server, settings.personal_folder()
        known = self._known.get(_server_path(server.name, folder))
        seen, found = self._known.get(_tool_path(tool, folder)), NO_CHANGE
        if known is not None and known.identity != server.identity and self._known.get(_accepted_path(server, folder)) is None:
            found = ToolChange(("server",), known.text)
        if seen is not None and seen.identity != tool.identity:
            found = found.and_of(ToolChange(("tool",), diff=diff(seen.text, text_of(tool.spec))))
        return found

    def accepted(self, tool: MCPTool) -> list[Changed]:
        """Return which of a tool and its server the person took as they are now."""
        server, seen = tool.live.server, self._known.get(_tool_path(tool))
        known = [self._known.get(path) for path in (_server_path(server.name), _accepted_path(server))]
        found: list[Changed] = []
        if any(one is not None and one.is_accepted and one.identity == server.identity for one in known):
            found.append("server")
        if seen is not None and seen.is_accepted and seen.identity == tool.identity:
            found.append("tool")
        return found

    def accept(self, server: MCPServer, tools: Iterable[MCPTool]) -> bool:
        """Take a server and its tools as they are; what was accepted before stays so.

        Returns whether that outlives the process.
        """
        path = _server_path(server.name)
        before = self._read(path)
        kept = [self._replace(_path_of(server.name, before.identity), before)] if before is not None and before.identity else []
        kept.append(self._replace(path, replace(_seen_server(server), is_accepted=True)))
        kept += [self._replace(_tool_path(tool), replace(_seen_tool(tool), is_accepted=True)) for tool in tools]
        return all(kept)

    def forget(self) -> None:
        """Forget what this process has read: files decide again."""
        self._known.clear()

    def _read(self, path: Path) -> FirstSight | None:
        with suppress(OSError):
            found = _read(path)
            if found is not None:
                self._known[path] = found
        return self._known.get(path)

    def _first(self, path: Path, now: FirstSight) -> FirstSight:
        try:
            found = _read(path) or _create(path, now)
        except OSError:  # it holds in this process
            found = self._known.get(path, now)
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


def _path_of(name: str, *parts: str, folder: Path | None = None) -> Path:
    """Return the path of a file about a server of this name. Digests: a file system may not tell upper from lower case.

    ``folder``: that of the person's own files, if it is known.
    """
    return (folder or settings.personal_folder()) / FOLDER / digest([name]) / f"{'-'.join(parts) or 'server'}.json"


def _server_path(name: str, folder: Path | None = None) -> Path:
    return _path_of(name, folder=folder)


def _accepted_path(server: MCPServer, folder: Path | None = None) -> Path:
    return _path_of(server.name, server.identity, folder=folder)


def _tool_path(tool: MCPTool, folder: Path | None = None) -> Path:
    server = tool.live.server
    return _path_of(server.name, server.identity, digest([encodable(tool.tool_name)]), folder=folder)


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
