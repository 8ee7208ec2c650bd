"""Recorded exchanges with APIs: VCR cassettes (Python, Ruby) and HTTP archives (HAR)."""

from __future__ import annotations

import base64
import binascii
import json
import re
import zlib
from collections.abc import Iterator
from typing import Any

from agentnb.core.messages import encodable
from agentnb.detect.run import Run
from agentnb.interchange.formats import anthropic_messages, gemini_contents, openai_chat, openai_responses
from agentnb.interchange.formats.conversations import runs_of
from agentnb.interchange.formats.exchanges import Api, Exchange, error_of, exchange_of
from agentnb.interchange.formats.message_content import str_at, time_at, value_at
from agentnb.interchange.formats.steps import Reply
from agentnb.interchange.formats.streamed import response_of
from agentnb.interchange.trace_file import TraceFile
from agentnb.interchange.yaml_text import load_yaml

NAME = "api_cassettes"
TITLE = "recorded exchanges with an API (VCR, HAR)"
RECORDS_END = "what the API's last response says"
MAX_BODY_BYTES = 100_000_000
"""Maximum expanded size of a compressed body, in bytes."""
APIS: tuple[Api, ...] = (openai_responses.API, anthropic_messages.API, gemini_contents.API, openai_chat.API)
_CASSETTE = re.compile(rb"^(?:http_)?interactions:", re.MULTILINE)
_FAILED = 400
"""Lowest HTTP status that indicates an error."""


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    if file.kind == "text":
        return "" if _CASSETTE.search(file.start) else "it has no interactions, as cassettes have"
    if file.kind != "json" or not isinstance(file.first, dict):
        return "it is not a cassette in YAML or JSON"
    return "" if _interactions(file.first) is not None else "it has no interactions, as cassettes have"


def _interactions(document: Any) -> list[Any] | None:
    """Return the exchanges in a cassette or archive."""
    if not isinstance(document, dict):
        return None
    entries = document.get("interactions", document.get("http_interactions", value_at(document, "log", "entries")))
    fits = isinstance(entries, list) and any(isinstance(entry, dict) and "request" in entry for entry in entries[:20])
    return entries if fits else None


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each conversation, in which each request repeats and extends the previous one. Exchanges of other kinds
    are skipped.
    """
    document = load_yaml(file.whole(), file.name) if file.kind == "text" else file.document
    exchanges = [*_exchanges(file, _interactions(document) or [])]
    if not exchanges and not file.problems:
        file.problem("It contains no exchange with a model API that agentnb knows")
    yield from runs_of(file, NAME, exchanges)


def _exchanges(file: TraceFile, interactions: list[Any]) -> Iterator[Exchange]:
    for index, entry in enumerate(interactions):
        with file.guard(f"exchange {index}"):
            exchange = _exchange(entry, f"exchange {index}")
            if exchange is not None:
                yield exchange


def _exchange(one: dict[str, Any], position: str) -> Exchange | None:
    """Return an exchange, or None if it is with another kind of server or does not ask for a reply."""
    request, response = body_of(one["request"]), body_of(one.get("response") or {})
    status = _status(one.get("response") or {})
    asked_of = [api for api in APIS if api.is_request(request)]
    api = next((api for api in asked_of if api.is_response(response)), None)
    if api is None and asked_of and (response is None or status >= _FAILED or error_of(response)):
        api = asked_of[0]
    exchange = exchange_of(api, {"request": request, "response": response}, position) if api is not None else None
    if exchange is None:
        return None
    error = exchange.error or (f"HTTP status {status}" if status >= _FAILED else "")
    model = exchange.model or _model_of(one["request"])
    return _set_times(exchange._replace(error=error, reply=None if error else exchange.reply, model=model), one)


def _set_times(found: Exchange, one: dict[str, Any]) -> Exchange:
    """Return the exchange with the recorded time and duration of its reply, if any."""
    at = time_at(one, "recorded_at", "startedDateTime")
    milliseconds = one.get("time")
    seconds = milliseconds / 1000 if isinstance(milliseconds, int | float) and milliseconds >= 0 else None
    reply = found.reply or []
    last = next((index for index in range(len(reply) - 1, -1, -1) if isinstance(reply[index], Reply)), None)
    if last is None or (at is None and seconds is None):
        return found
    step = reply[last]
    assert isinstance(step, Reply)
    return found._replace(reply=[*reply[:last], step._replace(at=step.at or at, seconds=seconds), *reply[last + 1 :]])


def _model_of(request: dict[str, Any]) -> str:
    """Return the model named in the URL, as in ``models/gemini-2.0-flash:generateContent``."""
    match = re.search(r"/(?:models|deployments|model)/([^/:?]+)", str_at(request, "uri", "url"))
    return match[1] if match else ""


def _status(response: dict[str, Any]) -> int:
    status = response.get("status")
    code = status.get("code") if isinstance(status, dict) else status
    return code if isinstance(code, int) else 0


# Bodies


def body_of(message: dict[str, Any]) -> Any:
    """Return the JSON in a request or response body, assembled if it was streamed; None if there is none."""
    if "parsed_body" in message:
        return message["parsed_body"]
    data, encoding = _raw(message)
    if isinstance(data, str):
        data = _decode_base64(data) if encoding == "base64" else encodable(data).encode()
    if not isinstance(data, bytes):
        return data if isinstance(data, dict) else None
    return json_of(_decompress(data).decode(errors="replace"))


def _raw(message: dict[str, Any]) -> tuple[Any, str]:
    """Return the recorded body and its encoding, from the fields of either VCR or HAR."""
    body = message.get("body", message.get("content", message.get("postData")))
    if not isinstance(body, dict):
        return body, ""
    if "base64_string" in body:
        return body["base64_string"], "base64"
    encoding = "base64" if body.get("encoding") == "base64" else ""  # in Ruby's VCR, other values are text encodings
    return next((body[key] for key in ("string", "text") if key in body), body), encoding


def json_of(text: str) -> Any:
    """Return the JSON in a body, including a streamed one, or None if there is none."""
    start = text.lstrip()
    if start.startswith(("event:", "data:", ":", "id:", "retry:")):
        return response_of(text)
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        return None
    if isinstance(body, list) and all(isinstance(chunk, dict) and "candidates" in chunk for chunk in body):
        return response_of(
            "\n\n".join(f"data: {json.dumps(chunk)}" for chunk in body)
        )  # Google's JSON stream without server-sent events
    return body


def _decode_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text)
    except (binascii.Error, ValueError):
        return text.encode(errors="replace")


def _decompress(data: bytes) -> bytes:
    """Decompress a body compressed with gzip or deflate. Raises ValueError if it expands to more than `MAX_BODY_BYTES`."""
    if data[:2] != b"\x1f\x8b" and data[:1] != b"\x78":
        return data
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        unpacked = unpacker.decompress(data, MAX_BODY_BYTES)
    except zlib.error:
        return data
    if unpacker.unconsumed_tail:
        raise ValueError(f"a body expands to more than {MAX_BODY_BYTES / 1e6:.0f} MB")
    return unpacked
