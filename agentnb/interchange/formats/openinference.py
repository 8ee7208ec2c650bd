"""Spans of OpenInference: AGENT, LLM and TOOL, as Phoenix and the exporters of OpenTelemetry write them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentnb.core.messages import AnyPart, Text, Thinking, ToolCall
from agentnb.core.request import ToolSpec
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.interchange.formats.content import cost_of, image_of
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
from agentnb.interchange.formats.span_runs import read_runs
from agentnb.interchange.formats.spans import Span, first_spans, json_value
from agentnb.interchange.trace_file import TraceFile

NAME = "openinference"
TITLE = "spans of OpenInference"
RECORDS_END = "the end and the status of the agent's span; without one, the last finish reason"
_KINDS: dict[str, Kind] = {"AGENT": "agent", "LLM": "model", "TOOL": "tool"}
_WORDS = frozenset({*_KINDS, "CHAIN", "RETRIEVER", "RERANKER", "EMBEDDING", "GUARDRAIL", "EVALUATOR", "PROMPT"})
"""Kinds of spans. Phoenix exports them as ``span_kind`` beside the attributes."""
_METADATA = "agentnb"


def sniff(file: TraceFile) -> str:
    """Return an empty text for a file of this format, otherwise what it lacks."""
    spans = first_spans(file)
    if not spans:
        return "it has no spans"
    fits = any(_kind_word(span) or span.kind.upper() in _WORDS for span in spans)
    return "" if fits else "its spans have no openinference.span.kind, and no span_kind of OpenInference"


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each agent of each trace."""
    yield from read_runs(file, CONVENTION)


def _kind_word(span: Span) -> str:
    found = span.at("openinference.span.kind")
    return found if isinstance(found, str) else ""


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
        next((one for one in names if isinstance(one, str)), ""),
        _usage(span),
        str(span.at("llm.finish_reason") or ""),
        tuple(_tools(span.at("llm.tools"))),
    )


def _plain(role: str, value: Any) -> list[SpanMessage]:
    return [SpanMessage(role, (Text(value),))] if isinstance(value, str) and value.strip() else []


def _tool_use(span: Span) -> ToolUse:
    given = span.at("tool.parameters")
    arguments = json_value(span.at("input.value") if given is None else given)
    name = span.at("tool.name") or span.name
    call = ToolCall(
        str(name), arguments if arguments is not None else {}, str(span.at("tool.id") or span.at("tool_call.id") or "")
    )
    told = span.at("output.value")
    parts: list[AnyPart] = [Text(told if isinstance(told, str) else "")] if told else []
    images = span.at("output.images")
    for one in images if isinstance(images, list) else ():
        found = image_of(_in(one, "image", "url"))
        parts += [found] if found is not None else []
    code = span.get("agentnb.error_code") or span.get("agentnb.error.type")
    failed = span.failed or bool(code)
    if failed and not parts:
        parts = [Text(span.message)]
    return ToolUse(span, call, parts, str(code or "tool_error") if failed else None)


def _agent_use(span: Span) -> AgentUse:
    inputs = _messages(span.at("llm.input_messages")) or _plain("user", span.at("input.value"))
    output = next(iter(_plain("assistant", span.at("output.value"))), None)
    name = span.at("agent.name")
    own = str(span.get("agentnb.run.model") or "")
    system, tools = str(span.get("agentnb.run.system") or ""), tuple(_tools(span.at("llm.tools")))
    return AgentUse(inputs, output, name if isinstance(name, str) else span.name, own, system, tools)


CONVENTION = Convention(NAME, _kind, _model_call, _tool_use, _agent_use)


# Messages


def _messages(found: Any) -> list[SpanMessage]:
    listed = [one.get("message", one) for one in found if isinstance(one, dict)] if isinstance(found, list) else []
    return [_message_of(one) for one in listed if isinstance(one, dict)]


def _message_of(message: dict[str, Any]) -> SpanMessage:
    calls = message.get("tool_calls")
    made = [_call(one.get("tool_call", one)) for one in calls if isinstance(one, dict)] if isinstance(calls, list) else []
    if message.get("function_call_name"):
        made.append(ToolCall(str(message["function_call_name"]), message.get("function_call_arguments_json")))
    name, call_id = str(message.get("name") or ""), str(message.get("tool_call_id") or "")
    return SpanMessage(role_of(message.get("role") or "user"), tuple(_parts(message)), tuple(made), name, call_id)


def _call(one: dict[str, Any]) -> ToolCall:
    function = one.get("function")
    about = function if isinstance(function, dict) else {}
    return ToolCall(str(about.get("name") or ""), json_value(about.get("arguments")), str(one.get("id") or ""))


def _parts(message: dict[str, Any]) -> Iterator[AnyPart]:
    content = message.get("content")
    if isinstance(content, str) and content:
        yield Text(content)
    contents = message.get("contents")
    for one in contents if isinstance(contents, list) else ():
        part = _part(one.get("message_content", one)) if isinstance(one, dict) else None
        if part is not None:
            yield part


def _part(one: dict[str, Any]) -> AnyPart | None:
    kept = json_value(_in(one, _METADATA, "metadata"))
    metadata = kept if isinstance(kept, dict) else None
    text = str(one.get("text") or "")
    if one.get("type") == "reasoning":
        return Thinking(text, metadata)
    if "image" in one:
        url = _in(one, "image", "image", "url")
        return image_of(url) or (Text(f"[picture: {url[:200]}]") if isinstance(url, str) else None)
    return Text(text, metadata) if text or metadata else None


def _in(value: Any, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _tools(found: Any) -> Iterator[ToolSpec]:
    for one in found if isinstance(found, list) else ():
        about = one.get("tool", one) if isinstance(one, dict) else {}
        schema = json_value(about.get("json_schema"))
        schema = schema if isinstance(schema, dict) else {}
        function = schema.get("function", schema)
        name = function.get("name") or about.get("name") if isinstance(function, dict) else None
        if isinstance(name, str):
            parameters = function.get("parameters") or function.get("input_schema")
            described = str(function.get("description") or about.get("description") or "")
            yield ToolSpec(name, described, parameters if isinstance(parameters, dict) else {})


def _usage(span: Span) -> Usage:
    counts = {
        "input": "prompt",
        "output": "completion",
        "cache_read": "prompt_details.cache_read",
        "cache_write": "prompt_details.cache_write",
        "reasoning": "completion_details.reasoning",
    }
    known = {name: count_of(_number(span.at(f"llm.token_count.{path}"))) for name, path in counts.items()}
    return Usage(**known, cost=cost_of(span.at("llm.cost.total")), estimated=span.get("agentnb.usage.estimated") is True)


def _number(found: Any) -> Any:
    return found.get("") if isinstance(found, dict) else found
