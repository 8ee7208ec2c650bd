"""Anthropic's Messages API: requests, responses, lists of messages and batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Any

from agentnb.core.messages import AnyPart, ToolCall
from agentnb.core.request import ToolSpec
from agentnb.core.run.rounds import SERVER_SIDE
from agentnb.core.usage import UNKNOWN, Usage
from agentnb.detect.run import Run
from agentnb.interchange.formats.api_records import read_records, sniff_records
from agentnb.interchange.formats.exchanges import Api, tool_specs
from agentnb.interchange.formats.message_content import (
    as_list,
    json_text,
    parts_of,
    result_parts,
    str_at,
    strings_of,
    text_of,
    time_at,
    value_at,
)
from agentnb.interchange.formats.steps import (
    Reply,
    ReplyPieces,
    Result,
    Step,
    SystemPrompt,
    UserMessage,
    system_steps,
    thinking,
)
from agentnb.interchange.trace_file import TraceFile
from agentnb.models.providers.anthropic import NAME as OWN
from agentnb.models.providers.anthropic import read_usage

NAME = "anthropic_messages"
TITLE = "messages of Anthropic's API"
RECORDS_END = "the last `stop_reason`"
_ROLES = frozenset({"user", "assistant", "system"})
_INSIDE = frozenset({"server_tool_use", "mcp_tool_use"})
_CALLS = _INSIDE | {"tool_use"}
_OWN_BLOCKS = _CALLS | {"tool_result", "thinking", "redacted_thinking", "document", "search_result", "container_upload"}
_OWN_FIELDS = frozenset({"system", "anthropic_version", "anthropic_beta", "stop_sequences", "mcp_servers"})
_BLOCKS_ALSO = frozenset({"text", "image", "compaction"})
_ERRORS = "_tool_result_error"
"""Suffix of the error types for server-side tools, as in ``web_search_tool_result_error``."""


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    return sniff_records(file, API)


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each conversation. Requests that repeat a growing conversation are combined into one run."""
    yield from read_records(file, API)


# Recognition


def is_message(value: Any) -> bool:
    """True if this is a message of the API, with a role and text or blocks."""
    if not isinstance(value, dict) or value.get("role") not in _ROLES or value.keys() & {"tool_calls", "parts"}:
        return False
    content = value.get("content")
    return isinstance(content, str) or (isinstance(content, list) and all(is_block(block) for block in content))


def is_block(value: Any) -> bool:
    """True if this is a block in a message's content."""
    if not isinstance(value, dict):
        return False
    kind = value.get("type")
    return kind in _OWN_BLOCKS or kind in _BLOCKS_ALSO or (isinstance(kind, str) and kind.endswith("_tool_result"))


def _is_own(block: dict[str, Any]) -> bool:
    """True if this block is one that only this API writes."""
    kind = str(block["type"])
    return kind in _OWN_BLOCKS or kind.endswith("_tool_result") or (kind == "image" and isinstance(block.get("source"), dict))


def is_conversation(value: Any) -> bool:
    """True if this is a list of messages that has at least one block that only this API writes."""
    if not isinstance(value, list) or not all(is_message(message) for message in value):
        return False
    return any(_is_own(block) for message in value if isinstance(message["content"], list) for block in message["content"])


def is_request(body: Any) -> bool:
    """True if this is a request body whose messages or other fields belong to this API."""
    messages = value_at(body, "messages")
    if not isinstance(messages, list) or not messages or not all(is_message(item) for item in messages):
        return False
    tools = [item for item in body.get("tools") or () if isinstance(item, dict)]
    by_field = bool(body.keys() & _OWN_FIELDS) or any("input_schema" in item for item in tools)
    return by_field or str_at(body, "model").startswith("claude") or is_conversation(messages)


def is_response(body: Any) -> bool:
    """True if this is a response body."""
    if not isinstance(body, dict) or body.get("type") != "message" or body.get("role") != "assistant":
        return False
    return isinstance(body.get("content"), list) and all(is_block(block) for block in body["content"])


def request_steps(body: dict[str, Any]) -> list[Step]:
    """Return the steps of a request: its system prompt and messages."""
    return [*system_steps(text_of(body.get("system"))), *steps_of(body["messages"])]


# Messages


def steps_of(messages: Iterable[dict[str, Any]]) -> list[Step]:
    """Return the steps of a conversation's messages."""
    return [step for message in messages for step in message_steps(message)]


def message_steps(message: dict[str, Any], *, author: str = "", at: datetime | None = None) -> list[Step]:
    """Return the steps of a message: a reply with its calls, or results and other user content."""
    role, content = message["role"], message.get("content")
    at = at or time_at(message, "timestamp", "created_at")
    if role == "system":
        return [SystemPrompt(text_of(content))]
    if role == "assistant":
        usage = usage_of(message.get("usage"))
        return reply_steps(content, author=author, at=at, usage=usage, stop_reason=str_at(message, "stop_reason"))
    return _users_steps(content, author, at)


