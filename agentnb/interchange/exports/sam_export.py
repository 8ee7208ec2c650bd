"""Conversations as SAM exports and imports them: one run as a single export, several runs as a bulk export."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import UUID, uuid5

import msgspec

from agentnb.core.log import events as e
from agentnb.core.log.work_events import ReplyGiven
from agentnb.core.messages import Image, Message, Text, Thinking, ToolResult
from agentnb.core.run.rounds import LOST
from agentnb.detect.run import Run
from agentnb.interchange.exports.openai_chat_export import call_data, content_parts

NAME = "sam"
TITLE = "SAM's export"
VERSION = "1.0"
"""Version of the format, and of SAM for runs that do not record it."""
_NAMESPACE = UUID("5f2b3c0e-8a57-4f6e-9a54-0c1d7f6b7a10")
"""Namespace of message ids, which are derived from the run's id so that repeated exports match."""
_MAX_TITLE = 60
_DEFAULTS: dict[str, Any] = {"temperature": 0.7, "topP": 1.0, "contextWindowSize": 8192, "enableReasoning": False}
"""SAM's defaults. Its format requires all of these in order to record the model."""
_RESULTS = ("toolExecution", "subagentExecution")


def pieces(runs: Iterable[Run]) -> Iterable[bytes]:
    """Yield the file: a single export for one run, or a bulk export for several."""
    exports = [conversation_export(run) for run in runs]
    if len(exports) == 1:
        document = exports[0]
    else:
        head = _head()
        if exports:
            head["samVersion"] = str(exports[0]["samVersion"])
        document = {**head, "conversationCount": len(exports), "conversations": exports}
    yield msgspec.json.format(msgspec.json.encode(document), indent=2)
    yield b"\n"


def conversation_export(run: Run) -> dict[str, Any]:
    """Return the complete single export for a run."""
    recorded = _recorded_fields(run)
    messages = list(_Messages(run, recorded.get("messages")).all())
    fields = _object(recorded.get("conversation"))
    now = _time(datetime.now(UTC))
    times = [message["timestamp"] for message in messages if isinstance(message["timestamp"], str)]
    made = {
        "id": conversation_id(run.id),
        "title": _title(run.prompt),
        "created": min(times, default=now),
        "updated": max(times, default=now),
        "messages": messages,
        "settings": None if recorded else _settings(run),
    }
    conversation = made | {name: value for name, value in fields.items() if value or name not in made}
    kept = {name: value for name, value in conversation.items() if value is not None}
    return {**_head(), **_object(recorded.get("export")), "conversation": kept}


def _head() -> dict[str, Any]:
    return {"formatVersion": VERSION, "exportedAt": _time(datetime.now(UTC)), "samVersion": f"{VERSION}.0"}


def conversation_id(run_id: str) -> str:
    """Return the id of a run's conversation. It is the run's own id if that is a UUID, as in runs from SAM."""
    try:
        UUID(run_id)
    except ValueError:
        return str(uuid5(_NAMESPACE, run_id)).upper()
    return run_id


def _recorded_fields(run: Run) -> dict[str, Any]:
    """Return the fields other than messages that were read with a run from SAM."""
    return _object(run.settings.get("recorded") if run.origin is not None and run.origin.format == NAME else None)


def _object(value: Any) -> dict[str, Any]:
    """Return a copy of a recorded object; empty for any other value, since a trace may hold anything."""
    return dict(value) if isinstance(value, dict) else {}


def _settings(run: Run) -> dict[str, Any]:
    recorded = {name: run.settings[name] for name in _DEFAULTS if name in run.settings}
    return {"selectedModel": run.model, **_DEFAULTS, **recorded, "enableTools": bool(run.tools)}


def _title(prompt: str) -> str:
    line = " ".join(prompt.split())
    return line if len(line) <= _MAX_TITLE else line[: _MAX_TITLE - 1].rstrip() + "…"


