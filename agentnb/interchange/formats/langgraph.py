"""LangGraph threads, as a thread, its state, or its state history.

The newest state has the complete conversation, and is the run; older states supply the times of messages. Subgraph states
within a task are nested runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from agentnb.detect.run import Run
from agentnb.interchange.conversion.nested_usage import with_nested_usage
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats.endings import fail, recorded_settings
from agentnb.interchange.formats.langchain_messages import fields_of, is_message, message_steps
from agentnb.interchange.formats.message_content import as_list, first_at, str_at, time_at, time_of, value_at
from agentnb.interchange.formats.run_ids import nested_id, stable_id
from agentnb.interchange.formats.steps import write_steps
from agentnb.interchange.trace_file import TraceFile

NAME = "langgraph"
TITLE = "thread of LangGraph"
RECORDS_END = "an empty `next`, the `status`, an error, the last finish reason"
SNIFFED_MESSAGES = 20
"""Number of initial messages used to recognize a state."""
_RECORDED = ("thread_id", "status", "metadata", "next", "interrupts", "config", "checkpoint")


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    messages = _messages(file.first_record)
    if messages is None:
        return "it has no values with messages"
    matches = sum(map(is_message, messages[:SNIFFED_MESSAGES]))  # single messages may be damaged
    return "" if 2 * matches >= len(messages[:SNIFFED_MESSAGES]) else "its messages have no LangChain type"


def _messages(state: Any) -> list[Any] | None:
    messages = value_at(state, "values", "messages")
    return messages if isinstance(messages, list) else None


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of each thread, followed by the runs of its subgraphs."""
    records = [record for _, record in file.records()] if file.kind == "lines" else file.document
    records = as_list(records)
    is_history = all(_thread_of(record) == _thread_of(records[0]) for record in records)
    for index, states in enumerate([records] if is_history else [[record] for record in records]):
        position = "" if is_history else str(index)
        with file.guard(position):
            yield from _thread(file, position, states)


def _thread_of(state: Any) -> str:
    """Return the thread id of a state; empty if missing."""
    if not isinstance(state, dict):
        return ""
    configured = (state.get("config") or {}).get("configurable") or {}
    return str(state.get("thread_id") or (state.get("checkpoint") or {}).get("thread_id") or configured.get("thread_id") or "")


def _thread(file: TraceFile, position: str, states: list[Any]) -> Iterator[Run]:
    valid_states = [state for state in states if isinstance(state, dict)]
    newest = max(valid_states, key=lambda one: len(_messages(one) or ()))
    times = _times(valid_states)
    thread = _thread_of(newest)
    yield from with_nested_usage(_runs(file, position, newest, times, thread, stable_id(file, position, thread), None))


def _times(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Return, for each message id, the time of the first state that contains the message; empty for a single state."""
    times: dict[str, Any] = {}
    for state in sorted(states, key=lambda one: str_at(one, "created_at")) if len(states) > 1 else ():
        for message in _messages(state) or ():
            times.setdefault(_id_of(message), time_at(state, "created_at"))
    return times


def _runs(
    file: TraceFile,
    position: str,
    state: dict[str, Any],
    times: dict[str, Any],
    thread: str,
    run_id: str,
    parent_id: str | None,
) -> Iterator[Run]:
    messages = _messages(state) or []
    writer = file.writer(
        NAME,
        position,
        run_id=run_id,
        parent_id=parent_id,
        model=_model(messages),
        settings=recorded_settings(state, *_RECORDED, thread=thread),
    )
    file.take_each(messages, lambda message: _take(writer, message, times.get(_id_of(message))), position)
    yield _finish(writer, state)
    for number, task in enumerate(state.get("tasks") or (), 1):
        inner = value_at(task, "state")
        if _messages(inner):
            yield from _runs(file, position, inner, {}, thread, nested_id(run_id, task.get("id"), number), run_id)


def _id_of(message: Any) -> str:
    return str((fields_of(message) or {}).get("id") or "")


def _take(writer: RunWriter, message: Any, at: datetime | None) -> None:
    if not is_message(message):
        raise ValueError("it is not a LangChain message")
    write_steps(writer, message_steps(message, at=at))


def _model(messages: list[Any]) -> str:
    """Return the model of the first reply; empty if it is unknown."""
    all_metadata = ((fields_of(message) or {}).get("response_metadata") or {} for message in messages)
    return next((str(name) for metadata in all_metadata if (name := first_at(metadata, "model_name", "model"))), "")


def _finish(writer: RunWriter, state: dict[str, Any]) -> Run:
    """Return the run: failed with a task's error, interrupted, or ended with its last message."""
    at = time_of(state.get("created_at") if "thread_id" not in state else state.get("updated_at"))
    tasks = [task for task in state.get("tasks") or () if isinstance(task, dict)]
    error = next((task["error"] for task in tasks if task.get("error")), state.get("error"))
    if error or state.get("status") == "error":
        return fail(writer, "LangGraph", error or "The thread ended in an error", at=at)
    waits = state.get("status") in ("interrupted", "busy") or any(task.get("interrupts") for task in tasks)
    is_over = state.get("next") in ([], ()) or state.get("status") == "idle"  # no node left to run
    return writer.finish(None, at=at) if waits else writer.finish_without_end(is_over=is_over, at=at)
