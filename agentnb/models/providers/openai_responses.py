"""``openai-responses:``, the Responses API, used so that the server stores nothing: each request is self-contained."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

from agentnb.core.log.events import ReplyDelta, TextDelta, ThinkingDelta
from agentnb.core.messages import AnyPart, Image, JsonObject, Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.request import Request
from agentnb.models.model import Reply
from agentnb.models.options import Options
from agentnb.models.provider import COMMON_OPTIONS, PART, CutOff, Provider, Refused, sealed_length
from agentnb.models.providers.chat_chunks import read_usage
from agentnb.models.providers.openai import OWN_URL, OpenAISdk, takes_schema
from agentnb.models.providers.serialization import (
    ARGUMENTS_MENDED,
    WITHOUT_RESULT,
    arguments_of,
    call_of,
    data_url,
    encode,
    encode_all_messages,
    fields_before,
    in_words,
    join_fragments,
    known_fields,
    object_of,
    parameters,
    replacement_text,
    safe_id,
    safe_name,
    sanitize_reply,
    without_half_call,
    without_last_thoughts,
    words,
)
from agentnb.models.transport.failure import read_error

NAME = "openai-responses"
TEXT_DELTAS = frozenset({"response.output_text.delta", "response.refusal.delta"})
THINKING_DELTAS = frozenset({"response.reasoning_summary_text.delta", "response.reasoning_text.delta"})
ENDS = frozenset({"response.completed", "response.incomplete"})
BETWEEN_THOUGHTS = "\n\n"
"""Separator to put between the parts of a summary; the API sends none."""


# The request


def body(model: str, request: Request, options: Options) -> bytes:
    """Return the request as JSON. In a conversation, each message and the fields before the messages are encoded once."""
    start = fields_before(NAME, _head, model, request, options)
    sees = options.images is not False
    fragments = encode_all_messages(request.messages, (NAME, sees), partial(_fragment, sees=sees))
    return b'%b,"input":[%b]}' % (start, join_fragments(fragments))


def _head(model: str, request: Request, options: Options) -> bytes:
    fields: JsonObject = {"model": model, "store": False}
    if options.stream:
        fields["stream"] = True
    if request.system:
        fields["instructions"] = request.system
    if request.tools:
        fields["tools"] = [
            {
                "type": "function",
                "name": tool.name,
                "description": tool.description,
                "parameters": parameters(tool),
                "strict": False,
            }
            for tool in request.tools
        ]
        choice = request.settings.get("tool_choice")
        if choice is not None:
            is_mode = choice in ("auto", "none", "required")
            fields["tool_choice"] = choice if is_mode else {"type": "function", "name": choice}
        if options.parallel is not None:
            fields["parallel_tool_calls"] = options.parallel
    if options.thinking != "off":
        # Without it, a model would start its thinking over in each round.
        fields["include"] = ["reasoning.encrypted_content"]
    most, schema = request.settings.get("max_tokens") or options.max_tokens, options.output_schema
    optional = {
        "max_output_tokens": most,
        "temperature": options.temperature,
        "reasoning": _reasoning(options) or None,
        "text": None if schema is None else {"format": {"type": "json_schema", "name": "answer", "schema": schema}},
    }
    return encode(fields | known_fields(optional))


def _reasoning(options: Options) -> dict[str, str]:
    effort = {"effort": options.effort} if options.effort is not None else {}
    return {**effort, "summary": "auto"} if options.thinking == "adaptive" else effort


def _fragment(message: Message, *, sees: bool) -> bytes:
    """Return the message as input items of the API, comma-separated; empty if none of it is sent."""
    if message.role == "assistant":
        said_items = [item for item in map(_said_item, message.parts) if item is not None]
        return b",".join(map(encode, without_last_thoughts(said_items, ("reasoning",))))
    answers: list[Any] = [
        {"type": "function_call_output", "call_id": safe_id(part.call_id), "output": _output(part, sees)}
        for part in message.parts
        if isinstance(part, ToolResult)
    ]
    parts = [part for part in message.parts if not isinstance(part, ToolResult)]
    if content := [item for item in (_content(part, sees) for part in parts) if item is not None]:
        answers.append({"type": "message", "role": "user", "content": content})
    return b",".join(map(encode, answers))


def _said_item(part: AnyPart) -> JsonObject | None:
    """Return a part of the model's own message as an input item to send back, or None if it is not to be sent."""
    own = getattr(part, "provider_metadata", None) or {}
    if isinstance(part, ToolCall):
        arguments = encode(arguments_of(part)).decode()
        return {"type": "function_call", "call_id": safe_id(part.id), "name": safe_name(part.name), "arguments": arguments}
    if NAME in own:
        return dict(own[NAME])
    if isinstance(part, Text) and part.text.strip():
        return {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": part.text}]}
    return None


def _output(result: ToolResult, sees: bool) -> Any:
    if not any(isinstance(part, Image) and replacement_text(part, sees) is None for part in result.parts):
        return in_words(result.parts, sees) or WITHOUT_RESULT
    return [item for item in (_content(part, sees) for part in result.parts) if item is not None]


def _content(part: AnyPart, sees: bool) -> JsonObject | None:
    if isinstance(part, Image):
        if replacement := replacement_text(part, sees):
            return {"type": "input_text", "text": replacement}
        return {"type": "input_image", "image_url": data_url(part), "detail": "auto"}
    return {"type": "input_text", "text": part.text} if isinstance(part, Text) and part.text.strip() else None


# The reply


class ResponsesReading:
    """A reply of the Responses API, read from its stream."""

    def __init__(self) -> None:
        self._items: dict[int, JsonObject] = {}
        self._told: list[str] = []
        self._response: JsonObject = {}
        self._streamed = self._kept = 0
        """Characters of streamed arguments, and of complete items."""

    @property
    def unshown(self) -> int:
        """Number of received characters that no delta shows; arguments arrive twice but count once."""
        return max(self._streamed, self._kept)

    @property
    def ended(self) -> bool:
        """True once the server has finished the reply."""
        return bool(self._response)

    def take(self, chunk: Any) -> Iterable[ReplyDelta]:
        """Read an event of the stream, and return its deltas."""
        kind = chunk.get("type")
        if kind in TEXT_DELTAS:
            self._told.append(words(chunk["delta"] or ""))
            return (TextDelta(chunk["delta"]),) if chunk["delta"] else ()
        if kind in THINKING_DELTAS:
            return (ThinkingDelta(words(chunk["delta"])),) if chunk["delta"] else ()
        if kind == "response.reasoning_summary_part.added":
            return (ThinkingDelta(BETWEEN_THOUGHTS),) if chunk.get("summary_index") else ()
        if kind == "response.output_item.done":
            self._items[chunk.get("output_index", len(self._items))] = item = chunk["item"]  # llama.cpp sends no index
            self._kept += PART + _unshown_of(item)
        elif kind == "response.function_call_arguments.delta":
            self._streamed += len(chunk["delta"] or "")
        elif kind in ENDS:
            self._response = chunk["response"]
        elif kind == "response.failed":
            error = (chunk.get("response") or {}).get("error") or {}
            raise Refused(read_error({"message": "the reply failed", **known_fields(error)}))
        elif kind == "error" or chunk.get("error"):
            raise Refused(read_error(chunk.get("error") or {**chunk, "type": ""}))  # its type is only that of the event
        return ()

    def reply(self) -> Reply:
        """Return the complete reply. Some servers omit the output in the last event, in which case the earlier items are used.

        If these have no text, the streamed text is used, because it was shown.
        """
        if not self._response:
            raise CutOff
        items = self._response.get("output") or [self._items[index] for index in sorted(self._items)]
        mended: list[str] = []
        parts = tuple(part for item in items for part in _parts_of(item, mended))
        metadata = {key: self._response[key] for key in ("id", "model") if self._response.get(key)}
        metadata |= {ARGUMENTS_MENDED: mended} if mended else {}
        incomplete = (self._response.get("incomplete_details") or {}).get("reason")
        stop_reason = incomplete or self._response.get("status") or "completed"
        if any(map(_refuses, items)):
            stop_reason = "refusal"
        if incomplete:
            parts, half = without_half_call(parts, ended=bool(items) and self._has_ended(items[-1]))
            metadata |= half
        if (streamed := "".join(self._told)) and not any(isinstance(part, Text) and part.text for part in parts):
            parts = (*parts, Text(streamed))
        return sanitize_reply(
            Reply(Message("assistant", parts), read_usage(self._response.get("usage")), stop_reason, metadata)
        )

    def _has_ended(self, item: JsonObject) -> bool:
        """Return whether the item is known to be complete."""
        if item.get("arguments") or item.get("status") == "completed":
            return True
        return item.get("status") is None and item in self._items.values()


def _unshown_of(item: JsonObject) -> int:
    arguments = item.get("arguments")
    return len(arguments) if isinstance(arguments, str) else sealed_length(item)


def _refuses(item: JsonObject) -> bool:
    return item.get("type") == "message" and any(
        object_of(content).get("type") == "refusal" for content in item.get("content") or ()
    )


def _parts_of(item: JsonObject, mended: list[str]) -> list[AnyPart]:
    """Return the parts of an item, and add repairs of arguments to ``mended``."""
    kind = item.get("type")
    if kind == "message":
        contents = [object_of(entry) for entry in item.get("content") or ()]
        texts = [entry.get("text") or entry.get("refusal") or "" for entry in contents]
        return [Text("".join(texts))] if any(texts) else []
    if kind == "function_call":
        return [call_of(item.get("name") or "", item.get("arguments") or "", item.get("call_id") or "", mended)]
    if kind == "reasoning":
        texts = [entry.get("text") or "" for field in ("summary", "content") for entry in item.get(field) or ()]
        # The API accepts no empty fields, nor the status. Without encrypted content it could not look the item up, since
        # nothing is stored there.
        own = {NAME: {key: value for key, value in known_fields(item).items() if key != "status"}}
        return [Thinking(BETWEEN_THOUGHTS.join(texts), own if item.get("encrypted_content") else None)]
    return [Text("", {NAME: known_fields(item)})]


def as_stream(whole: Any) -> list[Any]:
    """Return a complete reply as the events of a stream."""
    events: list[Any] = []
    for item in whole.get("output") or ():
        for part in _parts_of(item, []):
            kind = {Text: "response.output_text.delta", Thinking: "response.reasoning_summary_text.delta"}.get(type(part))
            if kind is not None and (text := getattr(part, "text", "")):
                events.append({"type": kind, "delta": text})
    status = whole.get("status")
    end = f"response.{status}" if status in ("failed", "incomplete") else "response.completed"
    return [*events, {"type": end, "response": whole}]


PROVIDER = Provider(
    name=NAME,
    sdk=OpenAISdk(),
    own_url=OWN_URL,
    path="/responses",
    body=body,
    reading=lambda options=None: ResponsesReading(),
    as_stream=as_stream,
    takes_schema=takes_schema,
    options=COMMON_OPTIONS - {"stop"} | {"effort", "thinking", "temperature", "parallel"},
)
