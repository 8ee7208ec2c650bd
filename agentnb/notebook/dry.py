"""``%%agent --dry``: shows the first request without sending it."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec

from agentnb import settings
from agentnb.agent.agent import Agent
from agentnb.core.messages import Message, Text, ToolCall, ToolResult
from agentnb.core.request import Request, ToolSpec
from agentnb.core.todos import TODO_TOOL
from agentnb.display.texts.labels import clean
from agentnb.models.estimate import tokens_of_message, tokens_of_request, tokens_of_text, tokens_of_tools
from agentnb.notebook.lookup.server_names import shown_later
from agentnb.policies.run_limits import LIMITS
from agentnb.tools.mcp.mcp_server import ServerTools

MAX_LINE_CHARACTERS = 100
"""Maximum characters of a list or object in a schema that is shown on one line."""
SHOWN_ABOVE = frozenset({"messages", "input", "system", "instructions", "tools"})
"""Fields of a request's wire form that have already been shown as text."""
_INNERMOST = re.compile(r"[\[{][^\[\]{}]*[\]}]")


def limits_line(agent: Agent) -> str:
    """Return the limits that are set, by option name, or ""."""
    set_ones = {name: getattr(agent.limits, name) for name, limit in LIMITS.items() if not limit.is_required}
    limits = {name: f"{value:g}" for name, value in set_ones.items() if value is not None}
    if "budget" in limits:
        limits["budget"] = f"${limits['budget']}{', unpriced calls count as $0' if agent.unpriced else ''}"
    if agent.limits.max_rounds != settings.max_iterations():
        limits = {"max_rounds": str(agent.limits.max_rounds)} | limits
    if agent.limits.on_limit != "stop":
        limits["on_limit"] = agent.limits.on_limit
    listed = ", ".join(f"{name.replace('_', '-')} {value}" for name, value in limits.items())
    return f"Run limits: {listed}" if listed else ""


def dry_text(
    model: str, request: Request, wire: bytes | None = None, limits: str = "", servers: Iterable[ServerTools] = ()
) -> str:
    """Return the first request, its tool schemas and an estimate of its tokens. Its ``wire`` form is reduced to fields not
    shown above.

    ``limits``: a line with the run's limits; ``servers``: tools of MCP servers, which a dry run does not start.
    """
    lines = [
        f"Nothing was sent. The first request to {model} would be about {tokens_of_request(request):,} tokens:",
        *([limits] if limits else []),
        "",
        f"--- system (about {tokens_of_text(request.system):,}) ---",
        request.system or "(none)",
    ]
    for message in request.messages:
        lines += ["", f"--- {message.role} (about {tokens_of_message(message):,}) ---", _message_text(message)]
    lines += ["", f"--- tools (about {tokens_of_tools(request.tools):,}) ---"]
    tools = [
        f"{tool.name}: {tool.description.splitlines()[0]} (built in, about {tokens_of_tools((tool,)):,} tokens)"
        if tool.name == TODO_TOOL  # its description is long and always the same
        else tool_text(tool)
        for tool in request.tools
    ]
    lines += [*tools, *shown_later(servers)] or ["(none)"]
    if wire is not None:
        fields = msgspec.json.decode(wire)
        lines += ["", "--- other fields ---"]
        lines += [f"{key}={msgspec.json.encode(value).decode()}" for key, value in fields.items() if key not in SHOWN_ABOVE]
    return clean("\n".join(lines))


def tool_text(tool: ToolSpec) -> str:
    """Return a tool as the model sees it."""
    schema = msgspec.json.format(msgspec.json.encode(tool.input_schema), indent=2).decode()
    return f"{tool.name}: {tool.description or '(no description)'}\n{_INNERMOST.sub(_on_one_line, schema)}"


def _on_one_line(match: re.Match[str]) -> str:
    line = " ".join(match.group().split())
    return line if len(line) <= MAX_LINE_CHARACTERS else match.group()


def _message_text(message: Message) -> str:
    lines = ["\n\n".join(texts)] if (texts := [part.text for part in message.parts if isinstance(part, Text)]) else []
    for part in message.parts:
        if isinstance(part, ToolCall):
            lines.append(f"{part.name}({msgspec.json.encode(part.arguments).decode()})")
        elif isinstance(part, ToolResult):
            lines.append(f"{part.name}: {part.text}")
    return "\n".join(lines)
