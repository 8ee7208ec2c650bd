"""Codex CLI sessions, including those of its first versions: JSON Lines.

No line marks the end of a reply, so everything that the model outputs before a result or message is one reply. A fork begins
with lines copied from its source session, with either the time of the fork or their original times.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import msgspec

from agentnb.core.log.events import ForkedFrom
from agentnb.core.messages import AnyPart, Text, Thinking, ToolCall
from agentnb.core.usage import UNKNOWN, Usage
from agentnb.detect.run import Run
from agentnb.interchange.formats.message_content import parts_of, texts_of, time_at, value_at
from agentnb.interchange.formats.session_log import (
    Reply,
    SessionLog,
    count_of,
    drop_empty,
    first_records,
    run_id_of,
    text_at,
    text_of,
)
from agentnb.interchange.formats.steps import thinking
from agentnb.interchange.trace_file import TraceFile

NAME = "codex"
TITLE = "session of the Codex CLI"
RECORDS_END = "`task_complete`, `turn_aborted`, an error"
_KINDS = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_ITEMS = frozenset({"message", "reasoning", "function_call", "function_call_output", "local_shell_call"})
"""Types of items in the first versions, where each line is an item."""
_NOTICES = (
    *("<environment_context>", "<user_instructions>", "# AGENTS.md instructions", "<permissions", "<collaboration_mode>"),
    "<subagent_notification>",
)
_MAX_COPY_GAP = timedelta(seconds=1)
"""Maximum time between the copied lines of a fork."""
_CALLS = frozenset({"function_call", "custom_tool_call", "local_shell_call", "web_search_call", "tool_call", "mcp_call"})
_RESULTS = frozenset({"function_call_output", "custom_tool_call_output", "local_shell_call_output", "tool_result"})
ENCRYPTED = "(The summary is encrypted.)"
_EXIT = re.compile(r"(?:Exit code:|Process exited with code) (-?\d+)")
_TOOK = re.compile(r"Wall time: ([\d.]+) seconds")


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    records = first_records(file, 5)
    if any(text_at(record, "type") in _KINDS and isinstance(record.get("payload"), dict) for record in records):
        return ""
    first = records[0] if records else {}
    is_first_version = {"id", "timestamp", "instructions"} <= first.keys() and "type" not in first
    return "" if is_first_version else "it has no line of type session_meta, response_item or event_msg with a payload"


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of the session."""
    session = _Session()
    for number, record in file.numbered_records():
        with file.guard(f"line {number}"):
            session.take(record)
    with file.guard():
        yield session.write(file)


