"""``anthropic:``, the Messages API.

Thinking is sent back unchanged; the stable prefix of a conversation is marked for the provider's cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import Any

from msgspec.structs import replace

from agentnb.core.log.events import ReplyDelta, TextDelta, ThinkingDelta
from agentnb.core.messages import AnyPart, Image, JsonObject, Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.request import Request, ToolSpec
from agentnb.core.usage import Usage
from agentnb.models.defaults import MAX_TOKENS
from agentnb.models.model import Reply
from agentnb.models.options import Options
from agentnb.models.provider import COMMON_OPTIONS, PART, SEALED, CutOff, Provider, ProviderError, Refused, sealed_length
from agentnb.models.providers.serialization import (
    ARGUMENTS_MENDED,
    WITHOUT_RESULT,
    arguments_of,
    call_of,
    count,
    encode,
    encode_all_messages,
    encode_messages,
    fields_before,
    join_fragments,
    known_fields,
    lasting,
    object_of,
    parameters,
    read_arguments,
    replacement_text,
    safe_id,
    safe_name,
    sanitize_reply,
    without_half_call,
    without_last_thoughts,
    words,
    words_for,
)
from agentnb.models.transport.connections import http_settings, is_at, text_of
from agentnb.models.transport.failure import read_error, words_of
from agentnb.settings import Key

NAME = "anthropic"
OWN_URL = "https://api.anthropic.com"
SCHEMA_KEYWORDS = {"$defs", "$ref", "additionalProperties", "anyOf", "const", "description", "enum", "items", "properties"} | {
    "required",
    "title",
    "type",
}
"""JSON Schema keywords for answers that the API is known to accept; it refuses others, such as ``minimum``."""
MARKED = 3
"""Number of latest messages among which user messages are marked for the cache: the last one, for the next request to read, and
the one before, written by the previous request. (The provider searches back only 20 blocks by itself.)
"""
CUT = frozenset({"max_tokens", "model_context_window_exceeded"})
THOUGHTS = frozenset({"thinking", "redacted_thinking"})
BEGUN_BY = {
    "text_delta": {"type": "text", "text": ""},
    "thinking_delta": {"type": "thinking", "thinking": ""},
    "signature_delta": {"type": "thinking", "thinking": ""},
}
"""Blocks to start for these deltas if no event has started them."""
IN_AN_ERROR = "error results cannot contain pictures"
_OWN_KEYS = frozenset({"type", "id", "name", "input"})


# The request


def body(model: str, request: Request, options: Options) -> bytes:
    """Return the request as JSON. In a conversation, each message and the fields before the messages are encoded once."""
    messages = request.messages
    if not request.tools and (called := _called_tools(messages)):
        request = replace(request, tools=called, settings={**request.settings, "tool_choice": "none"})
    start = fields_before(NAME, _head, model, request, options)
    sees = options.images is not False
    cached = options.cache != "no"
    at, last = lasting(messages)
    stable = max(0, at + 1 - MARKED) if cached else len(messages) - 1
    fragments = list(encode_messages(messages, (NAME, sees), partial(_fragment, sees=sees), stable))
    for index in range(stable, len(messages)):
        message = messages[index]
        marked = len((last if index == at else message).parts)
        fragments.append(_fragment(message, sees=sees, mark=_mark(options) if cached else None, marked=marked))
    return b'%b,"messages":[%b]}' % (start, join_fragments(fragments))


def _head(model: str, request: Request, options: Options) -> bytes:
    mark = _mark(options) if options.cache != "no" else None
    fields: JsonObject = {
        "model": model,
        "max_tokens": request.settings.get("max_tokens") or options.max_tokens or MAX_TOKENS + _budget(options),
    }
    if options.stream:
        fields["stream"] = True
    if request.tools:
        fields["tools"] = _tools(request.tools, None if request.system else mark)
        fields |= _choice(request.settings.get("tool_choice"), options.parallel)
    if request.system:
        fields["system"] = [_add_mark({"type": "text", "text": request.system}, mark)]
    if options.stop:
        fields["stop_sequences"] = options.stop
    return encode(fields | _thinking(options) | _output(options))


def _called_tools(messages: Sequence[Message]) -> tuple[ToolSpec, ...]:
    """Return the tools that were called: after tool calls, the API requires tools even if none may be called."""
    names = encode_all_messages(messages, (NAME, "called"), _names)
    return tuple([ToolSpec(name) for name in dict.fromkeys(chain(*names))])


def _names(message: Message) -> tuple[str, ...]:
    return tuple([safe_name(call.name) for call in message.calls])


def _tools(tools: Sequence[ToolSpec], mark: Any) -> list[JsonObject]:
    """Return the tools as sent. They are first in the provider's cache, and are marked if no system prompt follows."""
    entries: list[JsonObject] = [
        {"name": tool.name, "description": tool.description, "input_schema": parameters(tool)} for tool in tools
    ]
    entries[-1] = _add_mark(entries[-1], mark)
    return entries


