"""Spans that follow OpenTelemetry's GenAI conventions, including earlier versions.

Messages are in attributes (``gen_ai.input.messages``, a list or its JSON), in events and log records or, in earlier conventions
and OpenLLMetry, in numbered attributes (``gen_ai.prompt.0.role``).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from agentnb.core.messages import AnyPart, Text, Thinking, ToolCall
from agentnb.core.request import ToolSpec
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.interchange.formats.message_content import as_list, cost_of, first_at, parts_of, picture, str_at
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
from agentnb.interchange.formats.span_records import Span, SpanNote, as_json, first_spans, json_value, list_at
from agentnb.interchange.formats.span_runs import read_runs
from agentnb.interchange.trace_file import TraceFile
from agentnb.models.providers.serialization import object_of

NAME = "otel_genai"
TITLE = "spans of OpenTelemetry's GenAI conventions"
RECORDS_END = "the agent's span, else the last finish reason"
_OPERATIONS: dict[str, Kind] = {
    "invoke_agent": "agent",
    "invoke_workflow": "agent",
    "execute_tool": "tool",
    "chat": "model",
    "text_completion": "model",
    "generate_content": "model",
    "completion": "model",
}
_ENTITIES: dict[str, Kind] = {"agent": "agent", "workflow": "agent", "tool": "tool"}
"""The kinds of OpenLLMetry's spans."""
_DETAILS = "gen_ai.client.inference.operation.details"
_CHOICE = "gen_ai.choice"
_MESSAGE_EVENTS = {
    "gen_ai.system.message": "system",
    "gen_ai.user.message": "user",
    "gen_ai.assistant.message": "assistant",
    "gen_ai.tool.message": "tool",
}
"""Message events in versions of the conventions up to 1.36."""
_METADATA = "agentnb.metadata"


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    spans = first_spans(file)
    if not spans:
        return "it has no spans"
    if any(span.at("openinference.span.kind") for span in spans):
        return "its spans follow OpenInference"
    return "" if any(map(_kind, spans)) else "its spans have no gen_ai attributes"


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each agent in each trace."""
    yield from read_runs(file, CONVENTION)


def _kind(span: Span) -> Kind:
    operation = span.get("gen_ai.operation.name")
    if isinstance(operation, str):
        return _OPERATIONS.get(operation, "")
    if isinstance(entity := span.get("traceloop.span.kind"), str):
        return _ENTITIES.get(entity, "")
    if span.get("gen_ai.tool.name"):
        return "tool"
    has_messages = any(
        name.startswith(("gen_ai.prompt", "gen_ai.completion", "gen_ai.input.", "gen_ai.output.")) for name in span.attributes
    )
    is_request = span.get("llm.request.type") in ("chat", "completion") or bool(span.get("gen_ai.request.model"))
    return "model" if has_messages or (is_request and bool(span.at("gen_ai"))) else ""


def _model_call(span: Span) -> ModelCall:
    inputs = [*_system(span.at("gen_ai.system_instructions")), *_inputs(span)]
    outputs, stop = _outputs(span)
    reasons = json_value(span.at("gen_ai.response.finish_reasons"))
    stop = stop or (str(reasons[0]) if isinstance(reasons, list) and reasons else "")
    model = first_at(span, "gen_ai.request.model", "gen_ai.response.model") or ""
    return ModelCall(span, inputs, outputs, str(model), _usage(span), stop, tuple(_tools(span)))


def _inputs(span: Span) -> list[SpanMessage]:
    messages = [message for item in list_at(span, "gen_ai.input.messages") for message in _message_of(item)]
    if not messages:
        numbered = json_value(_plain(span.at("gen_ai.prompt")))
        items = as_list(numbered)
        messages = [message for item in items if isinstance(item, dict) for message in _message_of(item)]
        if not messages and isinstance(numbered, str) and numbered:
            messages = [SpanMessage("user", (Text(numbered),))]
    return messages or [*_from_events(span)]


def _outputs(span: Span) -> tuple[SpanMessage | None, str]:
    """Return the reply in the first choice, and its finish reason."""
    messages = list_at(span, "gen_ai.output.messages")
    if not messages:
        numbered = json_value(_plain(span.at("gen_ai.completion")))
        messages = [item for item in as_list(numbered) if isinstance(item, dict)]
        if not messages and isinstance(numbered, str) and numbered:
            messages = [{"role": "assistant", "content": numbered}]
    for event in span.events if not messages else ():
        fields = _event_fields(event)
        if event.name == _CHOICE:
            message = json_value(fields.get("message", fields.get("content")))
            choice = message if isinstance(message, dict) else {"content": message, "tool_calls": fields.get("tool_calls")}
            messages.append({"role": "assistant", **choice, "finish_reason": fields.get("finish_reason")})
        elif event.name == _DETAILS:
            messages += _objects(fields.get("gen_ai.output.messages"))
    replies = [(reply, item) for item in messages for reply in _message_of({"role": "assistant", **item})]
    if not replies:
        return None, ""
    reply, item = replies[0]
    return reply, str_at(item, "finish_reason")


def _plain(value: Any) -> Any:
    return value.get("", value) if isinstance(value, dict) else value


def _from_events(span: Span) -> Iterator[SpanMessage]:
    for event in span.events:
        fields = _event_fields(event)
        if event.name in _MESSAGE_EVENTS:
            yield from _message_of({"role": _MESSAGE_EVENTS[event.name], **fields})
        elif event.name == _DETAILS:
            yield from _system(fields.get("gen_ai.system_instructions"))
            for item in _objects(fields.get("gen_ai.input.messages")):
                yield from _message_of(item)
        elif event.name == "gen_ai.content.prompt":
            prompt = fields.get("gen_ai.prompt")
            messages = _objects(prompt)
            for item in messages or ([{"role": "user", "content": prompt}] if prompt else []):
                yield from _message_of(item)


def _event_fields(event: SpanNote) -> dict[str, Any]:
    """Return the attributes and the content, decoded if the exporter writes the complete event as JSON."""
    return {**event.attributes, **object_of(json_value(event.attributes.get("gen_ai.event.content")))}


def _objects(value: Any) -> list[dict[str, Any]]:
    items = json_value(value)
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _system(value: Any) -> list[SpanMessage]:
    decoded = json_value(value)
    if isinstance(decoded, str) and decoded.strip():
        return [SpanMessage("system", (Text(decoded),))]
    parts = [part for item in (decoded if isinstance(decoded, list) else ()) for part in _parts(item)]
    return [SpanMessage("system", tuple(parts))] if parts else []


# Messages


def _message_of(message: dict[str, Any]) -> Iterator[SpanMessage]:
    """Yield the span messages for a message, with each tool result as a separate message."""
    role, name = role_of(message.get("role") or "user"), str_at(message, "name")
    parts_data = message.get("parts")
    if not isinstance(parts_data, list):
        yield _older(role, name, message)
        return
    objects = [item for item in parts_data if isinstance(item, dict)]
    results = [item for item in objects if item.get("type") == "tool_call_response"]
    for item in results:
        response = item.get("response", item.get("result"))
        code = str_at(item, "agentnb.error_code")
        yield SpanMessage("tool", tuple(_response_parts(response)), name=name, call_id=str_at(item, "id"), error_code=code)
    calls = [_call(item) for item in objects if item.get("type") == "tool_call"]
    parts = [part for item in parts_data for part in _parts(item)]
    if parts or calls or not results:
        yield SpanMessage(role, tuple(parts), tuple(calls), name)


def _older(role: str, name: str, message: dict[str, Any]) -> SpanMessage:
    """Return a message that follows earlier conventions, based on OpenAI's API."""
    content = json_value(message.get("content"))
    body = content if isinstance(content, list) and all(isinstance(item, dict) for item in content) else message.get("content")
    parts = [
        part for part in parts_of(body if isinstance(body, str | list) else None) if not isinstance(part, Text) or part.text
    ]
    tool_calls = json_value(message.get("tool_calls"))
    calls = [_call(item) for item in tool_calls if isinstance(item, dict)] if isinstance(tool_calls, list) else []
    if isinstance(body, list):
        calls += [_call(item) for item in body if item.get("type") in ("tool_use", "tool_call")]
    call_id = message.get("tool_call_id") or (message.get("id") if role == "tool" else "")
    return SpanMessage(role, tuple(parts), tuple(calls), name, str(call_id or ""))


