"""Text and thinking of Kimi models, in the format that Kimi's products share."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from agentnb.core.messages import AnyPart, Text, Thinking
from agentnb.interchange.formats.message_content import as_list, parts_of, value_at
from agentnb.interchange.formats.session_log import text_at


def kimi_parts(content: Any) -> list[AnyPart]:
    """Return the parts of message content, which may be one part or a list."""
    parts: list[AnyPart] = []
    for item in as_list(content):
        if value_at(item, "type") == "think":
            parts.append(Thinking(text_at(item, "think")))
        else:
            parts += parts_of(item)
    return parts


def add_piece(parts: list[AnyPart], piece: dict[str, Any]) -> None:
    """Add a streamed piece, joining it to the last part if that is of the same kind."""
    for part in kimi_parts(piece):
        last = parts[-1] if parts else None
        if isinstance(part, Text | Thinking) and isinstance(last, Text | Thinking) and type(last) is type(part):
            parts[-1] = replace(last, text=last.text + part.text)
        else:
            parts.append(part)