def _choice(choice: str | None, parallel: bool | None) -> JsonObject:
    if choice is None and parallel is None:
        return {}
    kinds = {None: "auto", "auto": "auto", "none": "none", "required": "any"}
    fields: JsonObject = {"type": kinds[choice]} if choice in kinds else {"type": "tool", "name": choice}
    if parallel is not None and choice != "none":
        fields["disable_parallel_tool_use"] = not parallel
    return {"tool_choice": fields}


def _thinking(options: Options) -> JsonObject:
    if options.thinking is None:
        return {}
    if options.thinking == "off":
        return {"thinking": {"type": "disabled"}}
    if options.thinking == "adaptive":
        return {"thinking": {"type": "adaptive", "display": "summarized"}}
    return {"thinking": {"type": "enabled", "budget_tokens": _budget(options)}}


def _budget(options: Options) -> int:
    return int(options.thinking) if options.thinking is not None and options.thinking.isdecimal() else 0


def _output(options: Options) -> JsonObject:
    fields: JsonObject = {}
    if options.effort is not None:
        fields["effort"] = options.effort
    if options.output_schema is not None:
        fields["format"] = {"type": "json_schema", "schema": options.output_schema}
    return {"output_config": fields} if fields else {}


def takes_schema(schema: Any) -> bool:
    """Return whether the API accepts this schema for answers: only plain keywords, and objects declared closed."""
    if isinstance(schema, list):
        return all(map(takes_schema, schema))
    if not isinstance(schema, dict) or not schema.keys() <= SCHEMA_KEYWORDS:
        return False
    if schema.get("type") == "object" and schema.get("additionalProperties") is not False:
        return False
    named = [*schema.get("properties", {}).values(), *schema.get("$defs", {}).values()]
    return takes_schema([*named, *schema.get("anyOf", ()), *[schema[key] for key in ("items",) if key in schema]])


def _mark(options: Options) -> dict[str, str]:
    return {"type": "ephemeral"} if options.cache == "5m" else {"type": "ephemeral", "ttl": options.cache}


def _add_mark(block: JsonObject, mark: Any) -> JsonObject:
    return block if mark is None else {**block, "cache_control": mark}


def _fragment(message: Message, *, sees: bool, mark: dict[str, str] | None = None, marked: int = 0) -> bytes:
    """Return the message as JSON, with a cache mark after its first ``marked`` parts; empty if none of it is sent."""
    of_assistant = message.role == "assistant"
    parts: Sequence[AnyPart] = message.parts
    if not of_assistant:
        parts = sorted(parts, key=lambda part: not isinstance(part, ToolResult))
    blocks: list[JsonObject] = []
    for number, part in enumerate(parts, 1):
        block = _block(part, sees)
        if block is not None:
            blocks.append(block)
        if mark is not None and number == marked and blocks and not of_assistant:
            blocks[-1] = _add_mark(blocks[-1], mark)
    if of_assistant:
        blocks = without_last_thoughts(blocks, THOUGHTS)
    return encode({"role": "assistant" if of_assistant else "user", "content": blocks}) if blocks else b""


def _block(part: AnyPart, sees: bool, *, in_error: bool = False) -> JsonObject | None:
    if isinstance(part, ToolResult):
        inside = (_block(item, sees, in_error=part.is_error) for item in part.parts)
        content = [block for block in inside if block is not None]
        result: JsonObject = {"type": "tool_result", "tool_use_id": safe_id(part.call_id)}
        result["content"] = content or WITHOUT_RESULT
        return {**result, "is_error": True} if part.is_error else result
    if isinstance(part, Image):
        replacement = replacement_text(part, sees) or (words_for(part, IN_AN_ERROR) if in_error else None)
        if replacement is not None:
            return {"type": "text", "text": replacement}
        return {"type": "image", "source": {"type": "base64", "media_type": part.media_type, "data": part.data}}
    own: Any = (part.provider_metadata or {}).get(NAME)
    if isinstance(part, ToolCall):
        call = {"type": "tool_use", "id": safe_id(part.id), "name": safe_name(part.name), "input": arguments_of(part)}
        return {**call, **(own or {})}
    if own is not None:
        return dict(own)
    return {"type": "text", "text": part.text} if isinstance(part, Text) and part.text.strip() else None