def _time(at: datetime) -> str:
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class _Messages:
    """A run's messages in SAM's format. Each keeps the id, pin and other fields of the message it was read from."""

    def __init__(self, run: Run, recorded: Any) -> None:
        self._run = run
        self._recorded = [_object(item) for item in recorded] if isinstance(recorded, list) else []
        self._at = next((event.at for event in run.events if event.at is not None), None) or datetime.now(UTC)
        """The last known time, since SAM requires a time for each message."""
        self._count = 0

    def all(self) -> Iterator[dict[str, Any]]:
        """Yield the messages, in order."""
        for event in self._run.events:
            self._at = event.at or self._at
            yield from self._of(event)
        if (streamed := self._run.streamed_reply) is not None:  # its process died before the whole reply was logged
            yield from self._message(streamed[0])

    def _of(self, event: e.AnyEvent) -> Iterator[dict[str, Any]]:
        if isinstance(event, e.RunStarted):
            for message in (*event.history, event.prompt):
                if not message.is_placeholder:
                    yield from self._message(message)
        elif event.user_message is not None:
            yield from self._message(event.user_message)
        elif isinstance(event, e.ModelReplied | ReplyGiven):
            yield from self._message(event.message)
        elif isinstance(event, e.CallEnd) and not event.parent_call:
            if event.result.error_code != LOST:
                yield self._result(event.result, getattr(event, "seconds", None))
        elif isinstance(event, e.Warned) and event.topic != "filled":
            yield self._one("systemStatus", event.message)

    def _message(self, message: Message) -> Iterator[dict[str, Any]]:
        if message.role == "tool":
            for part in message.parts:
                if isinstance(part, ToolResult):
                    yield self._result(part, None)
        elif message.role == "assistant":
            yield from self._reply(message)
        else:
            yield self._one("user", message.text, **_pictures(message))

    def _reply(self, message: Message) -> Iterator[dict[str, Any]]:
        thought = "\n\n".join(part.text for part in message.parts if isinstance(part, Thinking))
        reasoning_field = {}
        if thought and self._next_type() == "assistant":
            reasoning_field = {"reasoningContent": thought}
        elif thought:
            yield self._one("thinking", thought, reasoningContent=thought)
        calls = {"toolCalls": [call_data(call) for call in message.calls]} if message.calls else {}
        if message.text or calls or not thought:
            yield self._one("assistant", message.text, **reasoning_field, **calls)

    def _result(self, result: ToolResult, seconds: float | None) -> dict[str, Any]:
        extra: dict[str, Any] = {} if seconds is None else {"toolDuration": seconds}
        kind = self._next_type()
        status = "error" if result.is_error else "success"
        fields = {"toolName": result.name, "toolStatus": status, **extra, **_pictures(result)}
        if kind != "subagentExecution":
            fields["toolCallId"] = result.call_id
        return self._one(kind if kind in _RESULTS else "toolExecution", result.text, **fields)

    def _next_type(self) -> str:
        return str(self._recorded[0].get("type")) if self._recorded else ""

    def _one(self, kind: str, content: str, **more: Any) -> dict[str, Any]:
        self._count += 1
        is_tool = kind in ("toolExecution", "thinking")
        own = {"id": str(uuid5(_NAMESPACE, f"{self._run.id}/{self._count}")).upper(), "type": kind, "content": content}
        state = {"isFromUser": kind == "user", "isToolMessage": is_tool, "isStreaming": False, "showReasoning": False}
        kept = self._recorded.pop(0) if self._recorded and self._recorded[0].get("type") in (kind, None) else {}
        return {**own, "timestamp": _time(self._at), **state, **more, **kept}


def _pictures(whole: Message | ToolResult) -> dict[str, Any]:
    """Return the ``contentParts`` field if there is an image; otherwise empty."""
    if not any(isinstance(part, Image) for part in whole.parts):
        return {}
    return {"contentParts": content_parts(part for part in whole.parts if isinstance(part, Text | Image))}
