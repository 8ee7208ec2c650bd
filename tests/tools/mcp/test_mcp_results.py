"""Results of MCP servers, for a model and for a person."""

from __future__ import annotations

from base64 import b64decode, b64encode
from typing import Any

import pytest
from mcp import types as t

from agentnb.core.messages import Image, Text
from agentnb.tools.defaults import MAX_TEXT_CHARACTERS
from agentnb.tools.mcp.call_results import MAX_IMAGE_BYTES, MAX_ODD_CHARACTERS, NOT_OF_THE_PROTOCOL, outcome_of
from agentnb.tools.mcp.connections.lenient_results import readable_result, unwrap

PNG = b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


def image(data: bytes | str, kind: str = "image/png") -> dict[str, str]:
    """Return a picture as a server sends it."""
    return {"type": "image", "data": data if isinstance(data, str) else b64encode(data).decode(), "mimeType": kind}


def text(words: str) -> dict[str, str]:
    """Return a text as a server sends it."""
    return {"type": "text", "text": words}


def test_content_becomes_texts_and_pictures_in_order(subtests: pytest.Subtests) -> None:
    blob = {"uri": "file:///x.bin", "mimeType": "application/x", "blob": b64encode(b"\0\1").decode()}
    half = MAX_TEXT_CHARACTERS // 2
    cases: list[tuple[Any, list[str]]] = [
        ([text("a"), text("b")], ["a\nb"]),
        ([text("before"), image(PNG), text("after")], ["before", "(picture)", "after"]),
        ([image("no base64 !")], ["(a picture that cannot be displayed, image/png)"]),
        ([image(b"<svg onload=alert(1)>", "image/svg+xml")], ["(a picture that cannot be displayed, image/svg+xml)"]),
        ([image(PNG + b"\0" * MAX_IMAGE_BYTES)], ["(a picture that cannot be displayed, image/png)"]),
        ([{"type": "audio", "data": "", "mimeType": "audio/wav"}], ["(audio, audio/wav)"]),
        ([{"type": "resource_link", "uri": "file:///a\nb", "name": "A"}], ["(the resource file:///a b: A)"]),
        ([{"type": "resource", "resource": blob}], ["(the resource file:///x.bin, application/x)"]),
        ([text("a\x1b[31m\U000e0041\ud800b")], ["a[31m?b"]),
        ([], ["(no content)"]),
        (
            [text("a" * MAX_TEXT_CHARACTERS + "b" * 1000)],
            [f"{'a' * half}\n[... 1,000 characters left out ...]\n{'a' * (half - 1000)}{'b' * 1000}"],
        ),
        # not in the protocol
        ("three", ["three"]),
        (text("three"), ["three"]),
        (None, ["(no content)"]),
        ([{"text": "three"}, "four"], ["three\nfour"]),
        ([{"type": "resource", "resource": {"text": "three"}}], ["three"]),
        ([text("three"), {"type": "video", "data": "x"}], [f'three\n{NOT_OF_THE_PROTOCOL}\n{{"type":"video","data":"x"}}']),
        ([{"type": "image"}], [f'{NOT_OF_THE_PROTOCOL}\n{{"type":"image"}}']),
        ([{"a": "A" * 9_999}], [f'{NOT_OF_THE_PROTOCOL}\n{{"a":"{"A" * MAX_ODD_CHARACTERS} … (9,999 characters)"}}']),
    ]
    for content, expected in cases:
        for given in (content, {"content": content}) if not isinstance(content, dict) else ({"content": content},):
            with subtests.test(str(given)[:80]):
                outcome = outcome_of(given)
                shown = ["(picture)" if isinstance(part, Image) else part.text for part in outcome.parts]
                assert [words.replace("\N{REPLACEMENT CHARACTER}", "?") for words in shown] == expected
                assert outcome.ok
    assert outcome_of({"toolResult": {"sum": 3}}).text == f'{NOT_OF_THE_PROTOCOL}\n{{"toolResult":{{"sum":3}}}}'


def test_client_accepts_any_tool_result() -> None:
    for raw in ("three", None, [1], {"content": [text("three")], "structuredContent": [1]}):
        read = t.CallToolResult.model_validate(readable_result(raw), by_name=False)
        assert unwrap(read.structured_content) == raw
    for task in ({"task": {"taskId": "1"}}, {"resultType": "task", "taskId": "1"}):
        with pytest.raises(RuntimeError, match="as a task"):
            readable_result(task)


def test_structured_content_becomes_the_value_and_its_records_a_table() -> None:
    records = [{"port": "Brest", "height": 6.1}, {"port": "<b>Nantes</b>", "height": None}]
    for content, has_table in (
        ({"ports": records}, True),
        ({"ports": records, "n": 2}, False),
        ({"ports": []}, False),
        ({"ports": [{"port": {"nested": 1}}]}, False),
        ({"n": 2}, False),
    ):
        outcome = outcome_of({"structuredContent": content})
        assert outcome.value == content
        assert (outcome.display is not None) == has_table, content
        assert isinstance(outcome.parts[0], Text)
    outcome = outcome_of({"content": [text("two ports")], "structuredContent": {"ports": records}})
    assert outcome.text == "two ports", "the model gets the server's message"
    assert outcome.display is not None
    assert outcome.display.columns == ("port", "height")


def test_content_that_violates_the_declared_schema_is_marked() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    cases: list[tuple[dict[str, Any] | None, dict[str, Any] | None, bool]] = [
        ({"n": 1}, schema, False),
        ({"n": "one"}, schema, True),
        (None, schema, True),
        (None, None, False),
        ({"n": 1}, {"$ref": "#/nowhere"}, False),
    ]
    for content, declared, is_marked in cases:
        outcome = outcome_of({"content": [text("told")], "structuredContent": content}, declared)
        assert (outcome.ok, len(outcome.text.splitlines()) > 1) == (True, is_marked), content


def test_error_results_keep_the_server_message() -> None:
    for content, problem in (([text("no such port")], "no such port"), ([], "The server gave no reason.")):
        for flag in (True, "true"):
            outcome = outcome_of({"content": content, "isError": flag})
            assert (outcome.ok, outcome.error_code, outcome.problem) == (False, "tool_error", problem)
    assert all(outcome_of({"content": content, "isError": flag}).ok for flag in (False, None))
