"""API requests and responses, in whatever form records wrap them."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from agentnb.core.messages import encodable_data
from agentnb.core.request import ToolSpec
from agentnb.interchange.formats.message_content import first_at, str_at
from agentnb.interchange.formats.steps import Step
from agentnb.models.providers.serialization import object_of

MAX_RECORDED_CHARACTERS = 20_000
"""Maximum JSON characters of a field that is kept in a run's recorded data."""
RUN_ID, PARENT_ID = "agentnb.run_id", "agentnb.parent_id"
"""Metadata keys in requests exported by agentnb, each of which holds a complete run; for Anthropic's API, they are within
``user_id``.
"""
REQUEST_KEYS = ("request", "body", "params", "kwargs", "input", "inputs", "parsed_body", "json")
RESPONSE_KEYS = ("response", "result", "output", "outputs", "completion", "body", "message", "parsed_body", "json")
_CONVERSATION_KEYS = frozenset(
    {"messages", "input", "contents", "system", "instructions", "systemInstruction", "tools", "model"}
)
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_SECRET = frozenset(
    {
        "authorization",
        "authorization_token",
        "api_key",
        "apikey",
        "x-api-key",
        "headers",
        "extra_headers",
        "extra_query",
        "cookie",
    }
)


@dataclass(frozen=True)
class Api:
    """The format of conversations in an API."""

    name: str
    lacks: str
    """The part that a file of another kind lacks, as the end of a sentence."""
    is_request: Callable[[Any], bool]
    is_conversation: Callable[[Any], bool]
    """True for a bare list of the API's messages or items."""
    is_response: Callable[[Any], bool]
    request_steps: Callable[[dict[str, Any]], list[Step]]
    steps_of: Callable[[list[Any]], list[Step]]
    response_steps: Callable[[dict[str, Any]], list[Step]]
    """The replies in a response; the last reply includes the usage."""
    tools_of: Callable[[dict[str, Any], dict[str, Any]], tuple[ToolSpec, ...]]
    """The tools in a request and its response, either of which may be empty."""


class Exchange(NamedTuple):
    """A request and its reply or error."""

    position: str
    steps: list[Step]
    """Steps of the request, both repeated and new."""
    reply: list[Step] | None
    """Steps of the reply, or None if there is no response or it is an error."""
    error: str = ""
    model: str = ""
    tools: tuple[ToolSpec, ...] = ()
    recorded: Mapping[str, Any] = MappingProxyType({})
    id: str = ""
    """Id of the response."""
    follows: str = ""
    """Id of the earlier response, or the stored conversation, that the request continues without repeating it."""


def exchange_of(api: Api, record: Any, position: str = "") -> Exchange | None:
    """Return the exchange in a record that has a request, a response or both, otherwise None."""
    if api.is_conversation(record):
        return Exchange(position, api.steps_of(record), None)
    if not isinstance(record, dict):
        return None
    request, response = find(record, api.is_request, REQUEST_KEYS), find(record, api.is_response, RESPONSE_KEYS)
    if request is None and response is None:
        return None
    asked, answered = request or {}, response or {}
    error = error_of(record) if response is None or response.get("error") else ""
    remaining = {key: value for key, value in record.items() if key not in {*REQUEST_KEYS, *RESPONSE_KEYS}}
    extra = {} if record is request or record is response else remaining
    follows = first_at(asked, "previous_response_id", "conversation") or ""
    return Exchange(
        position,
        api.request_steps(asked) if asked else [],
        api.response_steps(answered) if answered and not error else None,
        error,
        str(asked.get("model") or first_at(answered, "model", "modelVersion") or ""),
        api.tools_of(asked, answered),
        recorded_of({**_settings_of(asked), **extra}),
        str_at(answered, "id"),
        str((follows.get("id") if isinstance(follows, dict) else follows) or ""),
    )


def own_ids(exchange: Exchange) -> tuple[str, str | None]:
    """Return the ids of the run and its parent if agentnb exported this request; otherwise, "" and None."""
    metadata = exchange.recorded.get("metadata")
    if isinstance(metadata, dict) and isinstance(user := metadata.get("user_id"), str) and user.startswith(RUN_ID):
        metadata = dict(entry.split("=", 1) for entry in user.split() if "=" in entry)
    ids = [metadata.get(key) for key in (RUN_ID, PARENT_ID)] if isinstance(metadata, dict) else []
    run_id, parent_id = [entry if isinstance(entry, str) and _ID.fullmatch(entry) else None for entry in ids] or [None, None]
    return run_id or "", parent_id


def find(value: Any, fits: Callable[[Any], bool], keys: Iterable[str], depth: int = 4) -> dict[str, Any] | None:
    """Return the first value that fits, searching these keys down to this depth and parsing JSON text."""
    if isinstance(value, str) and value[:1] == "{":
        with suppress(ValueError, RecursionError):
            value = json.loads(value)
    if not isinstance(value, dict):
        return None
    if fits(value):
        return value
    for key in keys if depth else ():
        match = find(value.get(key), fits, keys, depth - 1)
        if match is not None:
            return match
    return None


def error_of(record: Any) -> str:
    """Return the error message in a response, or an empty text."""
    for _ in range(4):
        if not isinstance(record, dict):
            return ""
        error = record.get("error")
        if isinstance(error, dict) and error.get("message"):
            return ": ".join(str(part) for part in (first_at(error, "type", "code"), error["message"]) if part)
        if isinstance(error, str) and error:
            return error
        record = next((record[key] for key in ("error", *RESPONSE_KEYS) if isinstance(record.get(key), dict)), None)
    return ""


def tool_specs(functions: Iterable[Any], schema: str = "parameters") -> tuple[ToolSpec, ...]:
    """Return the tools in these function definitions. ``schema``: the key that holds the schema of their arguments."""
    return tuple(
        ToolSpec(function["name"], str_at(function, "description"), dict(object_of(function.get(schema))))
        for function in functions
        if isinstance(function, dict) and isinstance(function.get("name"), str)
    )


def recorded_of(fields: dict[str, Any]) -> dict[str, Any]:
    """Return the fields to keep in a run's recorded data, leaving out empty or bulky values and API keys."""
    kept = {
        key: _without_keys(value) for key, value in fields.items() if key not in _SECRET and value not in (None, "", [], {})
    }
    kept = {key: value for key, value in kept.items() if len(json.dumps(value, default=str)) <= MAX_RECORDED_CHARACTERS}
    return encodable_data(kept)  # type: ignore[no-any-return]


def _without_keys(value: Any) -> Any:
    """Return plain data without the fields for API keys or headers."""
    if isinstance(value, list):
        return [_without_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {key: _without_keys(item) for key, item in value.items() if str(key).lower() not in _SECRET}


def _settings_of(request: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in request.items() if key not in _CONVERSATION_KEYS}