def _call(one: dict[str, Any]) -> ToolCall:
    function = one.get("function")
    fields = function if isinstance(function, dict) else one
    arguments = json_value(fields.get("arguments", fields.get("input")))
    kept = one.get(_METADATA)
    return ToolCall(str_at(fields, "name"), arguments, str_at(one, "id"), kept if isinstance(kept, dict) else None)


def _parts(one: Any) -> Iterator[AnyPart]:
    if isinstance(one, str):
        yield Text(one)
    if not isinstance(one, dict):
        return
    kind, content, kept = one.get("type"), one.get("content", one.get("text")), one.get(_METADATA)
    metadata = kept if isinstance(kept, dict) else None
    if kind in ("reasoning", "thinking"):
        yield Thinking(content if isinstance(content, str) else "", metadata)
    elif kind == "blob":
        image = (
            picture(one.get("mime_type"), content) if "image" in (one.get("modality"), str(one.get("mime_type"))[:5]) else None
        )
        yield image or Text(f"[{one.get('modality') or 'data'}: {one.get('mime_type')}]")
    elif kind in ("uri", "file"):
        yield Text(f"[{one.get('modality') or 'file'}: {str(one.get('uri') or one.get('file_id'))[:200]}]")
    elif kind not in ("tool_call", "tool_call_response") and isinstance(content, str) and (content or metadata):
        yield Text(content, metadata)


