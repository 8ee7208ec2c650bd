"""Kimi CLI sessions: the ``wire.jsonl`` of a session, with times and usage.

Each step is a reply. Events of sub-agents are nested in those of the agent that started them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec.structs import replace

from agentnb.core.messages import ToolCall
from agentnb.detect.run import Run
from agentnb.errors import TraceError
from agentnb.interchange.conversion.nested_usage import with_nested_usage
from agentnb.interchange.formats import kimi_cli
from agentnb.interchange.formats.kimi_parts import add_piece
from agentnb.interchange.formats.message_content import parts_of, time_at, value_at
from agentnb.interchange.formats.run_ids import nested_id, stable_id
from agentnb.interchange.formats.session_log import (
    Reply,
    SessionLog,
    add_cache_to_input,
    count_of,
    drop_empty,
    first_records,
    text_at,
    text_of,
)
from agentnb.interchange.trace_file import TraceFile

CONTEXT, WIRE = "context.jsonl", "wire.jsonl"
"""Files in a session's folder: the conversation (read by `kimi_cli`), and the file of this format, with times and usage."""
NAME = "kimi_wire"
TITLE = "session of the Kimi CLI, as sent to its interface"
RECORDS_END = "`TurnEnd`, `StepInterrupted`"
_KINDS = frozenset(
    {"TurnBegin", "TurnEnd", "StepBegin", "StepInterrupted", "ContentPart", "ToolCall", "ToolCallPart", "ToolResult"}
    | {"StatusUpdate", "CompactionBegin", "CompactionEnd", "SubagentEvent", "SteerInput", "ApprovalRequest", "Notification"}
)
_INTERRUPTED = "[The step was interrupted]"
_COUNTS = ("input_other", "output", "input_cache_read", "input_cache_creation")


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    records = first_records(file, 5)
    return "" if any(map(_is_record, records)) else "its lines have no message of a type such as TurnBegin"


def _is_record(record: dict[str, Any]) -> bool:
    message = record.get("message")
    if not isinstance(message, dict) or "timestamp" not in record:
        return False
    return text_at(message, "type") in _KINDS and isinstance(message.get("payload"), dict)


def is_superseded(file: TraceFile) -> bool:
    """True if this is a ``context.jsonl`` whose session is recorded in more detail in the ``wire.jsonl`` next to it."""
    try:
        wire = file.beside(WIRE) if file.base_name == CONTEXT else None
        return wire is not None and not (kimi_cli.sniff(file) or sniff(wire))
    except (OSError, TraceError):
        return False


