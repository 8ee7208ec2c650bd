"""Wording for tool calls: arguments on one line, state and outcome."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec.structs import replace

from agentnb.core.log.events import Progress
from agentnb.core.questions import AskedQuestion
from agentnb.core.run.rounds import (
    AWAITS_APPROVAL,
    DENIED,
    INTERRUPTED,
    LIMIT_REACHED,
    LOST,
    MAX_TOOL_CALLS,
    MAX_TOOL_CALLS_PER_TURN,
    STATES_OF_ERRORS,
    TIME_LIMIT,
    CallRecord,
    CallState,
)
from agentnb.core.todos import TODO_TOOL
from agentnb.display.texts.labels import clean, first_line, pluralize

WHY_REJECTED = {
    "consecutive": "repeated call",
    "immediate_repeat": "repeated call, no new information",
    "frequency": "repeated call",
    "alternation": "the same two calls alternating",
    "batch": "the same calls as in earlier replies",
    MAX_TOOL_CALLS: "limit of tool calls reached",
    MAX_TOOL_CALLS_PER_TURN: "limit of tool calls in this turn reached",
}
"""Why calls were blocked, by the rule of the gate."""
WHY_NOT_ENDED = {
    "cancelled": "stopped by you",
    TIME_LIMIT: "cut off by the time limit",
    LIMIT_REACHED: "not run: limit reached",
    INTERRUPTED: "interrupted: the kernel died",
    LOST: "no result in the trace",
    AWAITS_APPROVAL: "waiting for approval",
}
"""Why calls did not run to completion, by error code."""
MARKS = {"running": "…", "waiting": "…", "ok": "✓", "failed": "✗", "stopped": "■", "interrupted": "■", "blocked": "⊘"}


MAX_OF_TODO_WORDS = 160


def arguments(record: CallRecord, most: int) -> str:
    """Return the arguments of a call on one line, as ``name=JSON``; for the todo tool, its operation: ``update 1
    completed``.
    """
    if record.call.name == TODO_TOOL and (operation := _todo_arguments(record.call.arguments)):
        return first_line(operation, most)
    return argument_words(record.call.arguments, most)


def arguments_by_name(arguments: Any) -> dict[str, Any]:
    """Return the arguments of a call by name, even if the model sent something other than an object."""
    return arguments if isinstance(arguments, dict) else {"arguments": arguments}


def argument_words(arguments: Any, most: int) -> str:
    """Return arguments of any kind on one line, as ``name=JSON``."""
    pairs = (f"{name}={msgspec.json.encode(value).decode()}" for name, value in arguments_by_name(arguments).items())
    return first_line(", ".join(pairs), most)


def todo_words(records: Iterable[CallRecord]) -> str:
    """Return the todo operations of these calls: ``update 1 completed; add 2 todos``; for other products, the tools' names."""
    operations = ((record.call.name, _todo_arguments(record.call.arguments)) for record in records)
    parts = [words if name == TODO_TOOL and words else name for name, words in operations]
    return first_line("; ".join(dict.fromkeys(parts)), MAX_OF_TODO_WORDS)


def _todo_arguments(arguments: Any) -> str:
    """Return the operation and its todos; empty if the arguments are invalid."""
    if not isinstance(arguments, dict):
        return ""
    operation = arguments.get("operation")
    updates = arguments.get("todoUpdates")
    if operation == "update" and isinstance(updates, list) and all(isinstance(update, dict) for update in updates):
        return "update " + ", ".join(f"{update.get('id')} {update.get('status', 'changed')}" for update in updates)
    items = arguments.get({"write": "todoList", "add": "newTodos"}.get(str(operation), ""))
    if isinstance(items, list):
        return f"{operation} {pluralize(len(items), 'todo')}"
    return "read" if operation == "read" else ""


def state(record: CallRecord) -> CallState:
    """Return the state of a call: running, waiting (for the person), ok, failed, blocked, stopped or interrupted."""
    if record.result is None:
        return "waiting" if record.waits else "running"
    return STATES_OF_ERRORS.get(record.result.error_code or "", "failed" if record.result.is_error else "ok")


def while_asking(record: CallRecord, questions: Iterable[AskedQuestion]) -> CallRecord:
    """Return the record of a call, marked as waiting while a question of its tool is open."""
    has_asked = record.result is None and any(asked.outcome == "open" for asked in questions)
    return replace(record, waits=True) if has_asked else record


def progress(one: Progress) -> str:
    """Return the progress of a call, such as ``3 of 10: reading``."""
    count = _count(one.done) if one.total is None else f"{_count(one.done)} of {_count(one.total)}"
    return f"{count}: {clean(one.text)}" if one.text else count


def _count(number: float) -> str:
    return f"{number:,.0f}" if float(number).is_integer() else f"{number:,.4g}"


def outcome(record: CallRecord) -> str:
    """Return a call's mark and state in words: ``✓ ok``, ``⊘ rejected: repeated call``."""
    kind = state(record)
    code = record.result.error_code if record.result is not None else None
    if code in WHY_NOT_ENDED:
        return f"{MARKS[kind]} {WHY_NOT_ENDED[code]}"
    if kind == "blocked":
        reason = WHY_REJECTED.get(record.rule, "" if code == DENIED else WHY_REJECTED["consecutive"])
        return f"{MARKS[kind]} rejected{f': {reason}' if reason else ''}"
    words = {"waiting": "waiting for you"}
    why = f": {clean(code).replace('_', ' ')}" if kind == "failed" and code not in (None, "tool_error") else ""
    return f"{MARKS[kind]} {words.get(kind, kind)}{why}"