def _response_parts(response: Any) -> list[AnyPart]:
    """Return the content of a result: text, parts, or other data as JSON."""
    if response is None or isinstance(response, str):
        return parts_of(response)
    if isinstance(response, list) and all(isinstance(item, dict) and "type" in item for item in response):
        return [part for item in response for part in _parts(item)]
    return [Text(as_json(response))]


# Tools, agents, usage


def _tool_use(span: Span) -> ToolUse:
    name = first_at(span, "gen_ai.tool.name", "traceloop.entity.name") or span.name.removeprefix("execute_tool ")
    arguments = json_value(span.at("gen_ai.tool.call.arguments"))
    if arguments is None:
        arguments = _entity(span, "input", "inputs", "input_str")
    call = ToolCall(str(name), {} if arguments is None else arguments, str_at(span, "gen_ai.tool.call.id"))
    result = span.at("gen_ai.tool.call.result")
    if result is None:
        result = next((event.attributes.get("content") for event in span.events if event.name == "gen_ai.tool.message"), None)
    if result is None:
        result = _entity(span, "output", "output", "outputs")
    parts = _response_parts(json_value(result) if span.get("agentnb.result.parts") else result)
    code = span.get("agentnb.error_code") or (span.get("error.type") if span.failed else None)
    failed = span.failed or bool(code)
    return ToolUse(
        span, call, parts or [Text(span.message)] if failed else parts, str(code or "tool_error") if failed else None
    )


def _entity(span: Span, side: str, *names: str) -> Any:
    """Return the input or output of a tool, as OpenLLMetry recorded it."""
    recorded = json_value(span.get(f"traceloop.entity.{side}"))
    if isinstance(recorded, dict):
        return next((json_value(recorded[name]) for name in names if recorded.get(name)), recorded)
    return recorded


def _agent_use(span: Span) -> AgentUse:
    inputs = [message for item in list_at(span, "gen_ai.input.messages") for message in _message_of(item)] or [
        *_from_events(span)
    ]
    system = "".join(message.whole_text for message in _system(span.at("gen_ai.system_instructions")))
    name = first_at(span, "gen_ai.agent.name", "gen_ai.workflow.name", "traceloop.entity.name") or ""
    model = first_at(span, "agentnb.run.model", "gen_ai.request.model") or ""
    return AgentUse(inputs, _outputs(span)[0], str(name), str(model), system, tuple(_tools(span)))


def _tools(span: Span) -> Iterator[ToolSpec]:
    functions = span.at("llm.request.functions")
    for entry in [*list_at(span, "gen_ai.tool.definitions"), *(functions if isinstance(functions, list) else ())]:
        definition = entry.get("function", entry) if isinstance(entry, dict) else None
        if isinstance(definition, dict) and isinstance(definition.get("name"), str):
            parameters = json_value(definition.get("parameters", definition.get("input_schema")))
            description = str_at(definition, "description")
            yield ToolSpec(definition["name"], description, parameters if isinstance(parameters, dict) else {})


def _usage(span: Span) -> Usage:
    names: dict[str, Iterable[str]] = {
        "input": ("input_tokens", "prompt_tokens"),
        "output": ("output_tokens", "completion_tokens"),
        "cache_read": ("cache_read.input_tokens", "cache_read_input_tokens"),
        "cache_write": ("cache_write.input_tokens", "cache_creation.input_tokens", "cache_creation_input_tokens"),
        "reasoning": ("reasoning.output_tokens", "reasoning_tokens"),
    }
    candidates = {name: [count_of(span.get(f"gen_ai.usage.{key}")) for key in keys] for name, keys in names.items()}
    values = {name: next((count for count in counts if count is not None), None) for name, counts in candidates.items()}
    cost = cost_of(span.get("agentnb.usage.cost", span.get("gen_ai.usage.cost")))
    return Usage(**values, cost=cost, estimated=span.get("agentnb.usage.estimated") is True)


CONVENTION = Convention(NAME, _kind, _model_call, _tool_use, _agent_use)
