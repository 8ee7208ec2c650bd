"""Facts that span conventions have no place for, as ``agentnb.*`` attributes that all exports share."""

from __future__ import annotations

from typing import Any

import msgspec

from agentnb.core.log import events as e
from agentnb.core.log.wire import kind_of
from agentnb.core.messages import ToolCall, ToolResult
from agentnb.core.usage import Usage
from agentnb.detect.run import Run
from agentnb.interchange.exports.run_spans import Span, SpanEvent, event_data

PREFIX = "agentnb."
EVENT = "agentnb.event"
"""All fields of an event, as JSON."""


def json_text(value: Any) -> str:
    """Return plain data as JSON."""
    return msgspec.json.encode(value).decode()


def attributes_of(run: Run, span: Span) -> dict[str, Any]:
    """Return the ``agentnb.*`` attributes of a span, omitting empty ones."""
    facts = {"seq": span.seq, **span.facts, "times": span.times}
    if span.kind == "agent":
        facts |= _of_run(run)
    elif span.reply is not None:
        facts |= _of_reply(span.reply)
        facts["input.offset"] = span.offset
    elif span.called is not None:
        facts |= {"operation": span.called.operation, "event": json_text(event_data(span.called))}
    elif span.result is not None:
        facts |= {"error_code": span.result.error_code, "seconds": span.seconds}
    return {PREFIX + name: value for name, value in facts.items() if value not in (None, "", [], (), "{}")}


def call_of(run: Run, span: Span) -> tuple[ToolCall, ToolResult, str | None]:
    """Return the call of a tool's span, its result and the description of the tool."""
    call, result = span.call, span.result
    assert call is not None and result is not None
    return call, result, next((tool.description for tool in run.tools if tool.name == call.name), None) or None


def _of_run(run: Run) -> dict[str, Any]:
    origin = run.origin
    return {
        "run.id": run.id,
        "run.parent_id": run.parent_id,
        "run.kind": run.kind,
        "run.model": run.model,
        "run.status": run.status,
        "run.stop_reason": run.stop_reason,
        "run.tags": list(run.tags),
        "run.seconds": run.seconds if run.stop_reason or run.ended_at else None,
        "run.cost": run.cost,
        "run.own_cost": run.own_cost,
        "run.rounds": len(run.rounds),
        "run.settings": json_text(run.opening.settings),
        "run.continued_from": run.continued_from,
        "run.forked_from": json_text(run.forked_from) if run.forked_from else None,
        "run.history": run.inherited or None,
        "run.todos": json_text(run.opening.todos) if run.opening.todos else None,
        "run.origin": json_text(origin) if origin is not None else None,
    }


def _of_reply(reply: e.ModelReplied) -> dict[str, Any]:
    return {
        "seconds": reply.seconds,
        "signals": list(reply.signals),
        "metadata": json_text(reply.metadata),
        **usage_facts(reply.usage),
    }


def usage_facts(usage: Usage) -> dict[str, Any]:
    """Return the facts about usage that OpenTelemetry's conventions lack."""
    return {"usage.cost": usage.cost, "usage.estimated": usage.estimated or None}


def name_of(event: SpanEvent) -> str:
    """Return the name of a span event."""
    return PREFIX + kind_of(event.event)


def event_attributes(event: SpanEvent) -> dict[str, Any]:
    """Return the attributes of a span event: plain fields for reading, and the complete event as JSON for importing."""
    data = event_data(event.event)
    shown = data["guidance"] if isinstance(event.event, e.GuidanceGiven) else data
    plain = {PREFIX + name: value for name, value in shown.items() if isinstance(value, str | int | float) and value != ""}
    times = {} if event.event.at is not None else {PREFIX + "times": "unknown"}
    return {**plain, PREFIX + "seq": event.event.seq, **times, EVENT: json_text(data)}
