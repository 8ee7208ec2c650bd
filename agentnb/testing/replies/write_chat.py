"""Replies of the Chat Completions API."""

from __future__ import annotations

from itertools import zip_longest

from agentnb.core.messages import JsonObject, Thinking, ToolCall
from agentnb.core.usage import Usage
from agentnb.testing.replies.lines import Answer, arguments_text, fragments, words
from agentnb.testing.replies.reply_format import SIGNED, Asked, Sse

AT = 1_795_000_000
"""Fixed creation time for all replies."""
REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "refusal": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tool_calls",
}
CODES = {401: "invalid_api_key", 404: "model_not_found", 429: "rate_limit_exceeded"}
TYPES = {429: "requests", 403: "permission_error"}


def whole(answer: Answer, asked: Asked) -> JsonObject:
    """Return the unstreamed reply."""
    calls = [_call(call, asked) for call in answer.of(ToolCall)]
    refused = answer.reason == "refusal"
    message: JsonObject = {"role": "assistant", "content": None if refused or (calls and not answer.text) else answer.text}
    message |= {"refusal": answer.text if refused else None, "annotations": []}
    if calls:
        message["tool_calls"] = calls
    for piece in reversed(_thinking([_thought(answer)], asked)):
        message |= {"content": f"{piece['content']}{message['content'] or ''}"} if "content" in piece else piece
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _reason(answer)}
    _remember(answer, calls, asked)
    return {**_head(asked, "chat.completion"), "choices": [choice], "usage": _usage(asked, asked.usage(answer))}


def events(answer: Answer, asked: Asked) -> list[Sse]:
    """Return the reply as a stream, with the fragments of parallel calls interleaved."""
    refused = answer.reason == "refusal"
    deltas: list[JsonObject] = [{"role": "assistant", "content": None if answer.of(ToolCall) else "", "refusal": None}]
    deltas += _thinking(words(_thought(answer)), asked)
    deltas += [{"refusal" if refused else "content": word} for word in words(answer.text)]
    deltas += [{"tool_calls": pieces} for pieces in _call_pieces(answer, asked)]
    return in_chunks(deltas, _reason(answer), _usage(asked, asked.usage(answer)), asked)


def in_chunks(deltas: list[JsonObject], reason: str, usage: JsonObject | None, asked: Asked) -> list[Sse]:
    """Return these deltas as chunks, followed by the end of a stream. Includes the usage only if requested."""
    head, usage_place = _head(asked, "chat.completion.chunk"), asked.like.traits.get("usage", "alone")
    wants_usage = (asked.body.get("stream_options") or {}).get("include_usage") is True and usage is not None
    if wants_usage and usage_place == "alone":
        head["usage"] = None
    chunks = [{**head, "choices": [_choice(delta, None)]} for delta in deltas]
    last, end = _choice({}, reason), {**head}
    if usage is not None and usage_place != "alone":
        at = {"last": end, "choice": last, "x_groq": end.setdefault("x_groq", {}) if usage_place == "x_groq" else {}}[
            usage_place
        ]
        at["usage"] = usage
    chunks.append({**end, "choices": [last]})
    if wants_usage and usage_place == "alone":
        chunks.append({**head, "choices": [], "usage": usage})
    return [*(Sse(chunk) for chunk in chunks), Sse("[DONE]")]


def sloppy_events(answer: Answer, asked: Asked, index: int | None, ids: bool) -> list[Sse]:
    """Return the stream of a careless server: each call complete in one chunk, no usage, and the stop reason ``stop``."""
    deltas: list[JsonObject] = [{"reasoning": word} for word in words(_thought(answer))]
    deltas += [{"content": word} for word in words(answer.text)]
    deltas += [{"tool_calls": [_sloppy_call(call, asked, index, ids)]} for call in answer.of(ToolCall)]
    return in_chunks(deltas, "stop", None, asked)


