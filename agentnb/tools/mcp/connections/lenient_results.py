"""Lenient reading of server results that violate the protocol."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

from agentnb.core.messages import JsonObject, encodable_data, visible
from agentnb.core.schema.nesting import MAX_DEPTH, cut_deep
from agentnb.core.schema.references import list_of

if TYPE_CHECKING:
    from pydantic import ValidationError

BARE = "agentnb/bare"
"""Key that wraps data that the client's models would reject."""
INTERNAL_ERROR = -32603
MAX_LEVELS = MAX_DEPTH + 20
"""Maximum nesting levels of a message, below the client's limit; a truncated schema is still too deep to be accepted."""
MAX_LINE_BYTES = 64_000_000
"""Maximum number of bytes in a message over HTTP: pictures exceed the client's own limit of 1 MB per event."""
_PAGE = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
_HINTS = ("readOnlyHint", "idempotentHint")
SetAside = dict[str, str]
"""Reasons for not offering tools, by tool name."""


def read_leniently(client: Any, set_aside: SetAside) -> None:
    """Make a client accept handshakes, tool lists and results that violate the protocol.

    ``set_aside`` receives the unusable tools of the most recent list, with the reasons.
    """
    connect: Callable[..., Awaitable[Any]] = client._connect
    send: Callable[..., Any]

    async def connect_leniently(*given: Any) -> Any:
        nonlocal send
        dispatcher = await connect(*given)
        send, dispatcher.send_raw_request = dispatcher.send_raw_request, send_leniently
        return dispatcher

    async def send_leniently(method: str, params: Any, *rest: Any, **options: Any) -> Any:
        raw = await send(method, params, *rest, **options)
        if method == "initialize":
            return readable_start(raw)
        if method in LISTS:
            is_of_tools = method == "tools/list"
            if is_of_tools and not (params or {}).get("cursor"):
                set_aside.clear()
            return readable_list(raw, *LISTS[method], set_aside if is_of_tools else {})
        return readable_result(unwrap(raw)) if method == "tools/call" else raw

    client._connect = connect_leniently


def unwrap(data: Any) -> Any:
    """Return data as sent by the server."""
    return data.get(BARE, data) if isinstance(data, Mapping) else data


