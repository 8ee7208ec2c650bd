"""Results of servers that the client cannot model, read as far as they can be."""

from __future__ import annotations

from typing import Any

import pytest

from agentnb.tools.mcp.connections.lenient_results import readable_list, readable_result

VERSION = "2025-06-18"
OBJECT = {"type": "object"}
TEXT = {"type": "text", "text": "three"}


def test_bad_tools_are_set_aside_alone_with_the_reason(subtests: pytest.Subtests) -> None:
    good = {"name": "good", "inputSchema": OBJECT}
    cases: dict[str, tuple[Any, str | None]] = {
        "usual": ({"name": "odd", "inputSchema": OBJECT}, None),
        "no type": ({"name": "odd", "inputSchema": {"properties": {}}}, None),
        "no schema": ({"name": "odd"}, None),
        "null schema": ({"name": "odd", "inputSchema": None}, None),
        "null properties": ({"name": "odd", "inputSchema": {"type": "object", "properties": None}}, None),
        "nullable object": ({"name": "odd", "inputSchema": {"type": ["object", "null"]}}, None),
        "wrong description": ({"name": "odd", "inputSchema": OBJECT, "description": 5}, None),
        "wrong annotations": ({"name": "odd", "inputSchema": OBJECT, "annotations": "none"}, None),
        "wrong output schema": ({"name": "odd", "inputSchema": OBJECT, "outputSchema": []}, None),
        "array": ({"name": "odd", "inputSchema": {"type": "array"}}, "does not describe an object"),
        "text as schema": ({"name": "odd", "inputSchema": "object"}, "not an object"),
        "task": ({"name": "odd", "inputSchema": OBJECT, "execution": {"taskSupport": "required"}}, "as a task"),
    }
    for name, (tool, reason) in cases.items():
        with subtests.test(name):
            aside: dict[str, str] = {}
            page = readable_list({"tools": [good, tool]}, VERSION, aside)
            names = [each["name"] for each in page["tools"]]
            if reason is None:
                assert (names, aside) == (["good", "odd"], {})
            else:
                assert names == ["good"] and reason in aside["odd"]
    aside = {}
    page = readable_list({"tools": [3, {"name": ""}, {"inputSchema": OBJECT}, good], "nextCursor": 5}, VERSION, aside)
    assert [tool["name"] for tool in page["tools"]] == ["good"] and "nextCursor" not in page
    assert list(aside) == ["number 1", "number 2", "number 3"]


def test_results_that_are_not_of_the_protocol_are_read_with_a_note(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[Any, list[str]]] = {
        "usual": ({"content": [TEXT]}, ["three"]),
        "a text": ("three", ["three"]),
        "content is a text": ({"content": "three"}, ["three"]),
        "content is one block": ({"content": TEXT}, ["three"]),
        "no content": ({"structuredContent": {"n": 3}}, []),
        "unknown block": ({"content": [TEXT, {"type": "video", "data": "x"}]}, ["three", '"video"']),
        "block without a type": ({"content": [{"text": "three"}]}, ["three"]),
        "block without its data": ({"content": [{"type": "image"}]}, ['"image"']),
        "structured list": ({"content": [TEXT], "structuredContent": [1]}, ["three", "[1]"]),
        "a list": ([TEXT, "four"], ["three", "four"]),
        "nothing": (None, []),
        "of an early version": ({"toolResult": {"sum": 3}}, ['"sum"']),
        "resource without an address": ({"content": [{"type": "resource", "resource": {"text": "three"}}]}, [""]),
        "a film": ({"content": [{"type": "video", "data": "A" * 9_999}]}, ["(9,999 characters)"]),
    }
    for name, (raw, expected) in cases.items():
        with subtests.test(name):
            content = readable_result(raw, VERSION)["content"]
            assert len(content) == len(expected)
            assert all(words in block.get("text", "") for words, block in zip(expected, content, strict=True))
    assert readable_result({"content": [{"type": "image", "data": "AAAA"}]}, VERSION)["content"][0]["type"] == "image"
    for task in ({"task": {"taskId": "1"}}, {"resultType": "task", "taskId": "1"}):
        with pytest.raises(RuntimeError, match="as a task"):
            readable_result(task, VERSION)
