"""What would be sent: for ``%%agent --dry``."""

from __future__ import annotations

import re

import msgspec

from agentnb.core.messages import Message, Text, ToolCall, ToolResult
from agentnb.core.request import Request
from agentnb.core.tool_spec import ToolSpec
from agentnb.models.estimate import tokens_of_message, tokens_of_request, tokens_of_text, tokens_of_tools
from agentnb.notebook.wording import clean

LINE = 100
"""Characters up to which a list or an object of a schema stands on one line."""
_INNERMOST = re.compile(r"[\[{][^\[\]{}]*[\]}]")


def dry_text(model: str, request: Request) -> str:
    """The first request, the schemas of its tools and how many tokens it is, about."""
    lines = [
        f"Nothing was sent. The first request to {model} would be about {tokens_of_request(request):,} tokens:",
        "",
        f"--- system (about {tokens_of_text(request.system):,}) ---",
        request.system or "(none)",
    ]
    for message in request.messages:
        lines += ["", f"--- {message.role} (about {tokens_of_message(message):,}) ---", _message_text(message)]
    lines += ["", f"--- tools (about {tokens_of_tools(request.tools):,}) ---"]
    lines += [tool_text(tool) for tool in request.tools] or ["(none)"]
    return clean("\n".join(lines))


def tool_text(tool: ToolSpec) -> str:
    """A tool as the model sees it."""
    schema = msgspec.json.format(msgspec.json.encode(tool.input_schema), indent=2).decode()
    return f"{tool.name}: {tool.description or '(no description)'}\n{_INNERMOST.sub(_on_one_line, schema)}"


def _on_one_line(match: re.Match[str]) -> str:
    line = " ".join(match.group().split())
    return line if len(line) <= LINE else match.group()


def _message_text(message: Message) -> str:
    lines = ["\n\n".join(texts)] if (texts := [part.text for part in message.parts if isinstance(part, Text)]) else []
    for part in message.parts:
        if isinstance(part, ToolCall):
            lines.append(f"{part.name}({msgspec.json.encode(part.arguments).decode()})")
        elif isinstance(part, ToolResult):
            lines.append(f"{part.name}: {part.text}")
    return "\n".join(lines)
