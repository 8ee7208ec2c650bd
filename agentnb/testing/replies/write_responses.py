"""Replies of the Responses API."""

from __future__ import annotations

from itertools import groupby
from typing import Any, TypeAlias

from agentnb.core.messages import JsonObject, Text, Thinking, ToolCall
from agentnb.core.usage import Usage
from agentnb.testing.ids import make_seal
from agentnb.testing.replies.lines import Answer, arguments_text, fragments, words
from agentnb.testing.replies.reply_format import Asked, Sse
from agentnb.testing.replies.write_chat import AT

Events: TypeAlias = list[tuple[str, JsonObject]]
"""Kinds and fields of events."""
GOOD_ENDS = frozenset({"end_turn", "tool_use", "stop_sequence", "refusal"})
HOLOGRAM = {"type": "hologram", "id": "hg_1", "light": "green"}
"""An unknown item."""
INCOMPLETE = {"max_tokens": "max_output_tokens", "model_context_window_exceeded": "max_output_tokens"}


def whole(answer: Answer, asked: Asked) -> JsonObject:
    """Return the unstreamed reply."""
    return _final_response(_head(asked), answer, _items(answer, asked), asked)


def events(answer: Answer, asked: Asked) -> list[Sse]:
    """Return the reply as a stream, each event numbered."""
    head, items = _head(asked), _items(answer, asked)
    finished = _final_response(head, answer, items, asked)
    stream: Events
    stream = [("response.created", {"response": head}), ("response.in_progress", {"response": head})]
    for index, item in enumerate(items):
        stream += [(kind, {"output_index": index, **fields}) for kind, fields in _item_events(item)]
    stream.append((f"response.{finished['status']}", {"response": finished}))
    return add_numbers([Sse({"type": kind, **fields}, kind) for kind, fields in stream])


def add_numbers(made: list[Sse]) -> list[Sse]:
    """Return the events with their sequence numbers."""
    return [
        Sse({**event.data, "sequence_number": number} if isinstance(event.data, dict) else event.data, event.event)
        for number, event in enumerate(made)
    ]


def error_event(name: str, message: str, asked: Asked) -> Sse:
    """Return an error within a stream."""
    return Sse({"type": "error", "code": name, "message": message, "param": None, "sequence_number": 999}, "error")


def failed_event(name: str, message: str, asked: Asked) -> Sse:
    """Return the other kind of error within a stream: the complete response, marked as failed."""
    response = {**_head(asked), "status": "failed", "error": {"code": name, "message": message}}
    return Sse({"type": "response.failed", "response": response, "sequence_number": 999}, "response.failed")


def with_unknown(good: list[Sse]) -> list[Sse]:
    """Return the stream with unknown events and an unknown item added."""
    last = good[-1].data
    assert isinstance(last, dict)
    index, item = len(last["response"]["output"]), HOLOGRAM
    strange = [
        Sse({"type": "response.output_item.added", "output_index": index, "item": item}, "response.output_item.added"),
        Sse({"type": "response.hologram.delta", "output_index": index, "delta": "blue"}, "response.hologram.delta"),
        Sse({"type": "response.output_item.done", "output_index": index, "item": item}, "response.output_item.done"),
    ]
    end = Sse({**last, "response": unknown_whole(last["response"])}, good[-1].event)
    weather = Sse({"type": "response.weather_report", "sky": "clear"}, "response.weather_report")
    return add_numbers([*good[:2], weather, *good[2:-1], *strange, end])


def unknown_whole(good: JsonObject) -> JsonObject:
    """Return the reply with an unknown field and item added."""
    return {**good, "weather": "clear", "output": [*good["output"], HOLOGRAM]}


def _head(asked: Asked) -> JsonObject:
    return {
        "id": asked.ids.hexadecimal("resp_"),
        "object": "response",
        "created_at": AT,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "instructions": asked.body.get("instructions"),
        "model": asked.model,
        "output": [],
        "parallel_tool_calls": asked.body.get("parallel_tool_calls", True),
        "store": False,
        "tool_choice": asked.body.get("tool_choice", "auto"),
        "tools": asked.body.get("tools", []),
        "usage": None,
    }


def _final_response(head: JsonObject, answer: Answer, items: list[JsonObject], asked: Asked) -> JsonObject:
    response = {**head, "status": "completed", "output": items, "usage": _usage(asked.usage(answer))}
    if answer.reason not in GOOD_ENDS:
        response["status"] = "incomplete"
        response["incomplete_details"] = {"reason": INCOMPLETE.get(answer.reason, answer.reason)}
    return response