def _system_prompt(file: TraceFile) -> str:
    """Return the system prompt, recorded only in the ``context.jsonl`` next to this file; empty if there is none."""
    context = file.beside(CONTEXT) if file.base_name == WIRE else None
    if context is None or not is_superseded(context):
        return ""
    first = context.first
    return text_of(value_at(first, "content")) if value_at(first, "role") == "_system_prompt" else ""


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of the session, followed by those of its sub-agents."""
    yield from with_nested_usage(_runs(file))


def _runs(file: TraceFile) -> Iterator[Run]:
    session = _Agent()
    version = ""
    for number, record in file.numbered_records():
        with file.guard(f"line {number}"):
            if record.get("type") == "metadata":
                version = text_at(record, "protocol_version")
            else:
                session.take(record["message"], time_at(record))
    run_id = stable_id(file, len(session.log.items)) if session.nested else ""
    settings = {"recorded": drop_empty(protocol_version=version, compactions=session.compactions)}
    with file.guard():
        writer = file.writer(NAME, run_id=run_id, settings=settings)
        if system := _system_prompt(file):
            writer.system(system)
        yield session.log.write(writer, ended=session.ended)
    yield from _nested_runs(file, session, run_id)


def _nested_runs(file: TraceFile, above: _Agent, run_id: str) -> Iterator[Run]:
    for number, (name, agent) in enumerate(above.nested.items(), 1):
        inner_id = nested_id(run_id, name, number)
        with file.guard(name):
            if agent.log.items:
                fields = {"run_id": inner_id, "parent_id": run_id, "agent": agent.name or "subagent"}
                yield agent.log.write(file.writer(NAME, name, **fields), ended=agent.ended)
        yield from _nested_runs(file, agent, inner_id)


class _Agent:
    """The log of one of the session's agents so far."""

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.log = SessionLog()
        self.nested: dict[str, _Agent] = {}
        """Its sub-agents, by id or by the call that started them."""
        self.compactions = 0
        self.ended = False
        self._counted: dict[str, Reply] = {}
        """Replies with usage, by message id; repeated usage replaces earlier usage."""

    def take(self, message: dict[str, Any], at: Any) -> None:
        """Add a message; messages outside the conversation are ignored."""
        kind, payload = message["type"], message["payload"]
        if kind in ("TurnBegin", "SteerInput"):
            self.ended = False
            self.log.say(parts_of(payload.get("user_input")), at=at)
        elif kind == "StepBegin":
            self.log.open = None
        elif kind == "ContentPart":
            add_piece(self.log.open_reply(at).parts, payload)
        elif kind == "ToolCall":
            function = payload["function"]
            call = ToolCall(text_at(function, "name"), function.get("arguments") or "", text_at(payload, "id"))
            self.log.open_reply(at).calls.append(call)
        elif kind == "ToolCallPart":
            self._add_arguments(text_at(payload, "arguments_part"))
        elif kind == "ToolResult":
            self._result(payload, at)
        elif kind == "StatusUpdate":
            self._status(payload)
        elif kind == "StepInterrupted":
            self.log.interrupt(_INTERRUPTED, at)
        elif kind == "SubagentEvent":
            self._subagent(payload, at)
        else:
            self.ended |= kind == "TurnEnd"
            self.compactions += kind == "CompactionEnd"

    def _add_arguments(self, text: str) -> None:
        calls = self.log.open.calls if self.log.open is not None else []
        if calls and isinstance(calls[-1].arguments, str):
            calls[-1] = replace(calls[-1], arguments=calls[-1].arguments + text)

    def _result(self, payload: dict[str, Any], at: Any) -> None:
        self.log.open = None
        output = payload.get("return_value", payload.get("result"))
        output = output if isinstance(output, dict) else {"output": output}
        parts = parts_of(output.get("output")) or parts_of(text_at(output, "message") or None)
        code = "tool_error" if output.get("is_error") is True else None
        self.log.result(text_at(payload, "tool_call_id"), parts, error_code=code, at=at)

    def _status(self, payload: dict[str, Any]) -> None:
        """Set the usage of a step, and the length of the conversation after it."""
        usage, message_id = payload.get("token_usage"), text_at(payload, "message_id")
        last = self._counted.get(message_id, self.log.last_reply)
        if last is None:
            return
        if isinstance(usage, dict):
            last.usage = add_cache_to_input(usage, *_COUNTS)
            self._counted |= {message_id: last} if message_id else {}
        if (tokens := count_of(payload.get("context_tokens"))) is not None:
            last.metadata["context_tokens"] = tokens

    def _subagent(self, payload: dict[str, Any], at: Any) -> None:
        call_id = text_at(payload, "parent_tool_call_id", "task_tool_call_id")
        name = text_at(payload, "agent_id") or call_id or "subagent"
        agent = self.nested.setdefault(name, _Agent(text_at(payload, "subagent_type")))
        event = payload["event"]
        if not agent.log.items and event.get("type") != "TurnBegin":  # its prompt is in the call's arguments
            agent.log.say(self._prompt_of(call_id), at=at)
        agent.take(event, at)

    def _prompt_of(self, call_id: str) -> str:
        return text_of(self.log.arguments_of(call_id))
