"""OpenInference spans, as Phoenix exports and imports them: a JSON list with flattened attributes.

The names follow openinference-semantic-conventions 0.1.42.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from agentnb.core.messages import AnyPart, Image, Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.request import ToolSpec
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.interchange.exports.agentnb_facts import attributes_of, call_of, event_attributes, json_text, name_of
from agentnb.interchange.exports.run_spans import Span, TraceIds, parent_span_id, span_id, spans_of
from agentnb.models.providers.serialization import data_url

NAME = "openinference"
TITLE = "spans of OpenInference"
CONVENTIONS = "0.1.42"
"""Version of openinference-semantic-conventions that the names follow."""
SCOPE = {"openinference.semconv.version": CONVENTIONS}
_KINDS = {"agent": "AGENT", "model": "LLM", "tool": "TOOL", "plan": "CHAIN"}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PLAIN, _JSON = "text/plain", "application/json"


def pieces(runs: Iterable[Run]) -> Iterable[bytes]:
    """Yield the file, a list with one span per line."""
    families = TraceIds(runs)
    before = b"[\n"
    for run in runs:
        trace_id = families.trace_id(run)
        for span in spans_of(run):
            yield before + msgspec.json.encode(_span(run, span, trace_id))
            before = b",\n"
    yield b"\n]\n" if before != b"[\n" else b"[]\n"


def _span(run: Run, span: Span, trace_id: str) -> dict[str, Any]:
    kind = _KINDS[span.kind]
    attributes = {"openinference.span.kind": kind, **SCOPE, **_ATTRIBUTES[span.kind](run, span), **attributes_of(run, span)}
    if span.error is not None:
        attributes["agentnb.error.type"] = span.error.type
    return {
        "name": f"{span.kind} {span.name}".rstrip(),
        "context": {"trace_id": trace_id, "span_id": span_id(run.id, span.key)},
        "span_kind": kind,
        "parent_id": parent_span_id(run, span) or None,
        "start_time": _time(span.start),
        "end_time": _time(span.end),
        "status_code": "OK" if span.error is None else "ERROR",
        "status_message": "" if span.error is None else span.error.message,
        "attributes": {name: value for name, value in attributes.items() if value is not None},
        "events": [
            {"name": name_of(event), "timestamp": _time(event.at), "attributes": event_attributes(event)}
            for event in span.events
        ],
    }


def _time(nanoseconds: int) -> str:
    return (_EPOCH + timedelta(microseconds=nanoseconds // 1000)).isoformat()


def _of_agent(run: Run, span: Span) -> dict[str, Any]:
    return {
        "agent.name": run.agent,
        "session.id": run.conversation,
        "input.value": None if run.messages[run.inherited].is_placeholder else run.prompt,
        "input.mime_type": _PLAIN,
        "output.value": run.text or None,
        "output.mime_type": _PLAIN if run.text else None,
        "tag.tags": list(run.tags) or None,
        **_messages("llm.input_messages", span.inputs),
        **_tools(run.tools),
        **({"agentnb.run.system": run.system} if run.system else {}),
    }


def _of_model(run: Run, span: Span) -> dict[str, Any]:
    provider, colon, name = span.name.partition(":")
    attributes: dict[str, Any] = {"llm.model_name": name or span.name, "session.id": run.conversation}
    if colon:
        attributes["llm.provider"] = provider
    if span.called is not None:
        return {**attributes, **_usage(span.called.usage)}
    system = [Message("system", (Text(run.system),))] if run.system and not span.offset else []
    attributes |= _messages("llm.input_messages", [*system, *span.inputs])
    if span.reply is None:
        return {**attributes, **_tools(run.tools)}
    text = span.reply.message.text
    return {
        **attributes,
        **_messages("llm.output_messages", [span.reply.message]),
        "output.value": text or None,
        "output.mime_type": _PLAIN if text else None,
        "llm.finish_reason": span.reply.stop_reason or None,
        **_usage(span.reply.usage),
        **_tools(run.tools),
    }


def _of_tool(run: Run, span: Span) -> dict[str, Any]:
    call, result, description = call_of(run, span)
    images = [part for part in result.parts if isinstance(part, Image)]
    return {
        "tool.name": call.name,
        "tool.id": call.id,
        "tool.description": description,
        "tool.parameters": json_text(call.arguments),
        "input.value": json_text(call.arguments),
        "input.mime_type": _JSON,
        "output.value": result.text,
        "output.mime_type": _PLAIN,
        **{f"output.images.{n}.image.url": data_url(image) for n, image in enumerate(images)},
    }


def _of_plan(run: Run, span: Span) -> dict[str, Any]:
    return {"agent.name": run.agent}


_ATTRIBUTES = {"agent": _of_agent, "model": _of_model, "tool": _of_tool, "plan": _of_plan}


def _tools(tools: Iterable[ToolSpec]) -> dict[str, Any]:
    attributes = {}
    for number, tool in enumerate(tools):
        function = {"name": tool.name, "description": tool.description, "parameters": tool.input_schema}
        attributes[f"llm.tools.{number}.tool.json_schema"] = json_text({"type": "function", "function": function})
    return attributes


def _usage(usage: Usage) -> dict[str, Any]:
    has_both = usage.input is not None and usage.output is not None
    return {
        "llm.token_count.prompt": usage.input,
        "llm.token_count.completion": usage.output,
        "llm.token_count.total": (usage.input or 0) + (usage.output or 0) if has_both else None,
        "llm.token_count.prompt_details.cache_read": usage.cache_read,
        "llm.token_count.prompt_details.cache_write": usage.cache_write,
        "llm.token_count.completion_details.reasoning": usage.reasoning,
        "llm.cost.total": usage.cost,
    }


# Messages


def _messages(name: str, messages: Iterable[Message]) -> dict[str, Any]:
    """Return the attributes of messages, with each tool result as a separate message."""
    singles = [single for message in messages for single in _split(message)]
    return {
        f"{name}.{number}.message.{key}": value
        for number, message in enumerate(singles)
        for key, value in _message(message).items()
    }


def _split(message: Message) -> list[Message]:
    return [Message("tool", (part,)) for part in message.parts] if message.role == "tool" else [message]


def _message(message: Message) -> dict[str, Any]:
    attributes: dict[str, Any] = {"role": message.role}
    if message.role == "tool":
        result = message.parts[0]
        assert isinstance(result, ToolResult)
        attributes |= {"tool_call_id": result.call_id, "name": result.name}
        return attributes | _content(result.parts)
    if message.author:
        attributes["name"] = message.author
    attributes |= _content([part for part in message.parts if not isinstance(part, ToolCall)])
    for number, call in enumerate(message.calls):
        arguments = call.arguments if isinstance(call.arguments, str) else json_text(call.arguments)
        fields = {"id": call.id, "function.name": call.name, "function.arguments": arguments}
        attributes |= {f"tool_calls.{number}.tool_call.{key}": value for key, value in fields.items()}
    return attributes


def _content(parts: Sequence[AnyPart]) -> dict[str, Any]:
    """Return the content of a message: plain text if it is a single text, otherwise a list of contents."""
    if len(parts) == 1 and isinstance(parts[0], Text):
        return {"content": parts[0].text}
    return {
        f"contents.{number}.message_content.{key}": value
        for number, part in enumerate(parts)
        for key, value in _part(part).items()
    }


def _part(part: AnyPart) -> dict[str, Any]:
    if isinstance(part, Image):
        return {"type": "image", "image.image.url": data_url(part)}
    if not isinstance(part, Text | Thinking):
        return {"type": "text", "text": ""}
    attributes = {"type": "reasoning" if isinstance(part, Thinking) else "text", "text": part.text}
    return {**attributes, "agentnb.metadata": json_text(part.provider_metadata)} if part.provider_metadata else attributes