def sloppy_whole(answer: Answer, asked: Asked, index: int | None, ids: bool) -> JsonObject:
    """Return the unstreamed reply of a careless server."""
    message: JsonObject = {"role": "assistant", "content": answer.text}
    if thought := _thought(answer):
        message["reasoning"] = thought
    if calls := answer.of(ToolCall):
        message["tool_calls"] = [_sloppy_call(call, asked, index, ids) for call in calls]
    return {**_head(asked, "chat.completion"), "choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}


def error(status: int, name: str | None, message: str) -> JsonObject:
    """Return the body of an error, for this API and the Responses API."""
    usual = TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    kind = name if name and name.endswith("_error") else usual
    if name in ("insufficient_quota", "tokens"):
        kind = name
    code = CODES.get(status) if name is None else None if name.endswith("_error") else name
    return {"error": {"message": message, "type": kind, "param": None, "code": code}}


def error_event(name: str, message: str, asked: Asked) -> Sse:
    """Return an error within a stream."""
    return Sse({"error": {"message": message, "type": name, "param": None, "code": None}})


def with_unknown(good: list[Sse]) -> list[Sse]:
    """Return the stream with an unknown chunk, unknown fields and an unknown kind of event added."""
    strange = [Sse({"type": "weather_report", "sky": "clear", "choices": []}, "weather")]
    for event in good:
        if not isinstance(event.data, dict):
            strange.append(event)
            continue
        choices = [{**choice, "delta": {**choice["delta"], "mood": "calm"}} for choice in event.data["choices"]]
        strange.append(Sse({**event.data, "weather": "clear", "choices": choices}))
    return strange


def unknown_whole(good: JsonObject) -> JsonObject:
    """Return the reply with unknown fields added."""
    choices = [{**choice, "mood": "calm", "message": {**choice["message"], "light": "green"}} for choice in good["choices"]]
    return {**good, "weather": "clear", "choices": choices}


def _head(asked: Asked, kind: str) -> JsonObject:
    return {"id": asked.ids.letters("chatcmpl-", 29), "object": kind, "created": AT, "model": asked.model}


def _choice(delta: JsonObject, reason: str | None) -> JsonObject:
    return {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}


def _reason(answer: Answer) -> str:
    return REASONS.get(answer.reason, answer.reason)


def _thought(answer: Answer) -> str:
    return "".join(part.text for part in answer.of(Thinking))


def _thinking(pieces: list[str], asked: Asked) -> list[JsonObject]:
    """Return the thinking, in the field that the server uses for it."""
    field, tagged = asked.like.traits.get("returns") or "reasoning_content", asked.like.traits.get("think_tags")
    pieces = [piece for piece in pieces if piece]
    if tagged and pieces:
        return [{"content": piece} for piece in ("<think>\n", *pieces, "\n</think>\n\n")]
    if field != "reasoning_details":
        return [{field: piece} for piece in pieces]
    return [
        {"reasoning": piece, field: [{"type": "reasoning.text", "text": piece, "format": "unknown", "index": 0}]}
        for piece in pieces
    ]


def _remember(answer: Answer, calls: list[JsonObject], asked: Asked) -> None:
    """Record the calls sent together with thinking or a signature, which the server expects back."""
    wanted = asked.like.traits.get("returns", "") if _thought(answer) else ""
    for call in calls:
        asked.memory.thought_led_to("signature" if SIGNED in call else wanted, call["id"])


def _call(call: ToolCall, asked: Asked) -> JsonObject:
    function = {"name": call.name, "arguments": arguments_text(call)}
    short = asked.like.traits.get("short_ids")
    new_id = asked.ids.letters("", 9) if short else asked.ids.letters("call_", 24)
    signed = {SIGNED: {"google": {"thought_signature": asked.ids.letters("", 20)}}} if asked.like.traits.get("signs") else {}
    return {"id": call.id or new_id, "type": "function", "function": function, **signed}


def _call_pieces(answer: Answer, asked: Asked) -> list[list[JsonObject]]:
    calls = [_call(call, asked) for call in answer.of(ToolCall)]
    _remember(answer, calls, asked)
    heads = [[{"index": index, **call, "function": {**call["function"], "arguments": ""}}] for index, call in enumerate(calls)]
    rows = zip_longest(*(fragments(call["function"]["arguments"]) for call in calls))
    tails = [
        [{"index": index, "function": {"arguments": piece}}]
        for row in rows
        for index, piece in enumerate(row)
        if piece is not None
    ]
    return heads + tails


def _sloppy_call(call: ToolCall, asked: Asked, index: int | None, ids: bool) -> JsonObject:
    call_fields: JsonObject = {} if index is None else {"index": index}
    if ids:
        call_fields["id"] = call.id or asked.ids.letters("call_", 24)
    return {**call_fields, "function": {"name": call.name, "arguments": arguments_text(call)}}


def _usage(asked: Asked, usage: Usage) -> JsonObject:
    sent, answered = usage.input or 0, usage.output or 0
    counts: JsonObject = {"prompt_tokens": sent, "completion_tokens": answered, "total_tokens": sent + answered}
    if asked.like.minimal:
        return counts
    counts["prompt_tokens_details"] = {"cached_tokens": usage.cache_read or 0, "cache_write_tokens": usage.cache_write or 0}
    return {**counts, "completion_tokens_details": {"reasoning_tokens": usage.reasoning or 0}}
