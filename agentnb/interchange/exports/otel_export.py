"""OpenTelemetry spans that follow its conventions for generative AI, in the OTLP file format: JSON Lines.

A line holds the spans of a run; findings of detectors or policies follow on the next line as log records. The OpenTelemetry
collector reads such files, and each line is a valid body for ``/v1/traces`` or ``/v1/logs``. The names follow version 0.1.0 of
the conventions, the first release of their own repository (open-telemetry/semantic-conventions-genai).
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from agentnb.core.log import events as e
from agentnb.core.messages import AnyPart, Image, Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.request import ToolSpec
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.interchange.exports.agentnb_facts import attributes_of, call_of, event_attributes, json_text, name_of
from agentnb.interchange.exports.run_spans import AGENT, Span, TraceIds, parent_span_id, span_id, spans_of

NAME = "otel"
TITLE = "spans of OpenTelemetry's GenAI conventions"
CONVENTIONS = "0.1.0"
"""Version of the conventions, the first release of open-telemetry/semantic-conventions-genai."""
SCHEMA_URL = f"https://opentelemetry.io/schemas/gen-ai/{CONVENTIONS}"
"""The version stated in every file, as a URL in the form used by the conventions' repository."""
METADATA = "agentnb.metadata"
"""The key of a message part that holds provider metadata."""
INTERNAL, CLIENT = 1, 3
"""Span kinds."""
_FAILED = {"code": 2}
_PROVIDERS = {
    "google": "gcp.gemini",
    "gemini": "gcp.gemini",
    "vertex": "gcp.vertex_ai",
    "bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "mistral": "mistral_ai",
    "xai": "x_ai",
    "moonshot": "moonshot_ai",
}
"""Provider names in the conventions, where they differ from ours."""
_OPERATIONS = {"model": "chat", "tool": "execute_tool", "plan": "plan"}
_SEVERITIES = {"notice": 9, "nudge": 9, "block": 13, "stop": 13}
"""Severity numbers of log records, for information and warnings."""


def pieces(runs: Iterable[Run]) -> Iterable[bytes]:
    """Yield the file, with one or two lines per run."""
    families = TraceIds(runs)
    for run in runs:
        spans = spans_of(run)
        trace_id = families.trace_id(run)
        scope = _scope(spans=[_span(run, span, trace_id) for span in spans])
        yield msgspec.json.encode({"resourceSpans": [_resource({"scopeSpans": [scope]})]})
        yield b"\n"
        records = [*_evaluations(run, spans, trace_id)]
        if records:
            yield msgspec.json.encode({"resourceLogs": [_resource({"scopeLogs": [_scope(logRecords=records)]})]})
            yield b"\n"


def _resource(rest: dict[str, Any]) -> dict[str, Any]:
    return {"resource": {"attributes": _key_values({"service.name": "agentnb"})}, **rest, "schemaUrl": SCHEMA_URL}


def _scope(**rest: Any) -> dict[str, Any]:
    return {"scope": {"name": "agentnb"}, **rest, "schemaUrl": SCHEMA_URL}


# Spans


def _span(run: Run, span: Span, trace_id: str) -> dict[str, Any]:
    attributes = {**_ATTRIBUTES[span.kind](run, span), **attributes_of(run, span)}
    operation = _operation(run, span)
    attributes["gen_ai.operation.name"] = operation
    status: dict[str, Any] = {}
    if span.error is not None:
        attributes["error.type"] = span.error.type or "_OTHER"
        status = {**_FAILED, "message": span.error.message}
    return {
        "traceId": trace_id,
        "spanId": span_id(run.id, span.key),
        "parentSpanId": parent_span_id(run, span),
        "name": f"{operation} {_model_name(span.name) if span.kind == 'model' else span.name}".rstrip(),
        "kind": CLIENT if span.kind == "model" else INTERNAL,
        "startTimeUnixNano": str(span.start),
        "endTimeUnixNano": str(span.end),
        "attributes": _key_values(attributes),
        "events": [
            {"timeUnixNano": str(event.at), "name": name_of(event), "attributes": _key_values(event_attributes(event))}
            for event in span.events
        ],
        "status": status,
    }


def _operation(run: Run, span: Span) -> str:
    if span.kind == "agent":
        return "invoke_workflow" if run.kind == "workflow" else "invoke_agent"
    return _OPERATIONS[span.kind]


def _of_agent(run: Run, span: Span) -> dict[str, Any]:
    answer = Message("assistant", (Text(run.text),))
    return {
        **_model_of(run.model),
        "gen_ai.agent.name": run.agent,
        "gen_ai.conversation.id": run.conversation,
        "gen_ai.system_instructions": json_text([{"type": "text", "content": run.system}]) if run.system else None,
        "gen_ai.input.messages": json_text([_message(item) for item in span.inputs]),
        "gen_ai.output.messages": json_text([_message(answer)]) if run.text else None,
        "gen_ai.tool.definitions": json_text([_tool(item) for item in run.tools]) if run.tools else None,
        **_usage(run.own_usage),  # nested runs have spans of their own
    }


