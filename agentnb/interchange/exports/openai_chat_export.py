"""Requests to OpenAI's Chat Completions API that hold the complete conversation: one as JSON, several as JSON Lines.

Thinking is in ``reasoning_content``, as with other servers of this API. A tool message holds only text: images in a result
follow in a user message, and only the text indicates that a call failed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from agentnb.core.messages import Image, Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.request import ToolSpec
from agentnb.detect.run import Run
from agentnb.interchange.exports.stored_messages import conversation_of, json_or_lines
from agentnb.interchange.formats.exchanges import PARENT_ID, RUN_ID
from agentnb.models.providers.serialization import data_url, parameters
from agentnb.settings import SERVERS

NAME = "openai_chat"
TITLE = "OpenAI chat messages"
MAX_METADATA_CHARACTERS = 512
"""Maximum characters in a ``metadata`` value."""


def pieces(runs: Iterable[Run]) -> Iterable[bytes]:
    """Yield the file: a single request, or one request per line."""
    return json_or_lines(runs, request_of)


def request_of(run: Run) -> dict[str, Any]:
    """Return the request that holds a run's conversation."""
    system = [{"role": "system", "content": run.system}] if run.system else []
    messages = [converted for message in conversation_of(run) for converted in _messages(message)]
    request: dict[str, Any] = {"model": _model_name(run.model), "messages": [*system, *messages]}
    if run.tools:
        request["tools"] = [_tool(tool) for tool in run.tools]
    metadata = {RUN_ID: run.id, PARENT_ID: run.parent_id, "agentnb.status": run.status}
    return {**request, "metadata": {name: value[:MAX_METADATA_CHARACTERS] for name, value in metadata.items() if value}}


def _model_name(model: str) -> str:
    """Return the model's name, without agentnb's prefix if its provider has this API."""
    provider, _, name = model.partition(":")
    return name if name and SERVERS.get(provider, {}).get("wire") == "chat" else model


def _tool(tool: ToolSpec) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": parameters(tool)}
    return {"type": "function", "function": function}


def _messages(message: Message) -> Iterator[dict[str, Any]]:
    name_field = {"name": message.author} if message.author else {}
    if message.role == "assistant":
        yield {**_reply(message), **name_field}
        return
    images: list[Any] = []
    for part in message.parts:
        if isinstance(part, ToolResult):
            yield {"role": "tool", "tool_call_id": part.call_id, "content": part.text}
            images += [image for image in part.parts if isinstance(image, Image)]
    content = [*images, *[part for part in message.parts if isinstance(part, Text | Image)]]
    if content:
        yield {"role": "user", "content": _content(content), **name_field}


def _reply(message: Message) -> dict[str, Any]:
    reply: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    thought = "\n\n".join(part.text for part in message.parts if isinstance(part, Thinking) and part.text)
    if thought:
        reply["reasoning_content"] = thought
    if message.calls:
        reply["tool_calls"] = [call_data(call) for call in message.calls]
    elif not message.text:
        reply["content"] = ""  # the API requires content in messages without calls
    return reply


def call_data(call: ToolCall) -> dict[str, Any]:
    """Return a call in the form of the chat API."""
    arguments = call.arguments if isinstance(call.arguments, str) else json.dumps(call.arguments, ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _content(parts: list[Any]) -> str | list[dict[str, Any]]:
    """Return the content of a user message, as plain text if it consists of a single text part."""
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return content_parts(parts)


def content_parts(parts: Iterable[Text | Image]) -> list[dict[str, Any]]:
    """Return texts and images in the form of the chat API."""
    return [
        {"type": "image_url", "image_url": {"url": data_url(part)}}
        if isinstance(part, Image)
        else {"type": "text", "text": part.text}
        for part in parts
    ]
