"""LangChain messages, as used by LangSmith and LangGraph: plain, or serialized as class constructors."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

from agentnb.core.messages import AnyPart, ToolCall
from agentnb.core.usage import Usage
from agentnb.interchange.formats import anthropic_messages, openai_chat
from agentnb.interchange.formats.message_content import (
    cost_of,
    first_at,
    parts_of,
    result_parts,
    str_at,
    strings_of,
    text_of,
    value_at,
)
from agentnb.interchange.formats.steps import Reply, Result, Step, SystemPrompt, UserMessage, thinking
from agentnb.models.providers.serialization import count, object_of

_ROLES = {
    "human": "user",
    "ai": "assistant",
    "humanmessage": "user",
    "aimessage": "assistant",
    "aimessagechunk": "assistant",
    "systemmessage": "system",
    "toolmessage": "tool",
    "functionmessage": "tool",
    "function": "tool",
    "developer": "system",
}
_KNOWN = frozenset({"user", "assistant", "system", "tool"})


def fields_of(value: Any) -> dict[str, Any] | None:
    """Return the fields of a message, unwrapping a constructor or a pair of type and data."""
    if not isinstance(value, dict):
        return None
    if value.get("type") == "constructor" and isinstance(value.get("kwargs"), dict):
        name = (value.get("id") or [""])[-1]
        return {"type": str(name).lower(), **value["kwargs"]} if "type" not in value["kwargs"] else value["kwargs"]
    if isinstance(value.get("data"), dict) and "content" in value["data"] and isinstance(value.get("type"), str):
        return {"type": value["type"], **value["data"]}
    return value


def role_of(fields: dict[str, Any]) -> str:
    """Return the role of a message in the terms of the APIs: user, assistant, system or tool. Other roles are returned
    unchanged.
    """
    role = str_at(fields, "role", "type").lower()
    return _ROLES.get(role, role)


def is_message(value: Any) -> bool:
    """True if this is a message of LangChain or of OpenAI's chat API, which LangChain also accepts."""
    fields = fields_of(value)
    return fields is not None and role_of(fields) in _KNOWN and bool(fields.keys() & {"content", "tool_calls"})


def steps_of(messages: Iterable[Any], author: str = "") -> list[Step]:
    """Return the steps of messages."""
    return [step for message in messages for step in message_steps(message, author)]


def message_steps(message: Any, author: str = "", at: datetime | None = None) -> list[Step]:
    """Return the steps of a message. ``author``: the author of replies that do not name one."""
    fields = fields_of(message) or {}
    role, content = role_of(fields), fields.get("content")
    if role == "system":
        return [SystemPrompt(text_of(content))]
    if role == "assistant":
        return [reply_of(fields, author, at)]
    if role == "tool":
        is_error = fields.get("status") == "error" or bool(fields.get("is_error"))
        name, call_id = str_at(fields, "name"), str_at(fields, "tool_call_id")
        return [Result(call_id, result_parts(content), name, is_error, at)]
    if role == "user" and anthropic_messages.is_conversation([{"role": role, "content": content}]):
        return anthropic_messages.message_steps({"role": role, "content": content}, at=at)
    return [UserMessage(parts_of(content), str(fields.get("name") or ("" if role == "user" else role)), at)]


def reply_of(fields: dict[str, Any], author: str = "", at: datetime | None = None) -> Reply:
    """Return the reply in a model's message."""
    metadata = object_of(fields.get("response_metadata"))
    stop = first_at(metadata, "finish_reason", "stop_reason") or fields.get("finish_reason") or ""
    kept = strings_of(metadata, "id", "model_name", "model")
    usage = usage_of(fields.get("usage_metadata"))
    if usage == Usage():
        usage = openai_chat.usage_of(metadata.get("token_usage"))
    name = str(fields.get("name") or author)
    return Reply(_reply_parts(fields), calls_of(fields), name, at, usage, None, str(stop), kept or None)


def _reply_parts(fields: dict[str, Any]) -> list[AnyPart]:
    extra = dict(object_of(fields.get("additional_kwargs")))
    thought = thinking(first_at(extra, "reasoning_content", "reasoning") or fields.get("reasoning_content"))
    parts = openai_chat.said_parts({"content": fields.get("content"), "refusal": extra.get("refusal") or fields.get("refusal")})
    return [*thought, *parts]


def calls_of(fields: dict[str, Any]) -> list[ToolCall]:
    """Return the calls in a model's message, including those whose arguments are not valid JSON."""
    extra = object_of(fields.get("additional_kwargs"))
    tool_calls = [*(fields.get("tool_calls") or ()), *(fields.get("invalid_tool_calls") or ())]
    calls = openai_chat.calls_of({"tool_calls": tool_calls, "function_call": fields.get("function_call")})
    if not calls:
        calls = openai_chat.calls_of({"tool_calls": extra.get("tool_calls"), "function_call": extra.get("function_call")})
    if not calls and isinstance(content := fields.get("content"), list):
        blocks = [block for block in content if value_at(block, "type") == "tool_use"]
        calls = [anthropic_messages.call_of(block) for block in blocks]
    return calls


def usage_of(usage: Any) -> Usage:
    """Return the usage, in LangChain's common form; unknown if it is missing."""
    usage = object_of(usage)
    input_details = object_of(first_at(usage, "input_token_details", "input_tokens_details"))
    output_details = object_of(first_at(usage, "output_token_details", "output_tokens_details"))
    return Usage(
        input=count(usage.get("input_tokens")),
        output=count(usage.get("output_tokens")),
        cache_read=count(input_details.get("cache_read")),
        cache_write=count(input_details.get("cache_creation")),
        reasoning=count(output_details.get("reasoning")),
        cost=cost_of(usage.get("total_cost")) or None,
    )
