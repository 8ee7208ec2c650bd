"""``openai:``, the Chat Completions API, which many other servers speak as well (see `compatible`)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

from agentnb.core.log.events import ReplyDelta, TextDelta, ThinkingDelta
from agentnb.core.messages import AnyPart, Image, Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.request import Request, ToolSpec
from agentnb.core.usage import Usage
from agentnb.models.model import Reply
from agentnb.models.options import Options
from agentnb.models.provider import COMMON_OPTIONS, PART, CutOff, Provider, ProviderError, Refused, reported
from agentnb.models.providers.serialization import (
    WITHOUT_RESULT,
    arguments_of,
    checked,
    count,
    data_url,
    encode,
    fields_before,
    in_words,
    joined,
    known_fields,
    left_out,
    made_of_all,
    object_of,
    parameters,
    read_arguments,
    safe_id,
    safe_name,
    without_half_call,
    words,
)
from agentnb.models.transport.connections import http_settings, is_at, text_of
from agentnb.models.transport.failure import words_of
from agentnb.settings import Key

NAME = "openai"
OWN_URL = "https://api.openai.com/v1"
OTHERS = "compatible"
"""Metadata key for OpenAI-compatible servers."""
THINKING_FIELDS = ("reasoning_content", "reasoning")
"""Fields in which servers send a model's thinking."""
SHOWN_BELOW = "(shown below)"
"""Text of a tool result that is only pictures: they follow in a user message."""
MAX_LOOKS = 50
"""Most checks whether a call is complete, for servers that separate calls in no other way."""
_OWN_KEYS = frozenset({"index", "id", "type", "function"})


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


# The reply


class OpenAIReading:
    """A reply of the Chat Completions API, read from its stream; lenient with servers that deviate from the format."""

    def __init__(self, *, own: str = NAME) -> None:
        self._own = own
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._thinking_field = ""
        self._index: Any = None
        self._calls: list[dict[str, Any]] = []
        self._by_index: dict[Any, dict[str, Any]] = {}
        self._usage: Any = None
        self._finish = ""
        self._refused = False
        self.unshown = 0
        self._metadata: dict[str, Any] = {}

    def take(self, chunk: Any) -> Iterable[ReplyDelta]:
        """Read a chunk of the stream, and return its deltas."""
        if chunk.get("error"):
            raise Refused(reported(chunk["error"]))
        if chunk.get("usage"):
            self._usage = chunk["usage"]
        if not self._metadata:
            self._metadata = {key: chunk[key] for key in ("id", "model") if chunk.get(key)}
        choice = self._choice(chunk.get("choices"))
        self._finish = choice.get("finish_reason") or self._finish
        delta = choice.get("delta")
        if isinstance(delta, str):
            delta = {"content": delta}
        return self._delta(delta) if isinstance(delta, dict) else ()

    def _choice(self, choices: Any) -> dict[str, Any]:
        """Return the reply's new part. If a server sends several replies, though not requested, the first one counts."""
        for choice in choices or ():
            if isinstance(choice, dict):
                index = choice.get("index") or 0
                if self._index is None:
                    self._index = index
                if index == self._index:
                    return choice
        return {}

    def _delta(self, delta: dict[str, Any]) -> Iterable[ReplyDelta]:
        told: list[ReplyDelta] = []
        for field in THINKING_FIELDS:
            if (thought := delta.get(field)) and isinstance(thought, str):
                self._thinking_field = field
                self._thinking.append(thought)
                told.append(ThinkingDelta(thought))
                break
        for field in ("content", "refusal"):
            if text := _plain(delta.get(field)):
                self._refused = self._refused or field == "refusal"
                self._text.append(text)
                told.append(TextDelta(text))
        for fragment in delta.get("tool_calls") or ():
            if isinstance(fragment, dict):
                self._call_fragment(fragment)
        return told

    def _call_fragment(self, fragment: dict[str, Any]) -> None:
        index, call_id = fragment.get("index"), fragment.get("id")
        if type(call_id) is int:
            call_id = str(call_id)
        function = fragment.get("function") or {}
        call = self._begun(index, call_id, function)
        if call is None or _begins_another(call, function):
            call = {"id": call_id or "", "name": "", "pieces": [], "given": None, "own": {}, "looks": 0, "end": ""}
            self._calls.append(call)
            self.unshown += PART
        if index is not None:
            self.unshown += PART * (index not in self._by_index)
            self._by_index[index] = call
        call["id"] = call["id"] or call_id or ""
        call["name"] = call["name"] or function.get("name") or ""
        own = {key: value for key, value in known_fields(fragment).items() if key not in _OWN_KEYS}
        self.unshown += PART * len(own)
        call["own"] |= own
        given = function.get("arguments")
        if isinstance(given, str):
            call["pieces"].append(given)
            self.unshown += len(given)
            call["end"] = given.rstrip()[-1:] or call["end"]
        elif given is not None:
            call["given"] = given

    def _begun(self, index: Any, call_id: Any, function: dict[str, Any]) -> dict[str, Any] | None:
        """Return the call that this fragment may continue. Some servers give all calls one index, or no index, or no id."""
        if index is not None:
            call = self._by_index.get(index)
            if call is None or not call_id or call["id"] in ("", call_id):
                return call
        if call_id:
            return next((one for one in self._calls if one["id"] == call_id), None)
        # Without an index and an id, a name starts a new call.
        return self._calls[-1] if self._calls and not function.get("name") else None

    def reply(self) -> Reply:
        """Return the whole reply."""
        if not self._finish:
            raise CutOff
        parts: list[AnyPart] = []
        if thought := "".join(self._thinking):
            parts.append(Thinking(thought, {self._own: self._thinking_field}))
        if text := "".join(self._text):
            parts.append(Text(text))
        half: dict[str, str] = {}
        whole = (*parts, *(_read_call(call, self._own) for call in self._calls))
        if self._finish == "length":
            ended = bool(self._calls) and (self._calls[-1]["end"] == "}" or self._calls[-1]["given"] is not None)
            whole, half = without_half_call(whole, ended=ended)
        stop_reason = "refusal" if self._refused else self._finish
        return checked(Reply(Message("assistant", whole), read_usage(self._usage), stop_reason, self._metadata | half))