def replace_body(response: Any, body: bytes) -> None:
    """Replace the remaining body of an HTTP response."""

    async def read_body(chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        await response.aclose()
        yield body

    response.aiter_bytes = read_body


def mend_response(response: Any) -> None:
    """Make the messages of an HTTP response readable for the client, whether in a JSON body or in the lines of its events."""
    read, is_stream = response.aiter_bytes, response.headers.get("content-type", "").startswith("text/event-stream")

    async def read_messages(chunk_size: int | None = None) -> AsyncGenerator[bytes, None]:
        pending, size = list[bytes](), 0
        async with aclosing(read(chunk_size)) as chunks:
            async for chunk in chunks:
                *lines, last = chunk.split(b"\n") if is_stream and size < MAX_LINE_BYTES else (chunk,)
                for line in lines:
                    yield _readable_line(b"".join([*pending, line])) + b"\n"
                    pending, size = [], 0
                pending.append(last)
                size += len(last)
                if size > MAX_LINE_BYTES:
                    yield b"".join(pending)
                    pending = []
        yield _readable_line(b"".join(pending))

    response.aiter_bytes = read_messages


def _readable_line(line: bytes) -> bytes:
    from mcp.types import jsonrpc_message_adapter
    from pydantic import ValidationError

    field = b"data:" if line.startswith(b"data:") else b""
    try:
        if line:
            jsonrpc_message_adapter.validate_json(line[len(field) :], by_name=False)
    except ValidationError as error:
        message = readable_message(error)
        return line if message is None else field + msgspec.json.encode(message)
    return line


def readable_message(error: ValidationError) -> JsonObject | None:
    """Convert a JSON-RPC message rejected by the client into a readable one, or return None if that is impossible.

    Levels beyond `MAX_LEVELS` are cut off, lone surrogates are replaced, results other than objects are wrapped in `BARE`, and
    missing codes and messages of errors are filled in.
    """
    candidates = [candidate["input"] for candidate in error.errors(include_url=False)]
    line = candidates[0].decode(errors="replace") if isinstance(candidates[0], bytes) else candidates[0]
    if isinstance(line, str):
        with suppress(ValueError, RecursionError):
            candidates = [json.loads(cut_deep(line.lstrip("\ufeff"), MAX_LEVELS), parse_int=_integer)]
    candidates = [candidate for part in candidates for candidate in (part if isinstance(part, list) else [part])]
    message = next((candidate for candidate in candidates if isinstance(candidate, dict) and "id" in candidate), None)
    if message is None:
        return None
    read = {**encodable_data(message), "jsonrpc": "2.0"}
    problem = read.get("error")
    if problem is not None or read.keys().isdisjoint(("result", "method")):
        details = problem if isinstance(problem, dict) else {"message": problem or "the response has no result"}
        code, why = details.get("code"), details.get("message", details)
        readable = {
            "code": code if type(code) is int else INTERNAL_ERROR,
            "message": why if isinstance(why, str) else msgspec.json.encode(why).decode(),
        }
        return {"jsonrpc": "2.0", "id": read["id"], "error": readable}
    return {**read, "result": {BARE: read["result"]}} if not isinstance(read.get("result", {}), dict) else read


def _integer(digits: str) -> int | str:
    try:
        return int(digits)
    except ValueError:  # more digits than Python converts: losing the whole answer would leave its call waiting
        return digits


def readable_start(raw: Mapping[str, Any]) -> JsonObject:
    """Return the required fields of the handshake. An unknown protocol version is treated as the latest known version before
    it.
    """
    from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS as KNOWN

    version, (info, can) = raw.get("protocolVersion"), (_object(raw.get(key)) for key in ("serverInfo", "capabilities"))
    return {
        "protocolVersion": max((version_name for version_name in KNOWN if version_name <= str(version)), default=KNOWN[0]),
        "capabilities": {
            key: {"listChanged": _object(can[key]).get("listChanged") is True}
            for key in ("tools", "resources", "prompts")
            if can.get(key) not in (None, False)
        },
        "serverInfo": {key: str(info.get(key) or "") for key in ("name", "title", "version")},
        "instructions": str(raw.get("instructions") or ""),
    }


def _object(value: Any) -> JsonObject:
    """Return a value if it is an object, otherwise an empty one."""
    return value if isinstance(value, dict) else {}


def readable_list(raw: Mapping[str, Any], key: str, read: Callable[[Any], Any], set_aside: SetAside) -> JsonObject:
    """Return a page of a list with only its valid items; the others are set aside, each with the reason."""
    items, cursor = list[Any](), raw.get("nextCursor")
    for position, item in enumerate(list_of(raw.get(key, raw.get(BARE)))):
        try:
            items.append(read(item))
        except ValueError as error:
            name = item.get("name") if isinstance(item, dict) else None
            set_aside[name if isinstance(name, str) and name else f"number {position + 1}"] = str(error)
    return {**_PAGE, key: items, **({"nextCursor": cursor} if isinstance(cursor, str) else {})}


def _valid_item(model: str, item: Any) -> Any:
    """Return a valid item of a list. Raises `ValueError` for an invalid one."""
    from mcp import types

    getattr(types, model).model_validate(item, by_name=False)
    return item


def _readable_tool(tool: Any) -> JsonObject:
    """Return the required fields of a tool, with its schemas unchanged. Raises `ValueError` for an unusable tool."""
    from mcp.shared.inbound import find_invalid_x_mcp_header

    if not isinstance(tool, dict):
        raise ValueError("it is not an object")
    if not isinstance(tool.get("name"), str) or not tool["name"]:
        raise ValueError("it has no name")
    schema = tool.get("inputSchema")
    schema = {} if schema in (None, True) else schema
    if not isinstance(schema, dict):
        raise ValueError("its schema is not an object")
    kinds, properties = schema.get("type") or "object", schema.get("properties")
    if "object" not in [str(kind).lower() for kind in (kinds if isinstance(kinds, list) else [kinds])]:
        raise ValueError("its schema does not describe an object")
    if problem := find_invalid_x_mcp_header(schema):
        raise ValueError(visible(problem))
    hints, output = _object(tool.get("annotations")), tool.get("outputSchema")
    if _object(tool.get("execution")).get("taskSupport") == "required":
        raise ValueError("it runs only as a task, which agentnb does not support")
    headers = {name: definition for name, definition in _object(properties).items() if isinstance(definition, dict)}
    return {
        "name": tool["name"],
        "inputSchema": {"type": "object", "properties": headers, BARE: schema},  # some properties are sent as headers
        **{key: tool[key] for key in ("title", "description") if isinstance(tool.get(key), str)},
        **({"outputSchema": {"type": "object", BARE: output}} if isinstance(output, dict) else {}),
        "annotations": {key: hints[key] for key in _HINTS if type(hints.get(key)) is bool},
    }


LISTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "tools/list": ("tools", _readable_tool),
    "resources/list": ("resources", partial(_valid_item, "Resource")),
    "resources/templates/list": ("resourceTemplates", partial(_valid_item, "ResourceTemplate")),
    "prompts/list": ("prompts", partial(_valid_item, "Prompt")),
}
"""List requests, with the key and the parser of the items."""


def readable_result(raw: Any) -> JsonObject:
    """Return the result of a call in a form that the client accepts, wrapped in `BARE`."""
    if isinstance(raw, Mapping):
        if "content" not in raw and ("task" in raw or raw.get("resultType") == "task"):
            raise RuntimeError("it runs the call as a task, which agentnb does not support")
        if raw.get("resultType") == "input_required" or ("content" not in raw and "inputRequests" in raw):
            return dict(raw)
    return {"resultType": "complete", "content": [], "structuredContent": {BARE: raw}}
