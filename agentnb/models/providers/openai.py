"""OpenAI's Chat Completions API. Many servers implement it (local ones, gateways, other providers); each has a row in
`servers.toml`.

Replies are parsed leniently, and requests contain only fields that all servers know or that the row names.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from msgspec.structs import replace

from agentnb.core.messages import AnyPart, Image, JsonObject, Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.request import Request, ToolSpec
from agentnb.models.options import OF_TRAITS, Options
from agentnb.models.provider import COMMON_OPTIONS, Provider, ProviderError
from agentnb.models.providers.chat_chunks import THINKING_FIELDS, ChatReading, as_stream
from agentnb.models.providers.serialization import (
    WITHOUT_RESULT,
    arguments_of,
    data_url,
    encode,
    encode_all_messages,
    fields_before,
    in_words,
    join_fragments,
    known_fields,
    lasting,
    parameters,
    replacement_text,
    safe_id,
    safe_name,
)
from agentnb.models.traits import Traits
from agentnb.models.transport.connections import http_settings, is_at, text_of
from agentnb.models.transport.failure import read_error, words_of
from agentnb.settings import SERVERS, Key

FORM = "chat"
"""Cache key of the encoded parts of a request."""
OWN_URL = "https://api.openai.com/v1"
BETWEEN = {"role": "assistant", "content": "(interrupted)"}
"""Message between tool results and a user message, where roles must alternate."""
SHORT_ID = re.compile(r"[a-zA-Z0-9]{9}")
SHOWN_BELOW = "(shown below)"
"""Text of a tool result that contains only pictures; they follow in a user message."""


# The request


class Form(NamedTuple):
    """Settings that determine the wire format of a message."""

    own: str
    sees: bool
    returned: str
    traits: Traits


def body(model: str, request: Request, options: Options, *, traits: Traits, own: str) -> bytes:
    """Return the request as JSON. In a conversation, each message and the fields before the messages are encoded once.

    Unless the options set others, ``traits`` are those of the server, and ``own`` is the metadata key under which parts keep
    its fields.
    """
    traits = options.traits or traits
    returned = traits.returned if options.echo is None else "always" if options.echo else "never"
    form = Form(options.server or own, options.images is not False, returned, traits)
    start = fields_before(FORM, _head, model, request, options, traits)
    messages, make = request.messages, partial(_fragment, form=form)
    fragments = encode_all_messages(messages, (FORM, form), make)
    if traits.alternating and (reminded := _embed_reminder(*lasting(messages), messages)) is not None:
        fragments[len(messages) - 1] = make(reminded)
    if request.system and traits.system == "user":
        fragments[0] = make(replace(messages[0], parts=(Text(request.system), *messages[0].parts)))
    elif request.system:
        fragments.insert(0, encode({"role": "system", "content": request.system}))
    return b'%b,"messages":[%b]}' % (start, join_fragments(fragments))


def _embed_reminder(place: int, kept: Message, messages: Sequence[Message]) -> Message | None:
    """Return the last message with its ephemeral text moved into its last result, if it otherwise has only results."""
    message = messages[place]
    if place != len(messages) - 1 or any(not isinstance(part, ToolResult) for part in kept.parts):
        return None
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    texts = [part for part in message.parts if isinstance(part, Text)]
    if not results or not texts:
        return None
    return replace(message, parts=(*results[:-1], replace(results[-1], parts=(*results[-1].parts, *texts))))


def _head(model: str, request: Request, options: Options, traits: Traits) -> bytes:
    fields: JsonObject = {"model": model}
    if options.stream:
        fields |= {"stream": True} | ({"stream_options": {"include_usage": True}} if traits.stream_options else {})
    choice = request.settings.get("tool_choice")
    # Small servers do not know the choice "none", and accept a history with tool calls without tools.
    if request.tools and traits.tools and (traits.tool_choice_none or choice != "none"):
        fields["tools"] = [{"type": "function", "function": _function(tool)} for tool in request.tools]
        if choice is not None:
            is_mode = choice in ("auto", "none", "required")
            fields["tool_choice"] = choice if is_mode else {"type": "function", "function": {"name": choice}}
        if options.parallel is not None and traits.parallel:
            fields["parallel_tool_calls"] = options.parallel
    most = request.settings.get("max_tokens") or options.max_tokens
    optional = {
        traits.length_limit: most,
        "temperature": options.temperature,
        "seed": options.seed,
        "reasoning_effort": options.effort,
        "stop": list(options.stop) or None,
        "response_format": schema_format(options.output_schema),
    }
    return encode(fields | known_fields(optional))


def _function(tool: ToolSpec) -> JsonObject:
    return {"name": tool.name, "description": tool.description, "parameters": parameters(tool)}


def schema_format(schema: JsonObject | None) -> JsonObject | None:
    """Return the field that requests answers of this JSON Schema, or None if there is none."""
    return None if schema is None else {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def takes_schema(schema: JsonObject) -> bool:
    """Return whether the API accepts this schema for answers; it requires an object."""
    return schema.get("type") == "object"


def _fragment(message: Message, *, form: Form) -> bytes:
    """Return the message as JSON; comma-separated messages where the API requires several; empty if none of it is sent.

    Text-only content is sent as one string: not all servers accept a list, and text added later leaves its start unchanged.
    """
    if message.role == "assistant":
        return _assistant(message, form)
    sees = form.sees
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    messages: list[Any] = [
        {"role": "tool", "tool_call_id": _call_id(result.call_id, form), "content": _result_text(result, sees)}
        for result in results
    ]
    parts: list[AnyPart] = [part for part in message.parts if not isinstance(part, ToolResult)]
    if sees:
        parts = [*_pictures(results), *parts]
    if content := [item for item in (_content(part, sees) for part in parts) if item is not None]:
        if results and form.traits.alternating:
            messages.append(BETWEEN)
        only_text = all(item["type"] == "text" for item in content)
        messages.append({"role": "user", "content": "\n\n".join(item["text"] for item in content) if only_text else content})
    return b",".join(map(encode, messages))


def _assistant(message: Message, form: Form) -> bytes:
    if not (message.text.strip() or message.calls):
        return encode(BETWEEN) if form.traits.alternating else b""
    body: JsonObject = {"role": "assistant", "content": message.text or ("" if form.traits.text_content else None)}
    if message.calls:
        body["tool_calls"] = [_call(call, form) for call in message.calls]
    if form.returned == "always" or (form.returned == "calls" and message.calls):
        for part in message.parts:
            if isinstance(part, Thinking) and (fields := (part.provider_metadata or {}).get(form.own)):
                body |= {field: part.text if value is None else value for field, value in fields.items()}
        if form.traits.returns in THINKING_FIELDS:
            body.setdefault(form.traits.returns, "")  # a reply of another model has nothing to return
    return encode(body)


def _call_id(call_id: str, form: Form) -> str:
    if not form.traits.short_ids or SHORT_ID.fullmatch(call_id):
        return safe_id(call_id)
    return f"{zlib.crc32(call_id.encode()):09x}"


def _call(call: ToolCall, form: Form) -> JsonObject:
    function = {"name": safe_name(call.name), "arguments": encode(arguments_of(call)).decode()}
    kept = (call.provider_metadata or {}).get(form.own) or {}
    return {"id": _call_id(call.id, form), "type": "function", "function": function, **kept}


def _result_text(result: ToolResult, sees: bool) -> str:
    """Return the text of a tool result; in this API a result has only text."""
    return in_words(result.parts, sees) or (SHOWN_BELOW if sees and _sent_pictures(result) else WITHOUT_RESULT)


def _sent_pictures(result: ToolResult) -> list[Image]:
    return [part for part in result.parts if isinstance(part, Image) and replacement_text(part, sees=True) is None]


def _pictures(results: Sequence[ToolResult]) -> list[AnyPart]:
    parts: list[AnyPart] = []
    for result in results:
        if images := _sent_pictures(result):
            parts += [Text(f"Pictures returned by {result.name} for {safe_id(result.call_id)}:"), *images]
    return parts


def _content(part: AnyPart, sees: bool) -> JsonObject | None:
    if isinstance(part, Image):
        if replacement := replacement_text(part, sees):
            return {"type": "text", "text": replacement}
        return {"type": "image_url", "image_url": {"url": data_url(part)}}
    return {"type": "text", "text": part.text} if isinstance(part, Text) and part.text.strip() else None


# The library


class OpenAISdk:
    """The library ``openai``."""

    def client(self, url: str | None, key: Key | None, timeout: float) -> Any:
        """Return its client."""
        import httpx2
        import openai

        client = openai.AsyncOpenAI(
            http_client=openai.DefaultAsyncHttpxClient(**http_settings(url)),
            api_key=text_of(key),
            base_url=url or OWN_URL,
            max_retries=0,
            timeout=httpx2.Timeout(timeout, connect=10),
        )
        if not is_at(url, "api.openai.com"):
            # The environment's settings for OpenAI are not for other servers: OPENAI_ORG_ID, _PROJECT_ID, _CUSTOM_HEADERS.
            client.organization = client.project = client.admin_api_key = None
            client._custom_headers = {}
        return client

    def error_details(self, error: BaseException) -> ProviderError | None:
        """Return the details of an error from the provider, or None for any other error."""
        import openai

        if not isinstance(error, openai.APIError) or isinstance(error, openai.APIConnectionError):
            return None
        details = read_error(error.body)
        if not isinstance(error, openai.APIStatusError):
            return details if details.message else details._replace(message=str(error.message))
        name = details.name or str(error.code or error.type or "")
        return ProviderError(error.status_code, name, words_of(error.body), error.response.headers, error.body)


SDK = OpenAISdk()
_OPTIONS = COMMON_OPTIONS | {"effort", "temperature", "seed", "echo", *OF_TRAITS}


def _provider_of(name: str, row: Mapping[str, Any]) -> Provider:
    """Return the provider for a row in the data file. If the server is unknown, this name is the metadata key of its fields."""
    traits, is_own = Traits(**row.get("traits", {})), row.get("own", False)
    parallel = {"parallel"} if traits.parallel else set()
    return Provider(
        name=name,
        sdk=SDK,
        path="/chat/completions",
        body=partial(body, traits=traits, own=name),
        reading=partial(_reading, traits=traits, own=name),
        as_stream=as_stream,
        options=(_OPTIONS | parallel) - {*row.get("without", ())},
        needs_key="key" in row,
        sees=row.get("sees", False),
        url=row.get("url"),
        own_url=OWN_URL if is_own else None,
        models_path=row.get("models", "/models"),
        takes_schema=takes_schema if is_own else lambda schema: False,
        traits=traits,
    )


def _reading(options: Options | None = None, *, traits: Traits, own: str) -> ChatReading:
    own_traits, server = (options.traits, options.server) if options is not None else (None, "")
    return ChatReading(own=server or own, tags=(own_traits or traits).think_tags)


PROVIDERS = {name: _provider_of(name, row) for name, row in SERVERS.items() if row["wire"] == "chat"}