# The reply


class AnthropicReading:
    """A reply of the Messages API, read from its stream."""

    def __init__(self) -> None:
        self._blocks: dict[int, JsonObject] = {}
        self._pieces: dict[int, list[str]] = {}
        self._ended: set[int] = set()
        self._message: JsonObject = {}
        self._usage: JsonObject = {}
        self._end: JsonObject = {}
        self._signatures: dict[int, list[str]] = {}
        self.unshown = 0

    @property
    def ended(self) -> bool:
        """True once the server has finished the reply."""
        return bool(self._end.get("stop_reason"))

    def take(self, chunk: Any) -> Iterable[ReplyDelta]:
        """Read an event of the stream, and return its deltas."""
        kind = chunk.get("type")
        if kind == "content_block_delta":
            return self._delta(chunk["index"], chunk["delta"])
        if kind == "content_block_start":
            return self._start(chunk["index"], chunk["content_block"])
        if kind == "content_block_stop":
            if chunk["index"] in self._blocks:
                self._ended.add(chunk["index"])
        elif kind == "message_start":
            self._message = chunk["message"]
            self._usage.update(known_fields(self._message.get("usage")))
            self._usage.pop("output_tokens", None)  # there was no reply to count yet
        elif kind == "message_delta":
            self._end.update(known_fields(chunk.get("delta")))
            self._usage.update(known_fields(chunk.get("usage")))
        elif kind == "error" or chunk.get("error"):
            raise Refused(read_error(chunk.get("error") or {**chunk, "type": ""}))
        return ()

    def _start(self, index: int, block: JsonObject) -> Iterable[ReplyDelta]:
        """Start a block. A block that arrives complete already contains its text or input."""
        self._blocks[index] = dict(block)
        self.unshown += PART
        kind = block.get("type")
        if kind == "text" and block.get("text"):
            self._pieces[index] = [words(block["text"])]
            return (TextDelta(block["text"]),)
        if kind == "thinking" and block.get("thinking"):
            self._pieces[index] = [words(block["thinking"])]
            return (ThinkingDelta(block["thinking"]),)
        self.unshown += sealed_length(block)
        return ()

    def _delta(self, index: int, delta: JsonObject) -> Iterable[ReplyDelta]:
        """Extend a block. Text and thinking need no start event: some servers omit it."""
        kind = delta.get("type")
        if kind in BEGUN_BY and index not in self._blocks:
            self._blocks[index] = dict(BEGUN_BY[kind])
            self.unshown += PART
        if kind == "text_delta":
            self._pieces.setdefault(index, []).append(words(delta["text"]))
            return (TextDelta(delta["text"]),) if delta["text"] else ()
        if kind == "input_json_delta":
            self._blocks[index]  # an input needs a block that has started
            self._pieces.setdefault(index, []).append(delta["partial_json"])
            self.unshown += len(delta["partial_json"])
        elif kind == "thinking_delta":
            self._pieces.setdefault(index, []).append(words(delta["thinking"]))
            return (ThinkingDelta(delta["thinking"]),) if delta["thinking"] else ()
        elif kind == "signature_delta":
            self._blocks[index]  # a signature needs one too
            self._signatures.setdefault(index, []).append(words(delta["signature"]))
            self.unshown += PART // SEALED + len(delta["signature"]) // SEALED
        return ()

    def reply(self) -> Reply:
        """Return the complete reply."""
        stop_reason = self._end.get("stop_reason") or self._message.get("stop_reason")
        if not stop_reason:
            raise CutOff
        metadata = {key: self._message[key] for key in ("id", "model") if self._message.get(key)}
        metadata |= {key: self._end[key] for key in ("stop_sequence", "stop_details") if self._end.get(key)}
        mended: list[str] = []
        parts = tuple(part for index in sorted(self._blocks) if (part := self._part(index, mended)) is not None)
        metadata |= {ARGUMENTS_MENDED: mended} if mended else {}
        if stop_reason in CUT:
            ended = bool(self._blocks) and self._has_ended(max(self._blocks))
            parts, half = without_half_call(parts, ended=ended)
            metadata |= half
        return sanitize_reply(Reply(Message("assistant", parts), read_usage(self._usage), stop_reason, metadata))

    def _has_ended(self, index: int) -> bool:
        """Return whether the block is complete: its end event arrived, or its input ends like an object (``{}`` included)."""
        return index in self._ended or "".join(self._pieces.get(index, ())).endswith("}")

    def _part(self, index: int, mended: list[str]) -> AnyPart | None:
        block = self._blocks[index]
        if signature := "".join(self._signatures.get(index, ())):
            block = {**block, "signature": (block.get("signature") or "") + signature}
        kind, text = block.get("type"), "".join(self._pieces.get(index, ()))
        if kind == "text":
            return Text(text) if text else None
        if kind == "tool_use":
            own = {key: value for key, value in known_fields(block).items() if key not in _OWN_KEYS}
            arguments = text or block.get("input", {})
            return call_of(block.get("name", ""), arguments, block.get("id", ""), mended, {NAME: own} if own else None)
        if kind == "thinking":
            return Thinking(text, {NAME: {**block, "thinking": text}})
        if text and "input" in block:
            block = {**block, "input": read_arguments(text)}
        if kind == "redacted_thinking":
            return Thinking("", {NAME: block})
        return Text("", {NAME: block})  # an unknown kind is sent back unchanged


