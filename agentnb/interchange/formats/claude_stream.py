"""The output of ``claude -p --output-format stream-json`` and of the Agent SDK.

With ``--output-format json``, the output is just the result or, with ``--verbose``, a list that ends with it. The prompt is
missing unless user messages are replayed. A sub-agent's messages name the call that started it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agentnb.core.messages import Text
from agentnb.core.request import ToolSpec
from agentnb.detect.run import Run
from agentnb.interchange.conversion.nested_usage import with_nested_usage
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats.claude_lines import ClaudeLog, usage_of
from agentnb.interchange.formats.endings import fail, finish_limited
from agentnb.interchange.formats.message_content import as_list, json_text, value_at
from agentnb.interchange.formats.run_ids import nested_id
from agentnb.interchange.formats.session_log import Reply, drop_empty, first_records, run_id_of, seconds_of, text_at, text_of
from agentnb.interchange.formats.total_usage import total_of
from agentnb.interchange.trace_file import TraceFile

NAME = "claude_stream"
TITLE = "output of Claude Code in print mode"
RECORDS_END = "the `result`"
_MESSAGES = frozenset({"user", "assistant"})
_LIMITS = {"error_max_turns": "max_rounds", "error_max_budget_usd": "budget"}
_RECORDED = ("cwd", "permissionMode", "claude_code_version", "apiKeySource", "output_style")
_OF_RESULT = ("total_cost_usd", "num_turns", "duration_api_ms", "permission_denials", "modelUsage", "structured_output")


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    records = first_records(file)
    if file.kind == "json" and isinstance(file.first, list):
        records = [item for item in file.first if isinstance(item, dict)]
    return "" if any(map(_is_line, records)) else "its lines have no type with a session_id"


def _is_line(record: dict[str, Any]) -> bool:
    if "session_id" not in record or "sessionId" in record:
        return False
    kind = record.get("type")
    if kind == "system":
        return "subtype" in record
    if kind == "result":
        return "subtype" in record and "is_error" in record
    return kind in _MESSAGES and isinstance(record.get("message"), dict)


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of each session, followed by those of its sub-agents."""
    sessions: dict[str, _Session] = {}
    for number, record in _records(file):
        with file.guard(f"line {number}"):
            sessions.setdefault(text_at(record, "session_id"), _Session(number)).take(record)
    nonempty = {session: lines for session, lines in sessions.items() if lines.holds_something}
    for session, lines in nonempty.items():
        yield from with_nested_usage(lines.write(file, session, f"line {lines.line}" if len(nonempty) > 1 else ""))
    if not nonempty:
        file.note("It contains no messages")


def _records(file: TraceFile) -> Iterable[tuple[int, Any]]:
    if file.kind == "lines":
        return file.records()
    document = file.document
    return enumerate(as_list(document), 1)


class _Session:
    """The lines of a session so far."""

    def __init__(self, line: int) -> None:
        self.line = line
        self._log = ClaudeLog()
        self._nested: dict[str, ClaudeLog] = {}
        """Logs of sub-agents, by the call that started each."""
        self._opening: dict[str, Any] = {}
        self._result: dict[str, Any] = {}
        self._is_compacted = False
        """True if the next user message from the product is a summary."""

    @property
    def holds_something(self) -> bool:
        """True if there is any message or result."""
        return bool(self._log.items or self._result)

    def take(self, record: dict[str, Any]) -> None:
        """Add a line. Partial messages and notices about hooks and tasks are ignored."""
        kind, subtype = record["type"], record.get("subtype")
        if kind == "result":
            self._result = record
        elif kind == "system" and subtype == "init":
            self._opening = self._opening or record
        elif kind == "system" and subtype == "compact_boundary":
            metadata = record.get("compact_metadata") or {}
            self._log.take({**record, "compactMetadata": {**metadata, "preTokens": metadata.get("pre_tokens")}})
            self._is_compacted = True
        elif kind in _MESSAGES:
            started_by = text_at(record, "parent_tool_use_id")
            log = self._nested.setdefault(started_by, ClaudeLog()) if started_by else self._log
            is_product = record.get("isSynthetic") is True
            is_summary = kind == "user" and is_product and self._is_compacted and not started_by
            self._is_compacted &= not is_summary
            flags = {"toolUseResult": record.get("tool_use_result"), "isMeta": is_product, "isCompactSummary": is_summary}
            log.take({**record, **flags})

    def write(self, file: TraceFile, session: str, position: str) -> Iterator[Run]:
        """Yield the run, followed by those of the sub-agents."""
        run_id = run_id_of(session)
        if not self._log.replies and text_at(self._result, "result"):  # only a result
            self._log.reply(self._only_reply())
        model = self._log.model or text_at(self._opening, "model")
        recorded = drop_empty(**{name: self._opening.get(name) for name in _RECORDED}, session=session)
        recorded |= drop_empty(**{name: self._result.get(name) for name in _OF_RESULT}, **self._log.recorded)
        tool_names = self._opening.get("tools")
        tools = tuple(
            ToolSpec(tool_name)
            for tool_name in (tool_names if isinstance(tool_names, list) else ())
            if isinstance(tool_name, str)
        )
        with file.guard(position):
            writer = file.writer(NAME, position, run_id=run_id, model=model, tools=tools, settings={"recorded": recorded})
            writer.total(total_of(cost=self._result.get("total_cost_usd")), has_nested_cost=bool(self._nested))
            yield self._log.write(writer, model, end=lambda: self._end(writer))
        for number, (call_id, log) in enumerate(self._nested.items(), 1):
            inner: dict[str, Any] = {
                "run_id": nested_id(run_id, call_id, number),
                "parent_id": run_id or None,
                "agent": self._kind(call_id),
            }
            with file.guard(call_id):
                yield log.write(file.writer(NAME, call_id, model=log.model or model, **inner), log.model or model)

    def _only_reply(self) -> Reply:
        """Return the reply in the result: either the only reply or the last of several turns."""
        result = self._result
        usage = usage_of(result.get("usage"), result.get("total_cost_usd"))
        return Reply([Text(result["result"])], usage=usage, stop_reason=text_at(result, "stop_reason"))

    def _kind(self, call_id: str) -> str:
        """Return the kind of a sub-agent, taken from the call that started it."""
        return text_of(value_at(self._log.arguments_of(call_id), "subagent_type")) or "subagent"

    def _end(self, writer: RunWriter) -> Run | None:
        """End the run as recorded in the result; return None if there is no result."""
        result = self._result
        subtype, seconds = text_at(result, "subtype"), seconds_of(result.get("duration_ms"))
        if subtype in _LIMITS:
            return finish_limited(writer, _LIMITS[subtype], seconds=seconds)
        if result.get("is_error") is True or subtype.startswith("error"):
            errors = result.get("errors")
            message = text_at(result, "result") or (json_text(errors) if errors else subtype)
            return fail(writer, subtype if subtype.startswith("error") else "ApiError", message, seconds=seconds)
        return writer.finish("completed", "natural", seconds=seconds) if result else None