def _items(answer: Answer, asked: Asked) -> list[JsonObject]:
    """Return the items. Consecutive texts form one message; reasoning is sealed together with the item that follows it."""
    items: list[JsonObject] = []
    for kind, group in groupby(answer.pieces, type):
        if kind is Text:
            items.append(_message([part.text for part in group if isinstance(part, Text)], answer.reason == "refusal", asked))
            continue
        for part in group:
            if isinstance(part, ToolCall):
                items.append(_call(part, asked))
            elif isinstance(part, Thinking):
                items.append(_reasoning(part.text, asked))
    for item, following in zip(items, [*items[1:], None], strict=False):
        if item["type"] == "reasoning":
            item["encrypted_content"] = make_seal([item["id"], item["summary"], following and follower(following)])
            if following:
                asked.memory.thought_led_to(item["id"], following["id"])
    return items


def follower(item: JsonObject) -> list[Any]:
    """Return what identifies the item after reasoning, ignoring message ids, which need not be sent back."""
    return [item.get("type", "message"), item.get("call_id")]


def _message(texts: list[str], refused: bool, asked: Asked) -> JsonObject:
    parts: list[JsonObject] = [
        {"type": "refusal", "refusal": text}
        if refused
        else {"type": "output_text", "text": text, "annotations": [], "logprobs": []}
        for text in texts
    ]
    return {
        "id": asked.ids.hexadecimal("msg_"),
        "type": "message",
        "status": "completed",
        "role": "assistant",
        "content": parts,
    }


def _reasoning(text: str, asked: Asked) -> JsonObject:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"id": asked.ids.hexadecimal("rs_"), "type": "reasoning", "summary": summary, "encrypted_content": ""}


def _call(call: ToolCall, asked: Asked) -> JsonObject:
    return {
        "id": asked.ids.hexadecimal("fc_"),
        "type": "function_call",
        "status": "completed",
        "call_id": call.id or asked.ids.letters("call_", 24),
        "name": call.name,
        "arguments": arguments_text(call),
    }


def _item_events(item: JsonObject) -> Events:
    empty: dict[str, JsonObject] = {
        "message": {"content": []},
        "reasoning": {"summary": [], "encrypted_content": ""},
        "function_call": {"arguments": ""},
    }
    start = {**item, **empty[item["type"]]}
    if item["type"] != "reasoning":
        start["status"] = "in_progress"
    inner = {"message": _message_events, "reasoning": _reasoning_events, "function_call": _call_events}[item["type"]](item)
    inner_events = [(f"response.{kind}", {"item_id": item["id"], **fields}) for kind, fields in inner]
    return [("response.output_item.added", {"item": start}), *inner_events, ("response.output_item.done", {"item": item})]


def _message_events(item: JsonObject) -> Events:
    events: Events = []
    for index, part in enumerate(item["content"]):
        name, field = ("refusal", "refusal") if part["type"] == "refusal" else ("output_text", "text")
        at: JsonObject = {"content_index": index}
        extra: JsonObject = {} if name == "refusal" else {"logprobs": []}
        events.append(("content_part.added", {**at, "part": {**part, field: ""}}))
        events += [(f"{name}.delta", {**at, "delta": word, **extra}) for word in words(part[field])]
        events.append((f"{name}.done", {**at, field: part[field], **extra}))
        events.append(("content_part.done", {**at, "part": part}))
    return events


def _reasoning_events(item: JsonObject) -> Events:
    events: Events = []
    for index, part in enumerate(item["summary"]):
        at: JsonObject = {"summary_index": index}
        events.append(("reasoning_summary_part.added", {**at, "part": {**part, "text": ""}}))
        events += [("reasoning_summary_text.delta", {**at, "delta": word}) for word in words(part["text"])]
        events.append(("reasoning_summary_text.done", {**at, "text": part["text"]}))
        events.append(("reasoning_summary_part.done", {**at, "part": part}))
    return events


def _call_events(item: JsonObject) -> Events:
    events: Events = [("function_call_arguments.delta", {"delta": piece}) for piece in fragments(item["arguments"])]
    return [*events, ("function_call_arguments.done", {"arguments": item["arguments"], "name": item["name"]})]


def _usage(usage: Usage) -> JsonObject:
    sent, answered = usage.input or 0, usage.output or 0
    return {
        "input_tokens": sent,
        "input_tokens_details": {"cached_tokens": usage.cache_read or 0, "cache_write_tokens": usage.cache_write or 0},
        "output_tokens": answered,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning or 0},
        "total_tokens": sent + answered,
    }
