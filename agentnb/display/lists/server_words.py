"""Wording for MCP servers: states, facts, tool arguments. Text from servers is reduced to one bounded line and redacted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.core.redaction import redact
from agentnb.display.texts.labels import first_line, pluralize
from agentnb.runtime.servers.servers import ListedServer
from agentnb.tools.mcp.connections.live_server import State

STATES: dict[State, tuple[str, str]] = {
    "configured": ("neutral", "Not started"),
    "starting": ("active", "Starting"),
    "ready": ("good", "Running"),
    "dead": ("bad", "Exited on its own"),
    "failed": ("bad", "Failed"),
    "stopped": ("warn", "Stopped"),
}
"""The tone and words for each state."""
MAX_TARGET, MAX_NAME, MAX_TEXT, MAX_PROBLEM = 300, 80, 200, 500
"""Maximum characters of a command or address, a name, a description, and a reason, respectively."""
MAX_ARGUMENTS = 12
"""Maximum arguments of a tool that are named; the rest are counted."""


def safe_line(text: object, most: int = MAX_TEXT) -> str:
    """Return untrusted text on one bounded line, with known keys redacted and control characters removed."""
    return first_line(redact(str(text)), most)


def state_of(row: ListedServer) -> tuple[str, str]:
    """Return the tone and words for a server's state."""
    tone, state = STATES[row.live.state]
    return tone, "Connected" if row.live.server.is_remote and row.live.state == "ready" else state


def figures_of(row: ListedServer) -> list[str]:
    """Return a server's number of tools, its start time, and the source of its configuration."""
    figures = []
    if row.live.facts is not None:
        figures.append(pluralize(len(row.live.tools), "tool"))
        if row.live.state == "ready":
            figures.append(f"since {row.live.facts.since.astimezone():%H:%M}")
    return [*figures, safe_line(row.source)]


def problem_words(row: ListedServer) -> str:
    """Return why starting or connecting failed, or ""."""
    verb = "reached" if row.live.server.is_remote else "started"
    lead = f"Could not be {verb}: " if row.live.state == "failed" else ""
    return f"{lead}{safe_line(row.live.problem, MAX_PROBLEM)}" if row.live.problem else ""


def server_count(rows: list[ListedServer]) -> str:
    """Return ``3 MCP servers``, counting a server with several connections only once."""
    return pluralize(len({(row.live.server.name, row.source) for row in rows}), "MCP server")


def argument_list(schema: Mapping[str, Any]) -> str:
    """Return a tool's arguments, such as ``a: integer, note?: string``, where ``?`` marks optional ones."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping):
        return ""
    needed = required if isinstance(required, list) else []
    names = list(properties)
    shown = [_argument(name, properties[name], name in needed) for name in names[:MAX_ARGUMENTS]]
    more = len(names) - len(shown)
    return ", ".join([*shown, *([f"{more:,} more"] if more else [])])


def _argument(name: str, schema: Any, is_needed: bool) -> str:
    kind = _kind(schema) if isinstance(schema, Mapping) else ""
    return f"{safe_line(name, MAX_NAME)}{'' if is_needed else '?'}{f': {kind}' if kind else ''}"


def _kind(schema: Mapping[str, Any]) -> str:
    declared = schema.get("type")
    if isinstance(schema.get("enum"), list):
        return "choice"
    if isinstance(declared, str):
        return safe_line(declared, MAX_NAME)
    kinds = declared if isinstance(declared, list) else [kind.get("type") for kind in _alternatives(schema)]
    return " or ".join(safe_line(kind, MAX_NAME) for kind in kinds[:3] if isinstance(kind, str) and kind != "null")


def _alternatives(schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    schemas = schema.get("anyOf") or schema.get("oneOf")
    return [alternative for alternative in schemas if isinstance(alternative, Mapping)] if isinstance(schemas, list) else []