def _plain(content: Any) -> str:
    """Return the text of content that is a string or a list of parts."""
    if isinstance(content, list):
        texts = [part.get("text") for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "".join(words(text) for text in texts if text is not None)
    return content if isinstance(content, str) else ""


def _begins_another(call: dict[str, Any], function: dict[str, Any]) -> bool:
    """Return whether the fragment starts a new call, despite the same index or id: by another name, or after the call's end.

    A repeated name alone proves nothing: some servers repeat it with each fragment.
    """
    name, given = function.get("name"), function.get("arguments")
    if not name or not call["name"]:
        return False
    if name != call["name"]:
        return True
    if not given or (isinstance(given, str) and not given.lstrip().startswith("{")):
        return False
    return _is_whole(call)


def _is_whole(call: dict[str, Any]) -> bool:
    if call["given"] is not None:
        return True
    if call["end"] != "}" or call["looks"] == MAX_LOOKS:
        return False
    call["looks"] += 1
    return isinstance(read_arguments("".join(call["pieces"])), dict)


def _read_call(call: dict[str, Any], own: str) -> ToolCall:
    given = call["given"] if call["given"] is not None else read_arguments("".join(call["pieces"]))
    return ToolCall(call["name"], given, call["id"], {own: call["own"]} if call["own"] else None)


def as_stream(whole: Any) -> list[Any]:
    """Return a reply that came whole as the chunks of a stream."""
    choices = [{**choice, "delta": choice.get("message")} for choice in whole.get("choices") or () if isinstance(choice, dict)]
    return [{**whole, "choices": choices}]


def read_usage(reported: Any) -> Usage:
    """Return the usage that either API reports; counts that are missing are unknown."""
    reported = object_of(reported)
    of_input = object_of(reported.get("prompt_tokens_details") or reported.get("input_tokens_details"))
    of_output = object_of(reported.get("completion_tokens_details") or reported.get("output_tokens_details"))
    return Usage(
        input=count(reported.get("prompt_tokens", reported.get("input_tokens"))),
        output=count(reported.get("completion_tokens", reported.get("output_tokens"))),
        cache_read=count(of_input.get("cached_tokens")),
        cache_write=count(of_input.get("cache_write_tokens")),
        reasoning=count(of_output.get("reasoning_tokens")),
    )


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
        told = error.body if isinstance(error.body, dict) else {}
        name = str(told.get("code") or told.get("type") or error.code or error.type or "")
        message = words_of(error.body) or ("" if isinstance(error, openai.APIStatusError) else str(error.message))
        if not isinstance(error, openai.APIStatusError):
            return ProviderError(None, name, message, {})
        return ProviderError(error.status_code, name, message, error.response.headers)


PROVIDER = Provider(
    name=NAME,
    sdk=OpenAISdk(),
    own_url=OWN_URL,
    path="/chat/completions",
    body=body,
    reading=OpenAIReading,
    as_stream=as_stream,
    takes_schema=takes_schema,
    options=COMMON_OPTIONS | {"effort", "temperature", "seed", "parallel"},
)
