"""Threads of LangGraph: a thread, its state, or the history of its states, as its server and `get_state_history` give them.

The newest state has the whole conversation, and is the run; older states say when each message was added. States of subgraphs
that a task holds are nested runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentnb.core.messages import AnyPart, Text, Thinking, ToolCall
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.traces.formats import openai_chat
from agentnb.traces.formats.content import parts_of, time_of
from agentnb.traces.formats.endings import fail, recorded
from agentnb.traces.formats.run_ids import nested_id, stable_id
from agentnb.traces.run_writer import RunWriter
from agentnb.traces.trace_file import TraceFile

NAME = "langgraph"
TITLE = "thread of LangGraph"
LOOKED_AT = 20
"""Messages at the beginning by which a state is recognized."""
_ROLES = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "tool": "tool",
    "function": "tool",
    "system": "system",
    "developer": "system",
}
_RECORDED = ("thread_id", "status", "metadata", "next", "interrupts", "config", "checkpoint")


def sniff(file: TraceFile) -> str:
    """Return what the file lacks."""
    if file.kind not in ("json", "lines"):
        return "it is not JSON"
    first = file.first[0] if isinstance(file.first, list) and file.first else file.first
    messages = _messages(first)
    if messages is None:
        return "it has no values with messages"
    found = sum(map(_is_message, messages[:LOOKED_AT]))  # one of them may be damaged
    return "" if 2 * found >= len(messages[:LOOKED_AT]) else "its messages have no type of LangChain"


def _messages(state: Any) -> list[Any] | None:
    values = state.get("values") if isinstance(state, dict) else None
    messages = values.get("messages") if isinstance(values, dict) else None
    return messages if isinstance(messages, list) else None


def _is_message(value: Any) -> bool:
    return isinstance(value, dict) and (value.get("type") in (*_ROLES, "constructor") or value.get("role") in _ROLES)


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of each thread, followed by those of its subgraphs."""
    records = [one for _, one in file.records()] if file.kind == "lines" else file.document
    records = records if isinstance(records, list) else [records]
    is_history = all(_thread_of(one) == _thread_of(records[0]) for one in records)
    for index, states in enumerate([records] if is_history else [[one] for one in records]):
        position = "" if is_history else str(index)
        with file.guarded(position):
            yield from _thread(file, position, states)


def _thread_of(state: Any) -> str:
    """Return the id of the thread that a state belongs to; empty if it does not say."""
    if not isinstance(state, dict):
        return ""
    configured = (state.get("config") or {}).get("configurable") or {}
    return str(state.get("thread_id") or (state.get("checkpoint") or {}).get("thread_id") or configured.get("thread_id") or "")


def _thread(file: TraceFile, position: str, states: list[Any]) -> Iterator[Run]:
    whole = [one for one in states if isinstance(one, dict)]
    newest = max(whole, key=lambda one: len(_messages(one) or ()))
    times = _times(whole)
    thread = _thread_of(newest)
    yield from _runs(file, position, newest, times, thread, stable_id(file, position, thread), None)


def _times(states: list[dict[str, Any]]) -> dict[str, Any]:
    """Return when each message was first in a state, by its id. A single state does not say."""
    found: dict[str, Any] = {}
    for state in sorted(states, key=lambda one: str(one.get("created_at") or "")) if len(states) > 1 else ():
        for message in _messages(state) or ():
            found.setdefault(_id_of(message), time_of(state.get("created_at")))
    return found


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
    replies = [one for one in map(_fields, messages) if _role(one) == "assistant"]
    about = (one.get("response_metadata") or {} for one in replies)
    model = next((str(name) for one in about if (name := one.get("model_name") or one.get("model"))), "")
    writer = file.writer(
        NAME, position, run_id=run_id, parent_id=parent_id, model=model, settings=recorded(state, *_RECORDED, thread=thread)
    )
    file.take_each(messages, lambda message: _take(writer, message, times.get(_id_of(message))), position)
    yield _finish(writer, state)
    for number, task in enumerate(state.get("tasks") or (), 1):
        inner: Any = task.get("state") if isinstance(task, dict) else None
        if isinstance(inner, dict) and _messages(inner):
            yield from _runs(file, position, inner, {}, thread, nested_id(run_id, task.get("id"), number), run_id)


