"""Conversations exported by SAM: single, bulk, or in the simple form, which has no tool calls.

SAM has no rounds, so each assistant message starts one that includes the results after it. Other data of a conversation and its
messages, such as ids and pins, is kept in ``settings["recorded"]`` for a later export.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from agentnb.core.log import events as e
from agentnb.core.messages import Thinking, ToolCall
from agentnb.detect.run import Run
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats.message_content import first_at, parts_of, str_at, time_at, value_at
from agentnb.interchange.formats.steps import thinking
from agentnb.interchange.trace_file import TraceFile

NAME = "sam"
TITLE = "conversation exported by SAM"
RECORDS_END = "nothing"
FULL, SIMPLE = "full", "simple"
ENDED = frozenset({"success", "error"})
"""Statuses of tools that have returned a result."""
_HELD = frozenset(
    {"content", "contentParts", "timestamp", "isFromUser", "isToolMessage", "toolName", "toolStatus", "toolDuration"}
    | {"toolCalls", "toolCallId", "reasoningContent"}
)
"""Message fields that a run holds itself; the others are kept in its settings."""
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    if file.kind != "json":
        return "it is not a single JSON document"
    document = file.first
    if not isinstance(document, dict):
        return "it has no conversation"
    if isinstance(document.get("conversations"), list) or isinstance(document.get("conversation"), dict):
        return "" if "formatVersion" in document else "it has no formatVersion"
    messages = document.get("messages")
    if isinstance(messages, list) and all(isinstance(message, dict) and "isFromUser" in message for message in messages):
        return ""
    return "it has no conversation, and no messages with isFromUser"


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each conversation."""
    document = file.document
    if isinstance(document.get("conversations"), list):
        conversations = [(str(index), conversation) for index, conversation in enumerate(document["conversations"])]
        if (count := document.get("conversationCount")) and not conversations:
            file.problem(f"it declares {count} conversations, but has none")
        yield from file.each(conversations, lambda position, one: run_of(one, file.name, position))
    else:
        yield from file.each([("", document)], lambda position, one: run_of(one, file.name, position))


def run_of(export: dict[str, Any], source: str = "", position: str = "") -> Run:
    """Return the run of an exported conversation, in either full or simple form."""
    conversation = export.get("conversation", export)
    messages = [message for message in conversation["messages"] if isinstance(message, dict)]
    recorded = {
        "form": FULL if "conversation" in export else SIMPLE,
        "export": {name: value for name, value in export.items() if name != "conversation" and export is not conversation},
        "conversation": {name: value for name, value in conversation.items() if name != "messages"},
        "messages": [{name: value for name, value in message.items() if name not in _HELD} for message in messages],
    }
    run_id = conversation.get("id")
    writer = RunWriter(
        e.Origin(NAME, source, position),
        run_id=run_id if isinstance(run_id, str) and _ID.fullmatch(run_id) else "",
        model=str(value_at(conversation, "settings", "selectedModel") or ""),
        settings={"recorded": recorded},
    )
    _MessageReader(writer).take(messages)
    return writer.finish_without_end()


class _MessageReader:
    """Adds the messages of a conversation to a writer. Thinking comes before the reply it belongs to."""

    def __init__(self, writer: RunWriter) -> None:
        self._writer = writer
        self._thinking: list[Thinking] = []

    def take(self, messages: list[dict[str, Any]]) -> None:
        """Add the messages in order."""
        for message in messages:
            kind = message.get("type") or ("user" if message.get("isFromUser") else "assistant")
            if kind == "thinking":
                self._thinking.append(Thinking(str_at(message, "reasoningContent", "content")))
            elif kind == "assistant":
                self._reply(message)
            else:
                self._take_other(kind, message)
        if self._thinking:
            self._writer.reply(self._thinking)

    def _reply(self, message: dict[str, Any]) -> None:
        thoughts = [*self._thinking, *thinking(message.get("reasoningContent"))]
        self._thinking = []
        self._writer.reply([*thoughts, *_parts(message)], _calls(message), at=time_at(message))

    def _take_other(self, kind: str, message: dict[str, Any]) -> None:
        at = time_at(message)
        if kind == "user":
            self._writer.say(_parts(message), at=at)
        elif kind in ("toolExecution", "subagentExecution"):
            self._result(message)
        else:
            self._writer.warn(str_at(message, "content"), at)

    def _result(self, message: dict[str, Any]) -> None:
        status = message.get("toolStatus", "success")
        if status not in ENDED:  # still running, or waiting for the person, at the time of export
            return
        self._writer.result(
            str_at(message, "toolCallId"),
            _parts(message),
            name=str_at(message, "toolName"),
            error_code="tool_error" if status == "error" else None,
            at=time_at(message),
            seconds=message.get("toolDuration"),
        )


def _parts(message: dict[str, Any]) -> list[Any]:
    return parts_of(first_at(message, "contentParts", "content"))


def _calls(message: dict[str, Any]) -> list[ToolCall]:
    calls = message.get("toolCalls") or ()
    return [ToolCall(call["function"]["name"], call["function"].get("arguments"), str_at(call, "id")) for call in calls]