class _Session:
    """The session so far."""

    def __init__(self) -> None:
        self.log = SessionLog()
        self.events = SessionLog()
        """Messages from events, used only if there are no response items."""
        self._about: dict[str, Any] = {}
        self._context: dict[str, Any] = {}
        self._system = ""
        self._total: Any = None
        self._has_items = False
        self._ended = False
        self._copied_at: datetime | None = None
        """Time of the last line copied from another session, or None outside copied lines."""

    def take(self, record: dict[str, Any]) -> None:
        """Add a line."""
        kind, payload = record.get("type"), record.get("payload")
        at = time_at(record)
        if kind in _KINDS and not isinstance(payload, dict):
            raise TypeError("its payload must be an object")
        if self._copied_at is not None and (at is None or at > self._copied_at + _MAX_COPY_GAP):
            self._copied_at = self.log.open = None
        if kind == "session_meta" or (kind is None and "instructions" in record):
            self._meta(payload or record, at)
        elif kind == "turn_context" and payload:
            self._context = self._context or payload
            self._model = text_at(payload, "model") or self._model
        elif kind == "response_item" and payload:
            self._item(payload, at)
        elif kind == "event_msg" and payload:
            self._event(payload, at)
        elif kind == "compacted" and payload:
            self._add_summary(payload, at)
        elif kind in _ITEMS:
            self._item(record, at)
        if self._copied_at is not None and at is not None:
            self._copied_at = max(at, self._copied_at)
            for log in (self.log, self.events):
                if log.items and not log.ends_with_message:  # a final message is the fork's own prompt
                    log.copied = len(log.items)

    _model = ""

    def _meta(self, meta: dict[str, Any], at: datetime | None) -> None:
        is_copied = "session" in self._about  # metadata of the forked session
        if (is_copied or meta.get("forked_from_id")) and not self.log.items:
            self._copied_at = self._copied_at or at
        if is_copied:
            return
        git = meta.get("git") or {}
        self._about |= drop_empty(
            session=meta.get("id"),
            cwd=meta.get("cwd"),
            version=meta.get("cli_version"),
            originator=meta.get("originator"),
            source=meta.get("source"),
            provider=meta.get("model_provider"),
            git_branch=git.get("branch"),
            forked_from=meta.get("forked_from_id"),
        )
        base = meta.get("base_instructions")
        self._system = text_of(base.get("text") if isinstance(base, dict) else base) or text_at(meta, "instructions")

    def _add_summary(self, payload: dict[str, Any], at: Any) -> None:
        """Add a summary. If the service wrote it, it is encrypted, so that only later messages can be read."""
        summary = text_at(payload, "message")
        self._about.setdefault("compactions", []).append(drop_empty(summary=summary, after_rounds=len(self.log.replies)))
        self.log.compact(summary or ENCRYPTED, first=1, at=at)

    # Messages, calls and results

    def _item(self, item: dict[str, Any], at: Any) -> None:
        kind, item_id = item.get("type"), text_at(item, "id", "call_id")
        if kind == "message":
            self._has_items = True
            self._message(item, at)
        elif kind == "reasoning":
            parts = [*parts_of(item.get("summary")), *parts_of(item.get("content"))]
            thought = "\n".join(part.text for part in parts if isinstance(part, Text | Thinking))
            self._add(thinking(thought), (), at, item_id)
        elif kind in _CALLS:
            self._add((), [_call(item)], at, item_id)
        elif kind in _RESULTS:
            self.log.open = None
            self._result(item, at)

    def _message(self, item: dict[str, Any], at: Any) -> None:
        role, parts = item["role"], parts_of(item["content"])
        if role == "assistant":
            self._add(parts, (), at, text_at(item, "id"))
            return
        text = texts_of(parts).lstrip()
        author = "developer" if role in ("developer", "system") else "codex" if text.startswith(_NOTICES) else ""
        if text.startswith("<turn_aborted>"):
            self.log.interrupt(text, at)
        else:
            self.log.say(parts, author=author, at=at)

    def _add(self, parts: Any, calls: Any, at: Any, response_id: str = "") -> None:
        reply = self.log.open_reply(at, self._model)
        reply.response_id = reply.response_id or response_id
        reply.parts += parts
        reply.calls += calls

    def _result(self, item: dict[str, Any], at: Any) -> None:
        output = item.get("output", item.get("result"))
        content, fields = _output(output)
        self.log.result(text_at(item, "call_id"), content, name=text_at(item, "name"), at=at, **fields)

    # Events

    def _event(self, event: dict[str, Any], at: Any) -> None:
        kind = event.get("type")
        self._ended = kind in ("task_complete", "turn_complete") or (self._ended and kind == "token_count")
        if kind == "user_message":
            self.events.say(text_at(event, "message"), at=at)
        elif kind == "agent_message":
            self.events.reply(Reply([Text(text_at(event, "message"))], at=at, model=self._model))
        elif kind == "turn.completed":
            parts: list[AnyPart] = [Text(event["message"])] if event.get("message") else []
            self.events.reply(Reply(parts, at=at, model=self._model, usage=_usage(event.get("usage"))))
        elif kind == "token_count":
            self._token_count(event.get("info"))
        elif kind == "turn_aborted":
            self.log.interrupt(f"[Turn aborted: {text_of(event.get('reason')) or 'interrupted'}]", at)
        elif kind in ("error", "stream_error"):
            message = text_at(event, "message") or "Codex reported an error"
            (self.log.fail if kind == "error" else self.log.warn)(message, at)

    def _token_count(self, info: Any) -> None:
        """Set the usage of the last reply. Counts are repeated if only the rate limits have changed."""
        self.log.open = None
        if not isinstance(info, dict) or info.get("total_token_usage", info) == self._total:
            return
        self._total = info.get("total_token_usage", info)
        usage = _usage(info.get("last_token_usage", info))
        last = self.log.last_reply or self.events.last_reply
        if last is not None and last.usage == UNKNOWN:
            last.usage = usage

    def write(self, file: TraceFile) -> Run:
        """Return the run."""
        log = self.log
        if not self._has_items:
            log = SessionLog()
            log.items = [*self.events.items, *self.log.items]
            log.copied = self.events.copied
        recorded = self._about | drop_empty(
            effort=self._context.get("effort"),
            approval_policy=self._context.get("approval_policy"),
            sandbox_policy=self._context.get("sandbox_policy"),
        )
        model = log.model or self._model
        parent = text_of(value_at(self._about.get("source"), "subagent", "thread_spawn", "parent_thread_id"))
        settings: dict[str, Any] = {"settings": {"recorded": recorded}} | ({"agent": "subagent"} if parent else {})
        if source := run_id_of(text_at(recorded, "forked_from")):
            settings["forked_from"] = ForkedFrom(source, log.copied_replies)
        run_id = run_id_of(text_at(recorded, "session"))
        writer = file.writer(NAME, run_id=run_id, parent_id=run_id_of(parent) or None, model=model, **settings)
        if self._system:
            writer.system(self._system)
        return log.write(writer, model, ended=self._ended)