def _fields(message: Any) -> dict[str, Any]:
    """Return the fields of a message, however LangChain wrote it: as they are, as its ``data``, or as a constructor's."""
    if not isinstance(message, dict):
        return {}
    if message.get("type") == "constructor":
        kind = str((message.get("id") or [""])[-1]).removesuffix("Chunk").removesuffix("Message").lower()
        return {"type": kind, **message["kwargs"]}
    return {"type": message.get("type"), **message["data"]} if isinstance(message.get("data"), dict) else message


def _id_of(message: Any) -> str:
    return str(_fields(message).get("id") or "")


def _role(fields: dict[str, Any]) -> str | None:
    return _ROLES.get(str(fields.get("type") or fields.get("role") or "").removesuffix("MessageChunk").lower())


def _take(writer: RunWriter, message: dict[str, Any], at: Any) -> None:
    fields = _fields(message)
    role, parts, name = _role(fields), _content(fields.get("content")), str(fields.get("name") or "")
    if role == "system":
        writer.system("".join(part.text for part in parts if isinstance(part, Text)))
    elif role == "user":
        writer.say(parts, author=name, at=at)
    elif role == "assistant":
        about, thought = fields.get("response_metadata") or {}, (fields.get("additional_kwargs") or {}).get("reasoning_content")
        thoughts: list[AnyPart] = [Thinking(thought)] if isinstance(thought, str) and thought else []
        reason = str(about.get("finish_reason") or about.get("stop_reason") or "")
        writer.reply([*thoughts, *parts], _calls(fields), author=name, at=at, usage=_usage(fields), stop_reason=reason)
    elif role == "tool":
        failed = fields.get("status") == "error"
        code = "tool_error" if failed else None
        writer.result(str(fields.get("tool_call_id") or ""), parts, name=name, is_error=failed, error_code=code, at=at)
    else:
        raise ValueError(f"a message of the type {fields.get('type')!r}")


def _content(content: Any) -> list[AnyPart]:
    """Return the parts of a content; calls of the provider's own form stand in ``tool_calls`` too."""
    if isinstance(content, list):
        content = [one for one in content if not (isinstance(one, dict) and one.get("type") in ("tool_use", "tool_call"))]
    return parts_of(content)


def _calls(fields: dict[str, Any]) -> list[ToolCall]:
    made = [ToolCall(one["name"], one.get("args"), str(one.get("id") or "")) for one in fields.get("tool_calls") or ()]
    wrong = [
        ToolCall(
            str(one.get("name") or ""), one.get("args"), str(one.get("id") or ""), {"parse_error": str(one.get("error") or "")}
        )
        for one in fields.get("invalid_tool_calls") or ()
    ]
    return [*made, *wrong] or openai_chat.calls_of(fields.get("additional_kwargs") or {})


def _usage(fields: dict[str, Any]) -> Usage:
    usage = fields.get("usage_metadata")
    if not isinstance(usage, dict):
        return openai_chat.usage_of((fields.get("response_metadata") or {}).get("token_usage"))
    sent, made = usage.get("input_token_details") or {}, usage.get("output_token_details") or {}
    return Usage(
        usage.get("input_tokens"),
        usage.get("output_tokens"),
        sent.get("cache_read"),
        sent.get("cache_creation"),
        made.get("reasoning"),
    )


def _finish(writer: RunWriter, state: dict[str, Any]) -> Run:
    """Return the run: failed with the error of a task, broken off at an interrupt, else as its last message says."""
    at = time_of(state.get("created_at") if "thread_id" not in state else state.get("updated_at"))
    tasks = [one for one in state.get("tasks") or () if isinstance(one, dict)]
    error = next((one["error"] for one in tasks if one.get("error")), state.get("error"))
    if error or state.get("status") == "error":
        return fail(writer, "LangGraph", error or "The thread ended in an error", at=at)
    waits = state.get("status") in ("interrupted", "busy") or any(one.get("interrupts") for one in tasks)
    return writer.finish(None, at=at) if waits else writer.finish_without_end()
