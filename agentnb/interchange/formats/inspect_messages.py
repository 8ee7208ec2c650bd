"""Messages in Inspect logs, completed with data from the events of the same model and tool calls."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from agentnb.core.messages import AnyPart, Text, Thinking, ToolCall
from agentnb.core.request import ToolSpec
from agentnb.core.run.rounds import SERVER_SIDE
from agentnb.core.usage import Usage
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats import openai_chat
from agentnb.interchange.formats.message_content import (
    cost_of,
    image_of,
    parts_of,
    str_at,
    texts_of,
    time_at,
    value_at,
)
from agentnb.interchange.formats.steps import thinking

_ATTACHMENT = re.compile(r"(?:attachment|tc)://([0-9a-f]{32}|\d+)")
"""A reference to a text stored elsewhere in the log, by hash or by index among the chunks; logs from 2024 use ``tc``."""
_ERROR_CODES = {"parsing": "invalid_arguments", "unknown": "tool_error"}
"""agentnb's codes for tool errors; other errors keep Inspect's code."""
_FILES = ("audio", "video", "document")
MAX_URL_CHARACTERS = 200
"""Maximum characters kept of the URL of an image or file."""


def resolve_attachments(value: Any, attachments: dict[str, str]) -> Any:
    """Replace references to attachments with their texts; references to missing attachments are left as they are."""
    if isinstance(value, str):
        if "://" not in value:
            return value
        return _ATTACHMENT.sub(lambda found: str(attachments.get(found[1], found[0])), value)
    if isinstance(value, list):
        return [resolve_attachments(item, attachments) for item in value]
    if isinstance(value, dict):
        return {key: resolve_attachments(item, attachments) for key, item in value.items()}
    return value


@dataclass(slots=True)
class Events:
    """The events of one agent: its model calls, and its tool calls by id."""

    models: list[dict[str, Any]] = field(default_factory=list)
    tools: dict[str, deque[dict[str, Any]]] = field(default_factory=dict)

    def add_tool(self, event: dict[str, Any]) -> None:
        """Add a tool call. Its id may have occurred before."""
        self.tools.setdefault(str_at(event, "id"), deque()).append(event)

    def merge(self, other: Events) -> None:
        """Add the events of another agent in the same conversation."""
        self.models += other.models
        self.models.sort(key=lambda event: str_at(event, "timestamp"))
        for calls in other.tools.values():
            for call in calls:
                self.add_tool(call)

    @staticmethod
    def reply_of(event: dict[str, Any]) -> dict[str, Any] | None:
        """Return the message that a model call produced, or None if the call failed."""
        message = openai_chat.first_choice(event.get("output") or {}).get("message")
        return message if isinstance(message, dict) else None

    def is_in(self, messages: Iterable[Any], attachments: dict[str, str]) -> bool:
        """True if one of the replies of these model calls is among the messages."""
        among = [message for message in messages if value_at(message, "role") == "assistant"]
        ids = {str(message["id"]) for message in among if message.get("id")}
        replies = [reply for event in self.models if (reply := self.reply_of(event)) is not None]
        if any(str(reply.get("id")) in ids for reply in replies):
            return True
        unnamed = [message for message in among if not message.get("id")]
        return any(is_same(resolve_attachments(reply, attachments), message) for reply in replies for message in unnamed)


def is_same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Compare messages by their ids or, if they have none, by their content and calls."""
    if one.get("id") and other.get("id"):
        return bool(one["id"] == other["id"])
    return one.get("content") == other.get("content") and (one.get("tool_calls") or []) == (other.get("tool_calls") or [])


def is_answer(message: Any) -> bool:
    """True if this is a reply that has content and no tool calls."""
    return value_at(message, "role") == "assistant" and bool(message.get("content")) and not message.get("tool_calls")


def tools_of(events: Events, attachments: dict[str, str]) -> tuple[ToolSpec, ...]:
    """Return the tools sent with these model calls."""
    by_name = {tool.name: tool for event in events.models for tool in openai_chat.tools_of(event.get("tools"))}
    return tuple(
        ToolSpec(
            tool.name, resolve_attachments(tool.description, attachments), resolve_attachments(tool.input_schema, attachments)
        )
        for tool in by_name.values()
    )