def _of_model(run: Run, span: Span) -> dict[str, Any]:
    if span.called is not None:
        return {**_model_of(span.name), **_usage(span.called.usage)}
    attributes: dict[str, Any] = {**_model_of(span.name), "gen_ai.conversation.id": run.conversation}
    attributes["gen_ai.conversation.compacted"] = span.is_compacted or None  # the conventions only define true
    attributes["gen_ai.input.messages"] = json_text([_message(message) for message in span.inputs])
    if span.reply is None:
        return attributes
    stop = span.reply.stop_reason
    output = {**_message(span.reply.message), "finish_reason": stop}
    response = {name: span.reply.metadata.get(name) for name in ("id", "model")}
    return {
        **attributes,
        "gen_ai.output.messages": json_text([output]),
        "gen_ai.response.finish_reasons": [stop] if stop else None,
        **{f"gen_ai.response.{name}": value for name, value in response.items() if isinstance(value, str)},
        **_usage(span.reply.usage),
    }


def _of_tool(run: Run, span: Span) -> dict[str, Any]:
    call, result, description = call_of(run, span)
    response = _response(result)
    is_text = isinstance(response, str)
    return {
        "gen_ai.tool.name": call.name,
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": call.id,
        "gen_ai.tool.description": description,
        "gen_ai.tool.call.arguments": json_text(call.arguments),
        "gen_ai.tool.call.result": response if is_text else json_text(response),
        "agentnb.result.parts": None if is_text else True,
        "gen_ai.agent.name": run.agent,
    }


def _of_plan(run: Run, span: Span) -> dict[str, Any]:
    return {"gen_ai.agent.name": run.agent}


_ATTRIBUTES = {"agent": _of_agent, "model": _of_model, "tool": _of_tool, "plan": _of_plan}


def _model_of(model: str) -> dict[str, Any]:
    provider, colon, _ = model.partition(":")
    provider_name = _PROVIDERS.get(provider, provider) if colon else "_OTHER"
    return {"gen_ai.provider.name": provider_name, "gen_ai.request.model": _model_name(model)}


def _model_name(model: str) -> str:
    return model.partition(":")[2] or model


def _usage(usage: Usage) -> dict[str, Any]:
    return {
        "gen_ai.usage.input_tokens": usage.input,
        "gen_ai.usage.output_tokens": usage.output,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read,
        "gen_ai.usage.cache_write.input_tokens": usage.cache_write,
        "gen_ai.usage.reasoning.output_tokens": usage.reasoning,
    }


def _tool(tool: ToolSpec) -> dict[str, Any]:
    return {"type": "function", "name": tool.name, "description": tool.description, "parameters": tool.input_schema}


# Messages


def _message(message: Message) -> dict[str, Any]:
    converted: dict[str, Any] = {"role": message.role, "parts": [_part(part) for part in message.parts]}
    return {**converted, "name": message.author} if message.author else converted


def _part(part: AnyPart) -> dict[str, Any]:
    if isinstance(part, Image):
        data = base64.b64encode(part.data).decode()
        return {"type": "blob", "modality": "image", "mime_type": part.media_type, "content": data}
    if isinstance(part, ToolResult):
        error_fields = {"agentnb.error_code": part.error_code or "tool_error"} if part.is_error else {}
        return {"type": "tool_call_response", "id": part.call_id, "response": _response(part), **error_fields}
    if isinstance(part, ToolCall):
        converted: dict[str, Any] = {"type": "tool_call", "id": part.id, "name": part.name, "arguments": part.arguments}
    else:
        converted = {"type": "reasoning" if isinstance(part, Thinking) else "text", "content": part.text}
    return {**converted, METADATA: part.provider_metadata} if part.provider_metadata else converted


def _response(result: ToolResult) -> Any:
    """Return the content of a result: plain text if it is a single text, otherwise its parts."""
    if len(result.parts) == 1 and isinstance(result.parts[0], Text):
        return result.parts[0].text
    return [_part(part) for part in result.parts]


# Findings


def _evaluations(run: Run, spans: list[Span], trace_id: str) -> Iterator[dict[str, Any]]:
    """Yield a log record for each finding, attached to the span of its last model call."""
    keys = {span.key for span in spans}
    for span_event in spans[0].events:
        event = span_event.event
        if not isinstance(event, e.Found):
            continue
        key = f"round-{event.last}"
        attributes = {
            "gen_ai.evaluation.name": event.rule,
            "gen_ai.evaluation.score.label": event.severity,
            "gen_ai.evaluation.explanation": event.sentence,
            "agentnb.first_round": event.first + 1,
            "agentnb.last_round": event.last + 1,
            "agentnb.run.id": run.id,
        }
        yield {
            "timeUnixNano": str(span_event.at),
            "severityNumber": _SEVERITIES.get(event.severity, 9),
            "eventName": "gen_ai.evaluation.result",
            "attributes": _key_values(attributes),
            "traceId": trace_id,
            "spanId": span_id(run.id, key if key in keys else AGENT),
        }


# OTLP


def _key_values(attributes: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _value(value)} for name, value in attributes.items() if value is not None]


def _value(value: Any) -> dict[str, Any]:
    """Return a value in the JSON form of OTLP, where integers are strings."""
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {"stringValue": str(value)}
