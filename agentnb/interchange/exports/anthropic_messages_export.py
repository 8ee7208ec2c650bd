"""Requests to Anthropic's Messages API that hold the complete conversation: one as JSON, several as JSON Lines.

Blocks made by the API itself, such as thinking with its signature, are kept as they were sent. The ids of a run and its parent
are in ``user_id``, the only free text that this API accepts with a request.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable
from typing import Any

from agentnb.core.messages import AnyPart, Image, Message, Thinking, ToolCall, ToolResult
from agentnb.detect.run import Run
from agentnb.interchange.exports.stored_messages import conversation_of, json_or_lines
from agentnb.interchange.formats.exchanges import PARENT_ID, RUN_ID
from agentnb.models.defaults import MAX_TOKENS
from agentnb.models.providers.anthropic import NAME as OWN
from agentnb.models.providers.serialization import arguments_of, parameters

NAME = "anthropic_messages"
TITLE = "messages of Anthropic's API"


def pieces(runs: Iterable[Run]) -> Iterable[bytes]:
    """Yield the file: a single request, or one request per line."""
    return json_or_lines(runs, request_of)


def request_of(run: Run) -> dict[str, Any]:
    """Return the request that holds a run's conversation."""
    request: dict[str, Any] = {"model": run.model.removeprefix(f"{OWN}:"), "max_tokens": MAX_TOKENS}
    request["stop_sequences"] = []  # only this API has it: identifies text-only conversations on import
    if run.system:
        request["system"] = [{"type": "text", "text": run.system}]
    if run.tools:
        request["tools"] = [
            {"name": tool.name, "description": tool.description, "input_schema": parameters(tool)} for tool in run.tools
        ]
    ids = {RUN_ID: run.id, PARENT_ID: run.parent_id}
    request["metadata"] = {"user_id": " ".join([f"{name}={value}" for name, value in ids.items() if value])}
    return {**request, "messages": [_message(message) for message in conversation_of(run)]}


def _message(message: Message) -> dict[str, Any]:
    parts = message.parts
    if message.role == "tool":
        parts = tuple(sorted(parts, key=lambda part: not isinstance(part, ToolResult)))  # the API wants results first
    blocks = [block for part in parts if (block := _block(part)) is not None]
    return {"role": "assistant" if message.role == "assistant" else "user", "content": blocks}


def _block(part: AnyPart) -> dict[str, Any] | None:
    """Return the block for a part, or None for empty text, which the API refuses."""
    if isinstance(part, ToolResult):
        content = [block for inner in part.parts if (block := _block(inner)) is not None]
        return {"type": "tool_result", "tool_use_id": part.call_id, "content": content, "is_error": part.is_error}
    if isinstance(part, Image):
        source = {"type": "base64", "media_type": part.media_type, "data": base64.b64encode(part.data).decode()}
        return {"type": "image", "source": source}
    own: Any = (part.provider_metadata or {}).get(OWN)
    if isinstance(part, ToolCall):
        kept = own if isinstance(own, dict) else {}
        return {"type": "tool_use", "id": part.id, "name": part.name, "input": arguments_of(part), **kept}
    if isinstance(own, dict):
        return {"type": "thinking" if isinstance(part, Thinking) else "text", **own}
    if isinstance(part, Thinking):
        return {"type": "thinking", "thinking": part.text, "signature": ""} if part.text else None
    return {"type": "text", "text": part.text} if part.text else None
