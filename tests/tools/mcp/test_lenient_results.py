"""Results of servers that violate the protocol, read where possible."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from types import SimpleNamespace
from typing import Any

import pytest
from mcp import types as t

from agentnb.tools.mcp.connections.lenient_results import LISTS, mend_response, readable_list, readable_start

OBJECT = {"type": "object"}
HEADER = {"type": "object", "properties": {"a": {"type": "string", "x-mcp-header": "no header"}}}


def test_bad_tools_are_excluded_one_by_one_with_the_reason(subtests: pytest.Subtests) -> None:
    good = {"name": "good", "inputSchema": OBJECT}
    cases: dict[str, tuple[Any, str | None]] = {
        "usual": ({"name": "odd", "inputSchema": OBJECT}, None),
        "no type": ({"name": "odd", "inputSchema": {"properties": {}}}, None),
        "no schema": ({"name": "odd"}, None),
        "null schema": ({"name": "odd", "inputSchema": None}, None),
        "null properties": ({"name": "odd", "inputSchema": {"type": "object", "properties": None}}, None),
        "nullable object": ({"name": "odd", "inputSchema": {"type": ["object", "null"]}}, None),
        "wrong description": ({"name": "odd", "inputSchema": OBJECT, "description": 5}, None),
        "odd schema": ({"name": "odd", "inputSchema": {"$schema": 7, "properties": [], "required": "a"}}, None),
        "odd properties": ({"name": "odd", "inputSchema": {"type": "OBJECT", "properties": {"a": None, "b": "text"}}}, None),
        "wrong header": ({"name": "odd", "inputSchema": HEADER}, "x-mcp-header"),
        "wrong annotations": ({"name": "odd", "inputSchema": OBJECT, "annotations": "none"}, None),
        "wrong output schema": ({"name": "odd", "inputSchema": OBJECT, "outputSchema": []}, None),
        "array": ({"name": "odd", "inputSchema": {"type": "array"}}, "does not describe an object"),
        "text as schema": ({"name": "odd", "inputSchema": "object"}, "not an object"),
        "task": ({"name": "odd", "inputSchema": OBJECT, "execution": {"taskSupport": "required"}}, "as a task"),
    }
    for name, (tool, reason) in cases.items():
        with subtests.test(name):
            aside: dict[str, str] = {}
            page = readable_list({"tools": [good, tool]}, *LISTS["tools/list"], aside)
            names = [each["name"] for each in page["tools"]]
            if reason is None:
                assert (names, aside) == (["good", "odd"], {})
            else:
                assert names == ["good"] and reason in aside["odd"]
    aside = {}
    page = readable_list(
        {"tools": [3, {"name": ""}, {"inputSchema": OBJECT}, good], "nextCursor": 5}, *LISTS["tools/list"], aside
    )
    assert [tool["name"] for tool in page["tools"]] == ["good"] and "nextCursor" not in page
    assert list(aside) == ["number 1", "number 2", "number 3"]


def test_nonstandard_initial_messages_are_read(subtests: pytest.Subtests) -> None:
    for given, version in {
        "2025-06-18": "2025-06-18",
        "1.0": "2024-11-05",
        "2025-05-05": "2025-03-26",
        "2099-01-01": "2025-11-25",
    }.items():
        with subtests.test(given):
            assert readable_start({"protocolVersion": given})["protocolVersion"] == version
    for capabilities in (None, {"tools": [], "prompts": None}, {"tools": {"listChanged": "yes"}, "resources": False}):
        with subtests.test(str(capabilities)):
            start = readable_start({"capabilities": capabilities, "serverInfo": "me", "instructions": ["a"]})
            assert {*start["capabilities"]} == ({"tools"} if capabilities else set())
            t.InitializeResult.model_validate(start)


def test_http_messages_are_parsed_however_they_are_split(subtests: pytest.Subtests) -> None:
    batch, empty = b'\xef\xbb\xbf[{"id": 1, "result": {"a": 1}}]', b'{"id": 1}'
    of_batch, of_empty = (
        b'{"id":1,"result":{"a":1},"jsonrpc":"2.0"}',
        (b'{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"the response has no result"}}'),
    )
    odd, usual = b'{"id": 1, "result": "half \\ud83d"}', b'{"jsonrpc": "2.0", "id": 2, "result": {}}'
    read = b'{"id":1,"result":{"agentnb/bare":"half \xef\xbf\xbd"},"jsonrpc":"2.0"}'

    async def mended(kind: str, chunks: list[bytes]) -> bytes:
        async def given(size: int | None) -> AsyncGenerator[bytes, None]:
            for chunk in chunks:
                yield chunk

        response: Any = SimpleNamespace(aiter_bytes=given, headers={"content-type": kind})
        mend_response(response)
        return b"".join([chunk async for chunk in response.aiter_bytes()])

    event = b"event: message\ndata: %s\n\n: nothing\n\nid: 1\ndata:%s\n\n"
    cases = {
        "application/json": (odd, read),
        "application/json; odata": (batch, of_batch),
        "application/json; of=nothing": (empty, of_empty),
        "application/json; charset=utf-8": (usual, usual),
        "text/event-stream": (event % (odd, usual), event.replace(b"data: %s", b"data:%s") % (read, usual)),
        "text/html": (b"<p>", b"<p>"),
    }
    for kind, (body, expected) in cases.items():
        with subtests.test(kind):
            for place in range(len(body)):
                assert asyncio.run(mended(kind, [body[:place], body[place:]])) == expected
