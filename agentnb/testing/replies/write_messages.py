"""Replies of the Messages API."""

from __future__ import annotations

from typing import Any

from agentnb.core.messages import JsonObject, Text, Thinking, ToolCall
from agentnb.core.usage import Usage
from agentnb.testing.ids import Ids, make_seal
from agentnb.testing.replies.lines import Answer, AnswerPart, Opaque, arguments_text, fragments, words
from agentnb.testing.replies.reply_format import Asked, Sse

NAMES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
"""Error names by HTTP status."""
HOLOGRAM = {"type": "hologram", "light": "green"}
DARK_HOLOGRAM = {"type": "hologram", "light": ""}
"""An unknown block, as it begins in a stream."""
REASONS = {"content_filter": "refusal"}


def whole(answer: Answer, asked: Asked) -> JsonObject:
    """Return the unstreamed reply."""
    blocks = _blocks(answer, asked)
    return {**_head(asked), "content": blocks, **_end(answer), "usage": _usage(asked.usage(answer))}


def events(answer: Answer, asked: Asked) -> list[Sse]:
    """Return the reply as a stream, including pings."""
    usage = _usage(asked.usage(answer))
    start = {**_head(asked), "content": [], "stop_reason": None, "stop_sequence": None, "usage": {**usage, "output_tokens": 1}}
    stream = [_event("message_start", message=start)]
    for index, (part, block) in enumerate(zip(answer.pieces, _blocks(answer, asked), strict=True)):
        stream.append(_event("content_block_start", index=index, content_block=_empty(part, block)))
        if index == 0:
            stream.append(_event("ping"))
        stream += [_event("content_block_delta", index=index, delta=delta) for delta in _deltas(part, block)]
        stream.append(_event("content_block_stop", index=index))
    stream.append(_event("message_delta", delta=_end(answer), usage=usage))
    return [*stream, _event("message_stop")]


def error(status: int, name: str | None, message: str) -> JsonObject:
    """Return the body of an error."""
    usual = NAMES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": name or usual, "message": message}, "request_id": None}


def error_event(name: str, message: str, asked: Asked) -> Sse:
    """Return an error within a stream."""
    return _event("error", error={"type": name, "message": message}, request_id=asked.ids.letters("req_011", 21))


def with_unknown(good: list[Sse]) -> list[Sse]:
    """Return the stream with an unknown event, an unknown block and unknown kinds of deltas added."""
    blocks = sum(event.event == "content_block_start" for event in good)
    strange = [
        _event("content_block_start", index=blocks, content_block=DARK_HOLOGRAM),
        _event("content_block_delta", index=blocks, delta={"type": "hologram_delta", "light": "green"}),
        _event("content_block_stop", index=blocks),
    ]
    stream = [good[0], _event("weather_report", sky="clear")]
    for event in good[1:]:
        if event.event == "message_delta":
            stream += strange
        stream.append(event)
        if event.event == "content_block_start" and isinstance(event.data, dict):
            stream.append(
                _event("content_block_delta", index=event.data["index"], delta={"type": "mood_delta", "mood": "calm"})
            )
    return stream


def unknown_whole(good: JsonObject) -> JsonObject:
    """Return the reply with an unknown field and block added."""
    return {**good, "weather": "clear", "content": [*good["content"], HOLOGRAM]}


def _event(kind: str, **fields: Any) -> Sse:
    return Sse({"type": kind, **fields}, kind)


def _head(asked: Asked) -> JsonObject:
    return {"id": asked.ids.letters("msg_01", 22), "type": "message", "role": "assistant", "model": asked.model}


def _end(answer: Answer) -> JsonObject:
    reason = REASONS.get(answer.reason, answer.reason)
    details = {"type": "refusal", "category": None, "explanation": None} if reason == "refusal" else None
    return {"stop_reason": reason, "stop_sequence": None, "stop_details": details}


def _blocks(answer: Answer, asked: Asked) -> list[JsonObject]:
    blocks = [_block(part, asked.ids) for part in answer.pieces]
    for part in answer.of(Opaque):
        asked.memory.sent_block(part.block)
    if answer.reason == "pause_turn":
        asked.memory.record_pause(blocks)
    return blocks


def _block(part: AnswerPart, ids: Ids) -> JsonObject:
    if isinstance(part, Text):
        return {"type": "text", "text": part.text, "citations": None}
    if isinstance(part, Thinking):
        signature = make_seal([ids.letters("", 12), part.text])
        return {"type": "thinking", "thinking": part.text, "signature": signature}
    if isinstance(part, ToolCall):
        return {"type": "tool_use", "id": part.id or ids.letters("toolu_01", 22), "name": part.name, "input": part.arguments}
    return part.block


def _empty(part: AnswerPart, block: JsonObject) -> JsonObject:
    """Return the initial block, before its deltas."""
    empty: dict[type[Any], JsonObject] = {
        Text: {"text": ""},
        Thinking: {"thinking": "", "signature": ""},
        ToolCall: {"input": {}},
    }
    return {**block, **empty.get(type(part), {})}


def _deltas(part: AnswerPart, block: JsonObject) -> list[JsonObject]:
    if isinstance(part, Text):
        return [{"type": "text_delta", "text": word} for word in words(part.text)]
    if isinstance(part, Thinking):
        thinking = [{"type": "thinking_delta", "thinking": word} for word in words(part.text)]
        return [*thinking, {"type": "signature_delta", "signature": block["signature"]}]
    if isinstance(part, ToolCall):
        return [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *fragments(arguments_text(part))]]
    return []


def _usage(usage: Usage) -> JsonObject:
    read, written = usage.cache_read or 0, usage.cache_write or 0
    return {
        "input_tokens": (usage.input or 0) - read - written,
        "cache_creation_input_tokens": written,
        "cache_read_input_tokens": read,
        "output_tokens": usage.output or 0,
        "output_tokens_details": {"thinking_tokens": usage.reasoning or 0},
        "service_tier": "standard",
    }
