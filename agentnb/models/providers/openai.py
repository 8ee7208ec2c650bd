"""``openai:``, the Chat Completions API, which many other servers speak as well (see `compatible`)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from agentnb.core.messages import AnyPart, Image, Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.request import Request, ToolSpec
from agentnb.models.options import Options
from agentnb.models.provider import COMMON_OPTIONS, Provider, ProviderError
from agentnb.models.providers.chat_chunks import ChatReading, as_stream
from agentnb.models.providers.serialization import (
    WITHOUT_RESULT,
    arguments_of,
    data_url,
    encode,
    fields_before,
    in_words,
    joined,
    known_fields,
    left_out,
    made_of_all,
    parameters,
    safe_id,
    safe_name,
)
from agentnb.models.transport.connections import http_settings, is_at, text_of
from agentnb.models.transport.failure import reported, words_of
from agentnb.settings import Key

NAME = "openai"
OWN_URL = "https://api.openai.com/v1"
OTHERS = "compatible"
"""Metadata key for OpenAI-compatible servers."""
SHOWN_BELOW = "(shown below)"
"""Text of a tool result that is only pictures: they follow in a user message."""


# The request


def body(model: str, request: Request, options: Options, *, minimal: bool = False) -> bytes:
    """Return the request as JSON. In a conversation, each message and the fields before the messages are encoded once.

    ``minimal``: only the fields that every server knows.
    """
    start = fields_before(NAME, _head, model, request, options, minimal)
    own, sees, echo = OTHERS if minimal else NAME, options.images is not False, options.echo
    make = partial(_fragment, own=own, sees=sees, echo=echo)
    fragments = made_of_all(request.messages, (NAME, own, sees, echo), make)
    system = encode({"role": "system", "content": request.system}) if request.system else b""
    return b'%b,"messages":[%b]}' % (start, joined([system, *fragments]))


def _head(model: str, request: Request, options: Options, minimal: bool) -> bytes:
    fields: dict[str, Any] = {"model": model}
    if options.stream:
        fields |= {"stream": True, "stream_options": {"include_usage": True}}
    choice = request.settings.get("tool_choice")
    # Small servers do not know this choice, and accept a history with tool calls without tools.
    if request.tools and not (minimal and choice == "none"):
        fields["tools"] = [{"type": "function", "function": _function(tool)} for tool in request.tools]
        if choice is not None:
            known = choice in ("auto", "none", "required")
            fields["tool_choice"] = choice if known else {"type": "function", "function": {"name": choice}}
        if options.parallel is not None:
            fields["parallel_tool_calls"] = options.parallel
    most = request.settings.get("max_tokens") or options.max_tokens
    given = {
        "max_tokens" if minimal else "max_completion_tokens": most,
        "temperature": options.temperature,
        "seed": options.seed,
        "reasoning_effort": options.effort,
        "stop": list(options.stop) or None,
        "response_format": schema_format(options.output_schema),
    }
    return encode(fields | known_fields(given))


def _function(tool: ToolSpec) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "parameters": parameters(tool)}


def schema_format(schema: dict[str, Any] | None) -> dict[str, Any] | None:
    """Return the field that requests answers of this JSON Schema; None without one."""
    return None if schema is None else {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


def takes_schema(schema: dict[str, Any]) -> bool:
    """Return whether the API takes this schema of answers: it wants an object."""
    return schema.get("type") == "object"


def _fragment(message: Message, *, own: str, sees: bool, echo: bool) -> bytes:
    """Return the message as JSON; several, with commas between, where the API wants several; empty if nothing of it is sent.

    Content that is only text is sent as one string: not all servers take a list, and later text leaves its start unchanged.
    """
    if message.role == "assistant":
        return _assistant(message, own, echo)
    results = [part for part in message.parts if isinstance(part, ToolResult)]
    made: list[Any] = [
        {"role": "tool", "tool_call_id": safe_id(result.call_id), "content": _result_text(result, sees)} for result in results
    ]
    parts: list[AnyPart] = [part for part in message.parts if not isinstance(part, ToolResult)]
    if sees:
        parts = [*_pictures(results), *parts]
    if content := [one for one in (_content(part, sees) for part in parts) if one is not None]:
        only_text = all(one["type"] == "text" for one in content)
        made.append({"role": "user", "content": "\n\n".join(one["text"] for one in content) if only_text else content})
    return b",".join(map(encode, made))


def _assistant(message: Message, own: str, echo: bool) -> bytes:
    made: dict[str, Any] = {"role": "assistant", "content": message.text or None}
    if message.calls:
        made["tool_calls"] = [_call(call, own) for call in message.calls]
    if echo:
        for part in message.parts:
            if isinstance(part, Thinking) and (field := (part.provider_metadata or {}).get(own)):
                made[field] = part.text
    return encode(made) if message.text.strip() or message.calls else b""


def _call(call: ToolCall, own: str) -> dict[str, Any]:
    function = {"name": safe_name(call.name), "arguments": encode(arguments_of(call)).decode()}
    kept = (call.provider_metadata or {}).get(own) or {}
    return {"id": safe_id(call.id), "type": "function", "function": function, **kept}


def _result_text(result: ToolResult, sees: bool) -> str:
    """Return the text of a tool result, which in this API holds only text."""
    return in_words(result.parts, sees) or (SHOWN_BELOW if sees and _sent_pictures(result) else WITHOUT_RESULT)


def _sent_pictures(result: ToolResult) -> list[Image]:
    return [part for part in result.parts if isinstance(part, Image) and left_out(part, sees=True) is None]


def _pictures(results: Sequence[ToolResult]) -> list[AnyPart]:
    made: list[AnyPart] = []
    for result in results:
        if images := _sent_pictures(result):
            made += [Text(f"What {result.name} returned for {safe_id(result.call_id)}:"), *images]
    return made


def _content(part: AnyPart, sees: bool) -> dict[str, Any] | None:
    if isinstance(part, Image):
        if told := left_out(part, sees):
            return {"type": "text", "text": told}
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

    def stream_class(self) -> Any:
        """Return its stream class."""
        import openai

        return openai.AsyncStream[object]

    def error_details(self, error: BaseException) -> ProviderError | None:
        """Return the details of an error of the provider; None for any other."""
        import openai

        if not isinstance(error, openai.APIError) or isinstance(error, openai.APIConnectionError):
            return None
        told = reported(error.body)
        if not isinstance(error, openai.APIStatusError):
            return told if told.message else told._replace(message=str(error.message))
        name = told.name or str(error.code or error.type or "")
        return ProviderError(error.status_code, name, words_of(error.body), error.response.headers)


PROVIDER = Provider(
    name=NAME,
    sdk=OpenAISdk(),
    own_url=OWN_URL,
    path="/chat/completions",
    body=body,
    reading=partial(ChatReading, own=NAME),
    as_stream=as_stream,
    takes_schema=takes_schema,
    options=COMMON_OPTIONS | {"effort", "temperature", "seed", "parallel"},
)
