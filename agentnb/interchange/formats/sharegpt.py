"""Data sets in the ShareGPT format, with ``conversations`` of ``{from, value}``.

A call is a ``function_call`` message with a JSON value, or JSON within ``<tool_call>`` tags in the text of a reply.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from agentnb.core.messages import AnyPart, Text, Thinking, ToolCall
from agentnb.detect.run import Run
from agentnb.interchange.formats.endings import recorded_settings
from agentnb.interchange.formats.message_content import as_list, parts_of, str_at, value_at
from agentnb.interchange.formats.openai_chat import tools_of
from agentnb.interchange.formats.steps import Reply, Result, Step, SystemPrompt, UserMessage, write_steps
from agentnb.interchange.trace_file import TraceFile, decode_json

NAME = "sharegpt"
TITLE = "conversation in the form of ShareGPT"
RECORDS_END = "nothing"
_USERS = frozenset({"human", "user"})
_MODELS = frozenset({"gpt", "assistant", "chatgpt", "model", "bot"})
_CALLS = frozenset({"function_call", "function-call", "tool_call"})
_RESULTS = frozenset({"observation", "tool", "tool_response", "function_response", "function-response", "ipython"})
_SPEAKERS = _USERS | _MODELS | _CALLS | _RESULTS | {"system"}
_CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
_THOUGHT = re.compile(r"\A\s*<think>(.*?)</think>", re.DOTALL)
_RESPONSE = re.compile(r"<tool_response>\s*(.*?)\s*(?:</tool_response>|\Z)", re.DOTALL)


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    return "" if _is_record(file.first_record) else "it has no conversations of messages with from and value"


def _is_record(record: Any) -> bool:
    messages = value_at(record, "conversations")
    if not isinstance(messages, list) or not messages:
        return False
    return all(
        isinstance(message, dict) and message.get("from") in _SPEAKERS and "value" in message for message in messages[:5]
    )


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each conversation."""
    yield from file.each(file.positioned_records(), lambda position, record: _run(file, position, record))


def _run(file: TraceFile, position: str, record: dict[str, Any]) -> Run:
    tools = record.get("tools")
    tools = decode_json(tools.encode()) if isinstance(tools, str) else tools
    extra = {key: value for key, value in record.items() if key not in ("conversations", "tools", "system")}
    specs = tools_of(tools) if isinstance(tools, list) else ()
    writer = file.writer(
        NAME,
        position,
        task=str_at(record, "id"),
        benchmark=None,
        model=str_at(record, "model"),
        tools=specs,
        settings=recorded_settings(extra, *extra),
    )
    if isinstance(system := record.get("system"), str) and system:
        writer.system(system)
    file.take_each(record["conversations"], lambda one: write_steps(writer, _steps(one)), position)
    return writer.finish_without_end()


def _steps(message: dict[str, Any]) -> list[Step]:
    """Return the steps of a message. Raises KeyError if the speaker is unknown."""
    speaker, value = message["from"], message["value"]
    text = value if isinstance(value, str) else ""
    if speaker == "system":
        return [SystemPrompt(text)]
    if speaker in _USERS:
        return [UserMessage(parts_of(value))]
    if speaker in _RESULTS:
        responses = _RESPONSE.findall(text) or [text]
        return [_result(response) for response in responses]
    if speaker in _CALLS:
        return [Reply([], _calls(text))]
    if speaker not in _MODELS:
        raise KeyError(f"speaker {speaker!r}")
    return [_reply(text)]


def _reply(text: str) -> Reply:
    """Return a reply, extracting thinking and calls from the tags in its text."""
    thought = _THOUGHT.match(text)
    thinking: list[AnyPart] = [Thinking(thought[1].strip())] if thought and thought[1].strip() else []
    text = text[thought.end() :] if thought else text
    calls = [call for match in _CALL.findall(text) for call in _calls(match)]
    remaining = _CALL.sub("", text).strip() if calls else text
    return Reply([*thinking, *([Text(remaining)] if remaining.strip() else [])], calls)


def _calls(text: str) -> list[ToolCall]:
    """Parse calls from JSON. Invalid JSON becomes a call without a name."""
    try:
        data = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return [ToolCall("", {"text": text})]
    items = as_list(data)
    return [_call(item) if isinstance(item, dict) else ToolCall("", {"text": text}) for item in items]


def _call(one: dict[str, Any]) -> ToolCall:
    function = one["function"] if isinstance(one.get("function"), dict) else one
    return ToolCall(str_at(function, "name"), function.get("arguments", function.get("parameters")), str_at(one, "id"))


def _result(text: str) -> Result:
    """Return a result, including the tool's name if it is JSON with a name and content."""
    data = decode_json(text.encode()) if text.startswith("{") else None
    name = data.get("name") if isinstance(data, dict) and "content" in data else None
    return Result("", parts_of(text), name=name if isinstance(name, str) else "")