def _users_steps(content: Any, author: str, at: datetime | None) -> list[Step]:
    blocks = as_list(content)
    results: list[Step] = [result_of(block, at) for block in blocks if _is_result(block)]
    parts = [part for block in blocks if not _is_result(block) for part in parts_of(block)]
    return [*results, *([UserMessage(parts, author, at)] if parts or not results else [])]


def _is_result(block: Any) -> bool:
    return str(value_at(block, "type")).endswith("tool_result")


def reply_steps(
    content: Any,
    *,
    author: str = "",
    at: datetime | None = None,
    usage: Usage = UNKNOWN,
    stop_reason: str = "",
    metadata: dict[str, Any] | None = None,
) -> list[Step]:
    """Return the reply in an assistant's content, including the results of server-side tools."""
    pieces = ReplyPieces(author, at)
    for block in as_list(content):
        kind = value_at(block, "type")
        if kind in _CALLS:
            pieces.call(call_of(block))
        elif _is_result(block):
            pieces.result(result_of(block)._replace(inside=True))
        else:
            pieces.say(_parts(block))
    return pieces.steps(usage=usage, stop_reason=stop_reason, metadata=metadata or {}) or [Reply([], [], author, at)]


def _parts(block: Any) -> list[AnyPart]:
    """Return the parts of a model's block. Thinking keeps its block and signature, which the API requires to be sent back."""
    kind = value_at(block, "type")
    if kind == "thinking":
        return thinking(block.get("thinking"), {OWN: block} if block.get("signature") else None)
    if kind == "redacted_thinking":
        return thinking("", {OWN: block})
    return parts_of(block)


def call_of(block: dict[str, Any]) -> ToolCall:
    """Return the call in a block. Its metadata marks calls of server-side tools."""
    kind = block["type"]
    extra = {key: block[key] for key in ("server_name", "caller") if block.get(key)}
    own = {SERVER_SIDE: {"type": kind, **extra}} if kind in _INSIDE else {OWN: extra} if extra else None
    return ToolCall(str_at(block, "name"), block.get("input"), str_at(block, "id"), own)


def result_of(block: dict[str, Any], at: datetime | None = None) -> Result:
    """Return the result in a block, which may come from a search, a fetched page, or code that the API ran."""
    content, call_id = block.get("content"), str_at(block, "tool_use_id")
    failed = str(value_at(content, "type")).endswith(_ERRORS)
    is_error = bool(block.get("is_error")) or failed
    if block["type"] in ("tool_result", "mcp_tool_result"):
        return Result(call_id, result_parts(content), is_error=is_error, at=at)
    return Result(call_id, parts_of(_result_text(content)), is_error=is_error, at=at)


def _result_text(content: Any) -> str:
    """Return the result of a server-side tool as text, leaving out encrypted fields."""
    if isinstance(content, list):
        return "\n".join(_result_text(item) for item in content)
    if not isinstance(content, dict):
        return json_text(content or "")
    page = content.get("content")
    if "stdout" in content:
        pieces = [content.get("stdout"), content.get("stderr")]
    elif content.get("type") == "web_search_result":
        pieces = [content.get(key) for key in ("title", "url", "page_age")]
    elif isinstance(page, dict):
        pieces = [content.get("url"), text_of(page)]
    else:
        pieces = [content.get("error_code") or text_of(content)]
    text = "\n".join(str(item) for item in pieces if item)
    return text or json_text({key: value for key, value in content.items() if not key.startswith("encrypted")})


def usage_of(usage: Any) -> Usage:
    """Return the reported usage. Unlike the API, agentnb includes cache reads and writes in the input."""
    return read_usage(usage) if isinstance(usage, dict) else UNKNOWN


def tools_of(tools: Any) -> tuple[ToolSpec, ...]:
    """Return the tools of a request."""
    return tool_specs(tools or (), "input_schema")


# Responses


def response_steps(body: dict[str, Any]) -> list[Step]:
    """Return the reply in a response, with its usage."""
    return reply_steps(
        body["content"],
        at=time_at(body, "created_at"),
        usage=usage_of(body.get("usage")),
        stop_reason=str_at(body, "stop_reason"),
        metadata=strings_of(body, "id", "model", "stop_sequence"),
    )


API = Api(
    name=NAME,
    lacks="it has no Anthropic API messages or blocks",
    is_request=is_request,
    is_conversation=is_conversation,
    is_response=is_response,
    request_steps=request_steps,
    steps_of=steps_of,
    response_steps=response_steps,
    tools_of=lambda request, response: tools_of(request.get("tools")),
)
