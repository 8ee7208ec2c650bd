"""OpenInference spans, as Phoenix and OpenTelemetry exporters write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentnb.core.messages import AnyPart, Text, Thinking, ToolCall
from agentnb.core.request import ToolSpec
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.interchange.formats.message_content import cost_of, first_at, image_of, str_at, value_at
from agentnb.interchange.formats.span_calls import (
    AgentUse,
    Convention,
    Kind,
    ModelCall,
    SpanMessage,
    ToolUse,
    count_of,
    role_of,
)
from agentnb.interchange.formats.span_records import Span, first_spans, json_value
from agentnb.interchange.formats.span_runs import read_runs
from agentnb.interchange.trace_file import TraceFile
from agentnb.models.providers.serialization import object_of

NAME = "openinference"
TITLE = "spans of OpenInference"
RECORDS_END = "the agent's span, else the last finish reason"
_KINDS: dict[str, Kind] = {"AGENT": "agent", "LLM": "model", "TOOL": "tool"}
_WORDS = frozenset({*_KINDS, "CHAIN", "RETRIEVER", "RERANKER", "EMBEDDING", "GUARDRAIL", "EVALUATOR", "PROMPT"})
"""Kinds of spans. Phoenix exports them as ``span_kind`` next to the attributes."""
_METADATA = "agentnb"


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    spans = first_spans(file)
    if not spans:
        return "it has no spans"
    fits = any(_kind_word(span) or span.kind.upper() in _WORDS for span in spans)
    return "" if fits else "its spans have no openinference.span.kind, and no OpenInference span_kind"


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each agent in each trace."""
    yield from read_runs(file, CONVENTION)


def _kind_word(span: Span) -> str:
    word = span.at("openinference.span.kind")
    return word if isinstance(word, str) else ""


def _kind(span: Span) -> Kind:
    return _KINDS.get((_kind_word(span) or span.kind).upper(), "")


def _model_call(span: Span) -> ModelCall:
    inputs = _messages(span.at("llm.input_messages"))
    outputs = _messages(span.at("llm.output_messages"))
    names = [span.at(name) for name in ("llm.model_name", "llm.response.model_name", "llm.request.model_name")]
    return ModelCall(
        span,
        inputs or _plain("user", span.at("input.value")),
        outputs[0] if outputs else next(iter(_plain("assistant", span.at("output.value"))), None),
        next((name for name in names if isinstance(name, str)), ""),
        _usage(span),
        str(span.at("llm.finish_reason") or ""),
        tuple(_tools(span.at("llm.tools"))),
    )


def _plain(role: str, value: Any) -> list[SpanMessage]:
    return [SpanMessage(role, (Text(value),))] if isinstance(value, str) and value.strip() else []


def _tool_use(span: Span) -> ToolUse:
    parameters = span.at("tool.parameters")
    arguments = json_value(span.at("input.value") if parameters is None else parameters)
    name = span.at("tool.name") or span.name
    call = ToolCall(
        str(name), arguments if arguments is not None else {}, str(span.at("tool.id") or span.at("tool_call.id") or "")
    )
    output = span.at("output.value")
    parts: list[AnyPart] = [Text(output if isinstance(output, str) else "")] if output else []
    images = span.at("output.images")
    for entry in images if isinstance(images, list) else ():
        image = image_of(value_at(entry, "image", "url"))
        parts += [image] if image is not None else []
    code = first_at(span, "agentnb.error_code", "agentnb.error.type")
    failed = span.failed or bool(code)
    if failed and not parts:
        parts = [Text(span.message)]
    return ToolUse(span, call, parts, str(code or "tool_error") if failed else None)


def _agent_use(span: Span) -> AgentUse:
    inputs = _messages(span.at("llm.input_messages")) or _plain("user", span.at("input.value"))
    output = next(iter(_plain("assistant", span.at("output.value"))), None)
    name = span.at("agent.name")
    own = str_at(span, "agentnb.run.model")
    system, tools = str_at(span, "agentnb.run.system"), tuple(_tools(span.at("llm.tools")))
    return AgentUse(inputs, output, name if isinstance(name, str) else span.name, own, system, tools)


CONVENTION = Convention(NAME, _kind, _model_call, _tool_use, _agent_use)


# Messages


def _messages(found: Any) -> list[SpanMessage]:
    messages = [entry.get("message", entry) for entry in found if isinstance(entry, dict)] if isinstance(found, list) else []
    return [_message_of(entry) for entry in messages if isinstance(entry, dict)]


def _message_of(message: dict[str, Any]) -> SpanMessage:
    calls = message.get("tool_calls")
    tool_calls = (
        [_call(entry.get("tool_call", entry)) for entry in calls if isinstance(entry, dict)] if isinstance(calls, list) else []
    )
    if message.get("function_call_name"):
        tool_calls.append(ToolCall(str(message["function_call_name"]), message.get("function_call_arguments_json")))
    name, call_id = str_at(message, "name"), str_at(message, "tool_call_id")
    return SpanMessage(role_of(message.get("role") or "user"), tuple(_parts(message)), tuple(tool_calls), name, call_id)


def _call(one: dict[str, Any]) -> ToolCall:
    fields = object_of(one.get("function"))
    return ToolCall(str_at(fields, "name"), json_value(fields.get("arguments")), str_at(one, "id"))


def _parts(message: dict[str, Any]) -> Iterator[AnyPart]:
    content = message.get("content")
    if isinstance(content, str) and content:
        yield Text(content)
    contents = message.get("contents")
    for item in contents if isinstance(contents, list) else ():
        part = _part(item.get("message_content", item)) if isinstance(item, dict) else None
        if part is not None:
            yield part


def _part(one: dict[str, Any]) -> AnyPart | None:
    kept = json_value(value_at(one, _METADATA, "metadata"))
    metadata = kept if isinstance(kept, dict) else None
    text = str_at(one, "text")
    if one.get("type") == "reasoning":
        return Thinking(text, metadata)
    if "image" in one:
        url = value_at(one, "image", "image", "url")
        return image_of(url) or (Text(f"[picture: {url[:200]}]") if isinstance(url, str) else None)
    return Text(text, metadata) if text or metadata else None


def _tools(found: Any) -> Iterator[ToolSpec]:
    for entry in found if isinstance(found, list) else ():
        definition = entry.get("tool", entry) if isinstance(entry, dict) else {}
        schema = object_of(json_value(definition.get("json_schema")))
        function = schema.get("function", schema)
        name = function.get("name") or definition.get("name") if isinstance(function, dict) else None
        if isinstance(name, str):
            parameters = first_at(function, "parameters", "input_schema")
            description = str(function.get("description") or definition.get("description") or "")
            yield ToolSpec(name, description, parameters if isinstance(parameters, dict) else {})


def _usage(span: Span) -> Usage:
    counts = {
        "input": "prompt",
        "output": "completion",
        "cache_read": "prompt_details.cache_read",
        "cache_write": "prompt_details.cache_write",
        "reasoning": "completion_details.reasoning",
    }
    values = {name: count_of(_number(span.at(f"llm.token_count.{path}"))) for name, path in counts.items()}
    return Usage(**values, cost=cost_of(span.at("llm.cost.total")), estimated=span.get("agentnb.usage.estimated") is True)


def _number(found: Any) -> Any:
    return found.get("") if isinstance(found, dict) else found
