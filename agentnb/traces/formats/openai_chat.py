"""Chat messages of OpenAI's API: a list of them, or an object or JSON Lines with ``messages``, as requests have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agentnb.core.messages import ToolCall
from agentnb.core.request import ToolSpec
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.traces.formats.content import parts_of, time_of
from agentnb.traces.run_writer import RunWriter
from agentnb.traces.trace_file import TraceFile

NAME = "openai_chat"
TITLE = "OpenAI chat messages"
ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


def sniff(file: TraceFile) -> str:
    """Return what the file lacks."""
    if file.kind not in ("json", "lines"):
        return "it is not JSON"
    messages = _messages(file.first)
    if messages is None:
        return "it has no list of messages"
    return "" if all(is_message(one) for one in messages[:20]) else "its messages have no role and content of the chat API"


def is_message(value: Any) -> bool:
    """Return whether this is a message of the chat API."""
    return (
        isinstance(value, dict)
        and value.get("role") in ROLES
        and bool(value.keys() & {"content", "tool_calls", "function_call"})
    )


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each conversation."""
    if file.kind == "lines":
        yield from file.each(((f"line {number}", record) for number, record in file.records()), _reader(file))
    else:
        yield from file.each([("", file.document)], _reader(file))


def _reader(file: TraceFile) -> Any:
    def read_one(position: str, record: Any) -> Run:
        about = record if isinstance(record, dict) else {}
        writer = file.writer(NAME, position, model=str(about.get("model") or ""), tools=tools_of(about.get("tools")))
        messages = _messages(record)
        if messages is None:
            raise ValueError("it has no list of messages")
        take(writer, messages)
        return writer.finish_without_end()

    return read_one


def _messages(record: Any) -> list[Any] | None:
    found = record.get("messages") if isinstance(record, dict) else record
    return found if isinstance(found, list) and found else None


def take(writer: RunWriter, messages: Iterable[dict[str, Any]]) -> None:
    """Hand the messages of a conversation to the writer."""
    for message in messages:
        take_message(writer, message)


def take_message(writer: RunWriter, message: dict[str, Any]) -> None:
    """Hand a message to the writer: its calls, its result, or what it says."""
    role, at = message["role"], time_of(message.get("timestamp") or message.get("created_at"))
    author = str(message.get("name") or "")
    if role in ("system", "developer"):
        writer.system("".join(part.text for part in parts_of(message.get("content")) if hasattr(part, "text")))
    elif role == "user":
        writer.say(parts_of(message.get("content")), author=author, at=at)
    elif role == "assistant":
        parts = [*parts_of(_thought(message)), *parts_of(message.get("content"))]
        writer.reply(parts, calls_of(message), author=author, at=at, usage=usage_of(message.get("usage")))
    else:
        call_id = str(message.get("tool_call_id") or "")
        writer.result(call_id, parts_of(message.get("content")), name=author, at=at)


def _thought(message: dict[str, Any]) -> Any:
    thought = message.get("reasoning_content") or message.get("reasoning")
    return [{"type": "thinking", "thinking": thought}] if isinstance(thought, str) and thought else None


def calls_of(message: dict[str, Any]) -> list[ToolCall]:
    """Return the calls of an assistant's message, also of the older kind that had one ``function_call`` and no id."""
    old = message.get("function_call")
    calls = [
        ToolCall(one["function"]["name"], one["function"].get("arguments"), str(one.get("id") or ""))
        for one in message.get("tool_calls") or ()
        if "function" in one
    ]
    return calls + ([ToolCall(old["name"], old.get("arguments"))] if isinstance(old, dict) else [])


def tools_of(tools: Any) -> tuple[ToolSpec, ...]:
    """Return the tools of a request."""
    functions = [one.get("function", one) for one in tools or () if isinstance(one, dict)]
    return tuple(
        ToolSpec(one["name"], str(one.get("description") or ""), one.get("parameters") or {})
        for one in functions
        if isinstance(one, dict) and "name" in one
    )


def usage_of(usage: Any) -> Usage:
    """Return the usage that the API reported; unknown if it is missing."""
    if not isinstance(usage, dict):
        return Usage()
    sent, made = usage.get("prompt_tokens_details") or {}, usage.get("completion_tokens_details") or {}
    return Usage(
        input=usage.get("prompt_tokens"),
        output=usage.get("completion_tokens"),
        cache_read=sent.get("cached_tokens"),
        reasoning=made.get("reasoning_tokens"),
    )
