"""OpenAI's Chat Completions API: messages, requests, responses and fine-tuning records."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec.structs import replace

from agentnb.core.messages import AnyPart, ToolCall
from agentnb.core.request import ToolSpec
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.formats import anthropic_messages
from agentnb.interchange.formats.api_records import read_records, sniff_records
from agentnb.interchange.formats.exchanges import Api, tool_specs
from agentnb.interchange.formats.message_content import (
    cost_of,
    first_at,
    json_text,
    parts_of,
    result_parts,
    str_at,
    strings_of,
    text_of,
    time_at,
    value_at,
)
from agentnb.interchange.formats.steps import Reply, Result, Step, SystemPrompt, UserMessage, thinking, write_steps
from agentnb.interchange.trace_file import TraceFile
from agentnb.models.providers.chat_chunks import THINKING_FIELDS, read_usage
from agentnb.models.providers.serialization import object_of

NAME = "openai_chat"
TITLE = "OpenAI chat messages"
RECORDS_END = "the last `finish_reason`"
ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_SAYS = frozenset({"content", "tool_calls", "function_call", "refusal", "audio"})
_OF_OTHERS = frozenset({"trajectory_format", "trajectory", "info", "simulations", "samples"})
"""Keys next to ``messages`` that identify records of other products."""


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    lack = sniff_records(file, API)
    if not lack and isinstance(file.first, list) and any(map(_ran_bash, file.first)):
        return "it is a list of messages from mini-swe-agent"
    return lack


def _ran_bash(message: Any) -> bool:
    """True if this message reports the output of a command in the form used by mini-swe-agent."""
    return isinstance(message, dict) and str(message.get("content")).startswith("<returncode>")


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each conversation. Requests that repeat a growing conversation are combined into one run."""
    yield from read_records(file, API)


# Recognition


def is_message(value: Any) -> bool:
    """True if this is a message of the chat API."""
    return isinstance(value, dict) and value.get("role") in ROLES and bool(value.keys() & _SAYS) and "parts" not in value


def is_conversation(value: Any) -> bool:
    """True if this is a list of messages in the form of the chat API, rather than Anthropic's."""
    fits = isinstance(value, list) and bool(value) and all(is_message(message) for message in value)
    return fits and not anthropic_messages.is_conversation(value)


def is_request(body: Any) -> bool:
    """True if this is a request body, or a record that holds a conversation."""
    if not isinstance(body, dict) or body.keys() & _OF_OTHERS:
        return False
    return is_conversation(body.get("messages")) and not anthropic_messages.is_request(body)


def is_response(body: Any) -> bool:
    """True if this is a chat completion, possibly assembled from a stream."""
    choices = value_at(body, "choices")
    return isinstance(choices, list) and bool(choices) and isinstance(choices[0], dict) and "message" in choices[0]


def request_steps(body: dict[str, Any]) -> list[Step]:
    """Return the steps of a request."""
    return steps_of(body["messages"])


# Messages


def take_message(writer: RunWriter, message: dict[str, Any]) -> None:
    """Add a message to the writer."""
    write_steps(writer, [step_of(message)])


def steps_of(messages: Iterable[dict[str, Any]]) -> list[Step]:
    """Return the steps of a conversation's messages."""
    return [step_of(message) for message in messages]


def step_of(message: dict[str, Any]) -> Step:
    """Return the step of a message. Raises KeyError if its role is not one of the API's."""
    role, at = message["role"], time_at(message, "timestamp", "created_at")
    author, content = str_at(message, "name"), message.get("content")
    if role in ("system", "developer"):
        return SystemPrompt(text_of(content))
    if role == "user":
        return UserMessage(parts_of(content), author, at)
    if role == "assistant":
        stop, usage = str_at(message, "finish_reason"), usage_of(message.get("usage"))
        return Reply(said_parts(message), calls_of(message), author, at, usage, stop_reason=stop)
    if role not in ROLES:
        raise KeyError(f"role {role!r}")
    return Result(str_at(message, "tool_call_id"), result_parts(content), author, bool(message.get("is_error")), at)


def said_parts(message: dict[str, Any]) -> list[AnyPart]:
    """Return the thinking and text in an assistant's message, with a refusal or audio transcript as text."""
    parts = [*_thoughts(message), *parts_of(message.get("content"))]
    audio = message.get("audio")
    if isinstance(audio, dict) and audio.get("transcript") and not text_of(message.get("content")):
        parts += parts_of({"type": "audio", "audio": audio})
    if isinstance(refusal := message.get("refusal"), str) and refusal:
        parts += parts_of(refusal)
    return parts


def _thoughts(message: dict[str, Any]) -> list[AnyPart]:
    """Return the thinking, from whichever field the server uses for it, or otherwise from OpenRouter's details."""
    for field in THINKING_FIELDS:
        if parts := thinking(message.get(field)):
            return parts
    details = [detail for detail in message.get("reasoning_details") or () if isinstance(detail, dict)]
    return thinking("".join([str_at(detail, "text", "summary") for detail in details]))


def calls_of(message: dict[str, Any]) -> list[ToolCall]:
    """Return the calls in an assistant's message, including a legacy ``function_call``, which has no id."""
    old = message.get("function_call")
    calls = [call for item in message.get("tool_calls") or () if (call := _call(item)) is not None]
    return calls + ([ToolCall(old["name"], old.get("arguments"))] if isinstance(old, dict) else [])


def _call(one: dict[str, Any]) -> ToolCall | None:
    call_id = str_at(one, "id")
    if isinstance(function := one.get("function"), dict):
        return ToolCall(function.get("name") or "", function.get("arguments"), call_id)
    if isinstance(function := one.get("custom"), dict):  # a tool with text input
        return ToolCall(function.get("name") or "", {"input": function.get("input")}, call_id)
    return ToolCall(one["name"], one.get("arguments", one.get("args")), call_id) if "name" in one else None


def tools_of(tools: Any) -> tuple[ToolSpec, ...]:
    """Return the tools of a request."""
    return tool_specs(first_at(tool, "function", "custom") or tool for tool in tools or () if isinstance(tool, dict))


def usage_of(usage: Any) -> Usage:
    """Return the reported usage, including OpenRouter's cost; unknown if it is missing."""
    reported = read_usage(usage)
    cost = cost_of(object_of(usage).get("cost"))
    return reported if cost is None else replace(reported, cost=cost)


# Responses


def first_choice(body: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the first choice of a chat completion; empty if it has none."""
    return (body.get("choices") or [{}])[0]  # type: ignore[no-any-return]


def response_steps(body: dict[str, Any]) -> list[Step]:
    """Return the reply in the first choice of a chat completion."""
    choice = body["choices"][0]
    message = choice["message"]
    kept = strings_of(body, "id", "model")
    if isinstance(annotations := message.get("annotations"), list) and annotations:
        kept["annotations"] = annotations
    stop = "refusal" if message.get("refusal") else choice.get("finish_reason")
    stop = stop if isinstance(stop, str) else json_text(stop or "")
    usage, at = usage_of(body.get("usage")), time_at(body, "created")
    return [Reply(said_parts(message), calls_of(message), "", at, usage, None, stop, kept)]


API = Api(
    name=NAME,
    lacks="it has no list of chat API messages with role and content",
    is_request=is_request,
    is_conversation=is_conversation,
    is_response=is_response,
    request_steps=request_steps,
    steps_of=steps_of,
    response_steps=response_steps,
    tools_of=lambda request, response: tools_of(first_at(request, "tools", "functions")),
)