class MessageReader:
    """Adds one agent's messages to a writer."""

    def __init__(self, writer: RunWriter, events: Events, attachments: dict[str, str], began: datetime | None = None) -> None:
        """``began``: time of the first message."""
        self._writer, self._tools, self._began = writer, events.tools, began
        self._models = deque((event, resolve_attachments(events.reply_of(event), attachments)) for event in events.models)

    def take(self, message: dict[str, Any]) -> None:
        """Add a message whose attachments have been resolved."""
        role = message["role"]
        if role == "system":
            self._writer.system(texts_of(message_parts(message)))
        elif role == "user":
            author = "operator" if message.get("source") == "operator" else ""
            self._writer.say(message_parts(message), author=author, at=self._began)
            self._began = None
        elif role == "assistant":
            self._reply(message)
        else:
            self._result(message)

    def _reply(self, message: dict[str, Any]) -> None:
        event = self._event_of(message)
        output = event.get("output") or {}
        content = message.get("content")
        used = [item for item in content if item.get("type") == "tool_use"] if isinstance(content, list) else []
        calls = [_call(item) for item in message.get("tool_calls") or ()]
        self._writer.reply(
            message_parts(message),
            [*map(_server_side_call, used), *calls],
            at=time_at(event, "completed", "timestamp"),
            usage=usage_of(output.get("usage")),
            seconds=output.get("time") or event.get("working_time"),
            stop_reason=str(openai_chat.first_choice(output).get("stop_reason") or ""),
            metadata={"model": message["model"]} if message.get("model") else None,
        )
        for item in used:  # server-side
            error = item.get("error")
            text = str(error or item.get("result") or "")
            self._writer.result(str_at(item, "id"), text, name=item["name"], error_code="tool_error" if error else None)

    def _event_of(self, message: dict[str, Any]) -> dict[str, Any]:
        """Return the event of the model call that produced this message. Earlier failed calls become warnings."""
        if not any(reply is not None and is_same(reply, message) for _, reply in self._models):
            return {}
        while True:
            event, reply = self._models.popleft()
            if reply is not None and is_same(reply, message):
                return event
            if event.get("error"):
                self._writer.warn(f"A model call failed: {event['error']}", time_at(event))

    def _result(self, message: dict[str, Any]) -> None:
        call_id, error = str_at(message, "tool_call_id"), message.get("error")
        events = self._tools.get(call_id)
        event = events.popleft() if events else {}
        parts = message_parts(message)
        code = None
        if isinstance(error, dict):
            kind, text = str(error.get("type") or "unknown"), str_at(error, "message")
            code = _ERROR_CODES.get(kind, kind)
            texts = [part.text for part in parts if isinstance(part, Text)]
            if text and text not in "\n".join(texts):  # sent to the model instead of the content
                parts = [*(parts if any(texts) else ()), Text(text)]
        self._writer.result(
            call_id,
            parts,
            name=str_at(message, "function"),
            error_code=code,
            at=time_at(event, "completed"),
            seconds=event.get("working_time"),
        )


def message_parts(message: dict[str, Any]) -> list[AnyPart]:
    """Return the parts of a message, excluding calls."""
    content = message.get("content")
    parts = thinking(message.get("reasoning"))  # in early logs
    if not isinstance(content, list):
        return parts + parts_of(content)
    for item in content:
        parts += _parts(item) if isinstance(item, dict) else parts_of([item])
    return parts


def _parts(one: dict[str, Any]) -> list[AnyPart]:
    """Return the parts of message content; empty for kinds that are read elsewhere or concern only the provider."""
    kind = one.get("type")
    if kind == "reasoning":
        return [_thinking(one)]
    if kind == "image":
        address = str(one["image"])
        return [image_of(address) or Text(f"[picture: {address[:MAX_URL_CHARACTERS]}]")]
    if kind in _FILES:
        address = str(one[kind])
        where = f"{len(address):,} characters" if address.startswith("data:") else address[:MAX_URL_CHARACTERS]
        return [Text(f"[{kind}: {one.get('filename') or one.get('format') or ''} {where}]")]
    return [] if kind in ("tool_use", "data") else parts_of(one)


def _thinking(one: dict[str, Any]) -> Thinking:
    text = str_at(one, "summary") if one.get("redacted") else str_at(one, "reasoning", "summary")
    kept = {name: one[name] for name in ("signature", "redacted") if one.get(name)}
    return Thinking(text, kept or None)


def _server_side_call(one: dict[str, Any]) -> ToolCall:
    """Return a call that the provider itself ran."""
    own = {SERVER_SIDE: {"type": str(one.get("tool_type") or "tool_use")}}
    return ToolCall(one["name"], one.get("arguments"), str_at(one, "id"), own)


def _call(one: dict[str, Any]) -> ToolCall:
    function = one["function"]
    if isinstance(function, dict):  # as in the API
        return ToolCall(function["name"], function.get("arguments"), str_at(one, "id"))
    wrong = one.get("parse_error")
    return ToolCall(function, one.get("arguments"), str_at(one, "id"), {"parse_error": str(wrong)} if wrong else None)


def usage_of(usage: Any) -> Usage:
    """Return the usage of a model call. The input includes cache tokens, which Inspect may count separately."""
    if not isinstance(usage, dict):
        return Usage()
    sent, received, total = usage.get("input_tokens"), usage.get("output_tokens"), usage.get("total_tokens")
    read, written = usage.get("input_tokens_cache_read"), usage.get("input_tokens_cache_write")
    cached = (read or 0) + (written or 0)
    if cached and sent is not None and total == sent + (received or 0) + cached:
        sent += cached
    return Usage(sent, received, read, written, usage.get("reasoning_tokens"), cost_of(usage.get("total_cost")))
