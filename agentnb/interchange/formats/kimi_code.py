"""Kimi Code sessions: the ``wire.jsonl`` of each agent.

User input is recorded twice: as a prompt and as a context message. Each step of the loop is a reply.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentnb.core.messages import AnyPart, ToolCall
from agentnb.detect.run import Run
from agentnb.interchange.formats import openai_chat
from agentnb.interchange.formats.kimi_parts import add_piece
from agentnb.interchange.formats.message_content import parts_of, texts_of, time_at, value_at
from agentnb.interchange.formats.session_log import (
    Reply,
    SessionLog,
    add_cache_to_input,
    drop_empty,
    first_records,
    text_at,
    text_of,
)
from agentnb.interchange.trace_file import TraceFile

NAME = "kimi_code"
TITLE = "session of Kimi Code"
RECORDS_END = "the last `finishReason`"
_CONVERSATION = frozenset({"turn.prompt", "turn.steer", "context.append_message", "context.append_loop_event"})
_SNIFFED_RECORDS = 30
_COUNTS = ("inputOther", "output", "inputCacheRead", "inputCacheCreation")


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    records = first_records(file, _SNIFFED_RECORDS)
    return "" if any(map(_is_record, records)) else "its lines have no type such as turn.prompt or context.append_message"


def _is_record(record: dict[str, Any]) -> bool:
    if text_at(record, "type") not in _CONVERSATION:
        return False
    return any(isinstance(record.get(name), list | dict) for name in ("input", "message", "event"))


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of the agent."""
    session = _Session()
    for number, record in file.numbered_records():
        with file.guard(f"line {number}"):
            session.take(record)
    with file.guard():
        fields: dict[str, Any] = {"settings": {"recorded": session.recorded}}
        fields |= {"agent": session.agent} if session.agent not in ("", "main") else {}
        writer = file.writer(NAME, model=session.model, **fields)
        if session.system:
            writer.system(session.system)
        yield session.log.write(writer)


class _Session:
    """The session of the agent so far."""

    def __init__(self) -> None:
        self.log = SessionLog()
        self.model = self.system = self.agent = ""
        self.recorded: dict[str, Any] = {}
        self._prompts: list[str] = []
        """Texts that were typed but whose context message has not arrived yet."""

    def take(self, record: dict[str, Any]) -> None:
        """Add a record; records outside the conversation are ignored."""
        kind, at = record["type"], time_at(record, "time")
        self.agent = self.agent or text_at(record, "agentId")
        if kind in ("turn.prompt", "turn.steer"):
            parts = parts_of(record["input"])
            self._prompts.append(texts_of(parts).strip())
            self._say(parts, record.get("origin"), at)
        elif kind == "context.append_message":
            self._message(record["message"], at)
        elif kind == "context.append_loop_event":
            self._event(record["event"], at)
        elif kind == "context.apply_compaction":
            self.log.compact(text_at(record, "summary"), at=at)
            counts = drop_empty(tokens_before=record.get("tokensBefore"), tokens_after=record.get("tokensAfter"))
            self.recorded.setdefault("compactions", []).append(counts)
        elif kind == "config.update":
            self.system = self.system or text_at(record, "systemPrompt")
            self.model = self.model or text_at(record, "modelAlias")
            self.recorded |= drop_empty(profile=record.get("profileName"), cwd=record.get("cwd"))
        elif kind == "usage.record":
            self.model = text_at(record, "model") or self.model
        elif kind == "metadata":
            self.recorded |= drop_empty(protocol_version=record.get("protocol_version"))

    def _say(self, parts: list[AnyPart], origin: Any, at: Any) -> None:
        kind = text_of(value_at(origin, "kind"))
        self.log.say(parts, author="" if kind in ("", "user") else kind, at=at)

    def _message(self, message: dict[str, Any], at: Any) -> None:
        role, parts = message["role"], parts_of(message.get("content"))
        if role == "assistant":
            self.log.reply(Reply(parts, openai_chat.calls_of({"tool_calls": message.get("toolCalls")}), at=at))
        elif role == "tool":
            self.log.result(text_at(message, "toolCallId"), parts, at=at)
        elif role == "user" and (text := texts_of(parts).strip()) in self._prompts:
            self._prompts.remove(text)
        else:
            self._say(parts, message.get("origin") or ({"kind": role} if role != "user" else None), at)

    # Steps of the loop

    def _event(self, event: dict[str, Any], at: Any) -> None:
        kind = event["type"]
        if kind == "step.begin":
            self.log.open = None
        elif kind == "content.part":
            add_piece(self.log.open_reply(at).parts, event["part"])
        elif kind == "tool.call":
            call = ToolCall(text_at(event, "name"), event.get("args"), text_at(event, "toolCallId"))
            self.log.open_reply(at).calls.append(call)
        elif kind == "tool.result":
            self._result(event, at)
        elif kind == "step.end":
            last = self.log.open or self.log.last_reply
            self.log.open = None
            if last is not None:
                if isinstance(usage := event.get("usage"), dict):
                    last.usage = add_cache_to_input(usage, *_COUNTS)
                last.stop_reason = text_at(event, "finishReason") or last.stop_reason

    def _result(self, event: dict[str, Any], at: Any) -> None:
        result = event.get("result")
        result = result if isinstance(result, dict) else {"output": result}
        code = "tool_error" if result.get("isError") is True else None
        self.log.result(text_at(event, "toolCallId"), parts_of(result.get("output")), error_code=code, at=at)
