"""Assembles streamed responses into the response that the API would have sent without streaming."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

from agentnb.models.providers.serialization import known_fields

_ENDS = frozenset({"response.completed", "response.incomplete", "response.failed", "response.done"})


def response_of(text: str) -> dict[str, Any] | None:
    """Return the response in a stream of server-sent events, or None if the API is unknown."""
    events = [*events_of(text)]
    kinds = {event.get("type") for event in events}
    if any(isinstance(kind, str) and kind.startswith("response.") for kind in kinds):
        return _responses(events)
    if "message_start" in kinds or "content_block_start" in kinds:
        return _messages(events)
    if any("choices" in event for event in events):
        return _chat([event for event in events if "choices" in event])
    if any("candidates" in event for event in events):
        return _gemini(events)
    return next((event for event in events if event.get("error")), None)


def events_of(text: str) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects in the events, skipping other data, such as the end mark or a truncated event."""
    for block in text.replace("\r\n", "\n").split("\n\n"):
        data = "\n".join(line[5:].strip() for line in block.split("\n") if line.startswith("data:"))
        with suppress(ValueError, RecursionError):
            event = json.loads(data)
            if isinstance(event, dict):
                yield event


def _responses(events: list[dict[str, Any]]) -> dict[str, Any]:
    responses = [event["response"] for event in events if isinstance(event.get("response"), dict)]
    response = next((event["response"] for event in events if event.get("type") in _ENDS), responses[0] if responses else {})
    items = {
        event.get("output_index", 0): event["item"] for event in events if event.get("type") == "response.output_item.done"
    }
    output = response.get("output") or [items[index] for index in sorted(items)]
    error_event = next((event for event in events if event.get("type") == "error"), None)
    error = (
        {"error": {"message": error_event.get("message"), "code": error_event.get("code")}} if error_event is not None else {}
    )
    return {"object": "response", **response, "output": output, **error}


# Anthropic's


def _messages(events: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {"type": "message", "role": "assistant"}
    usage: dict[str, Any] = {}
    blocks: dict[int, dict[str, Any]] = {}
    inputs: dict[int, str] = {}
    for event in events:
        kind = event.get("type")
        if kind == "message_start":
            message |= event["message"]
            usage |= known_fields(message.get("usage"))
        elif kind == "content_block_start":
            blocks[event["index"]] = dict(event["content_block"])
        elif kind == "content_block_delta":
            _extend(blocks.setdefault(event["index"], {"type": "text", "text": ""}), inputs, event)
        elif kind == "message_delta":
            message |= known_fields(event.get("delta"))
            usage |= known_fields(event.get("usage"))
        elif kind == "error":
            message["error"] = event.get("error")
    for index, text in inputs.items():
        if text:
            blocks[index]["input"] = _read(text)
    return {**message, "content": [blocks[index] for index in sorted(blocks)], "usage": usage}


def _extend(block: dict[str, Any], inputs: dict[int, str], event: dict[str, Any]) -> None:
    delta, index = event["delta"], event["index"]
    kind = delta.get("type")
    if kind == "input_json_delta":
        inputs[index] = inputs.get(index, "") + delta["partial_json"]
    elif kind == "citations_delta":
        block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]
    else:
        field = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}.get(kind)
        if field is not None:
            block[field] = (block.get(field) or "") + delta[field]


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


# Chat completions


def _chat(events: list[dict[str, Any]]) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": None}
    calls: dict[Any, dict[str, Any]] = {}
    response: dict[str, Any] = {}
    finish = None
    for event in events:
        response |= {key: value for key, value in event.items() if value is not None and key not in ("choices", "object")}
        for choice in event["choices"]:
            if choice.get("index", 0) != 0:
                continue
            finish = choice.get("finish_reason") or finish
            delta = choice.get("delta") or {}
            for field, value in delta.items():
                if field == "tool_calls":
                    _extend_calls(calls, value or ())
                elif isinstance(value, str) and field != "role":
                    message[field] = (message.get(field) or "") + value
    if calls:
        message["tool_calls"] = [*calls.values()]
    return {**response, "object": "chat.completion", "choices": [{"index": 0, "message": message, "finish_reason": finish}]}


def _extend_calls(calls: dict[Any, dict[str, Any]], fragments: Any) -> None:
    for fragment in fragments:
        function = fragment.get("function") or {}
        index = fragment.get("index", fragment.get("id") or max(len(calls) - 1, 0))
        call = calls.setdefault(index, {"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
        call["id"] = call["id"] or fragment.get("id") or ""
        call["function"]["name"] = call["function"]["name"] or function.get("name") or ""
        call["function"]["arguments"] += function.get("arguments") or ""


# Google's


def _gemini(events: list[dict[str, Any]]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    response: dict[str, Any] = {}
    last: dict[str, Any] = {}
    for event in events:
        response |= event
        for candidate in (event.get("candidates") or ())[:1]:
            last |= candidate
            for part in (candidate.get("content") or {}).get("parts") or ():
                before = parts[-1] if parts else {}
                if "text" in part and "text" in before and part.get("thought") == before.get("thought"):
                    parts[-1] = {**before, "text": before["text"] + part["text"]}
                else:
                    parts.append(part)
    return {**response, "candidates": [{**last, "content": {"role": "model", "parts": parts}}]}