def as_stream(whole: Any) -> list[Any]:
    """Return a complete reply as the events of a stream."""
    blocks = enumerate(whole.get("content") or ())
    end = {key: whole.get(key) for key in ("stop_reason", "stop_sequence", "stop_details")}
    return [
        {"type": "message_start", "message": whole},
        *({"type": "content_block_start", "index": index, "content_block": block} for index, block in blocks),
        {"type": "message_delta", "delta": end, "usage": whole.get("usage")},
    ]


def read_usage(reported: Mapping[str, Any]) -> Usage:
    """Return the usage. The API counts cache reads and cache writes separately from the rest of the input."""
    read, written = count(reported.get("cache_read_input_tokens")), count(reported.get("cache_creation_input_tokens"))
    fresh = count(reported.get("input_tokens"))
    return Usage(
        input=None if fresh is None else fresh + (read or 0) + (written or 0),
        output=count(reported.get("output_tokens")),
        cache_read=read,
        cache_write=written,
        reasoning=count(object_of(reported.get("output_tokens_details")).get("thinking_tokens")),
    )


# The library


class AnthropicSdk:
    """The library ``anthropic``."""

    def client(self, url: str | None, key: Key | None, timeout: float) -> Any:
        """Return its client. Other servers may still read the API's former header, so they get both."""
        import anthropic
        import httpx2

        own = is_at(url, "api.anthropic.com")
        client = anthropic.AsyncAnthropic(
            http_client=anthropic.DefaultAsyncHttpxClient(**http_settings(url)),
            api_key=text_of(key),
            base_url=(url or OWN_URL).rstrip("/").removesuffix("/v1"),
            max_retries=0,
            timeout=httpx2.Timeout(timeout, connect=10),
            open_telemetry=False,
        )
        if not own:  # the environment's ANTHROPIC_CUSTOM_HEADERS are not for other servers
            client._custom_headers = {"x-api-key": text_of(key)}
        return client

    def error_details(self, error: BaseException) -> ProviderError | None:
        """Return the details of an error from the provider, or None for any other error."""
        import anthropic

        if not isinstance(error, anthropic.APIStatusError):
            return None
        name = read_error(object_of(error.body).get("error")).name
        return ProviderError(error.status_code, name, words_of(error.body), error.response.headers)


PROVIDER = Provider(
    name=NAME,
    sdk=AnthropicSdk(),
    own_url=OWN_URL,
    path="/v1/messages",
    models_path="/v1/models?limit=1000",
    body=body,
    reading=lambda options=None: AnthropicReading(),
    as_stream=as_stream,
    takes_schema=takes_schema,
    thinks_by_budget=True,
    options=COMMON_OPTIONS | {"effort", "thinking", "parallel", "cache"},
)