def _call(item: dict[str, Any]) -> ToolCall:
    kind = item["type"]
    name = item.get("name") or value_at(item, "function", "name")
    arguments = item.get("arguments")
    if kind == "custom_tool_call":  # its input is free text
        arguments = {"input": item.get("input")}
    elif kind in ("local_shell_call", "web_search_call"):
        name, arguments = name or kind.removesuffix("_call"), item.get("action")
    return ToolCall(str(name or ""), arguments, text_at(item, "call_id", "id"))


def _output(output: Any) -> tuple[list[AnyPart], dict[str, Any]]:
    """Return the content of a result, with its error code and duration if they are recorded."""
    exit_code, seconds, success = None, None, None
    if isinstance(output, str) and output.startswith('{"output":'):
        with suppress(msgspec.DecodeError):
            output = msgspec.json.decode(output)
    if isinstance(output, dict):
        details = output.get("metadata")
        details = details if isinstance(details, dict) else output
        exit_code, seconds = details.get("exit_code", output.get("exitCode")), details.get("duration_seconds")
        success = output.get("success")
        contents = [output[name] for name in ("output", "content", "stdout", "stderr") if output.get(name)]
        parts = [part for content in contents for part in parts_of(content)]
    else:
        parts = parts_of(output)
    head = parts[0].text[:300] if parts and isinstance(parts[0], Text) else ""
    code, took = _EXIT.search(head), _TOOK.search(head)
    exit_code = int(code[1]) if code else exit_code
    seconds = float(took[1]) if took else seconds
    failed = success is False or (isinstance(exit_code, int) and exit_code != 0)
    is_time = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return parts, {
        "error_code": "tool_error" if failed else None,
        "seconds": float(seconds or 0) if is_time else None,
    }


def _usage(usage: Any) -> Usage:
    """Return the usage, accepting the field names of any version; the input includes cache reads."""
    if not isinstance(usage, dict):
        return UNKNOWN
    return Usage(
        input=count_of(usage.get("input_tokens", usage.get("prompt"))),
        output=count_of(usage.get("output_tokens", usage.get("completion"))),
        cache_read=count_of(usage.get("cached_input_tokens")),
        reasoning=count_of(usage.get("reasoning_output_tokens")),
    )
