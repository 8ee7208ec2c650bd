"""Results of MCP servers: what a model gets, what a person is shown."""

from __future__ import annotations

import base64
from typing import Any

from mcp import types as t

from agentnb.core.messages import Image, Text
from agentnb.tools.mcp.results import MAX_IMAGE_BYTES, MAX_TEXT_CHARACTERS, outcome_of

PNG = base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")


def image(data: bytes | str, kind: str = "image/png") -> t.ImageContent:
    """Return a picture as a server sends it."""
    return t.ImageContent(type="image", data=data if isinstance(data, str) else base64.b64encode(data).decode(), mime_type=kind)


def text(words: str) -> t.TextContent:
    """Return a text as a server sends it."""
    return t.TextContent(type="text", text=words)


def test_content_becomes_texts_and_pictures_in_their_order() -> None:
    blob = t.BlobResourceContents(uri="file:///x.bin", mime_type="application/x", blob=base64.b64encode(b"\0\1").decode())
    half = MAX_TEXT_CHARACTERS // 2
    cases: list[tuple[list[Any], list[str]]] = [
        ([text("a"), text("b")], ["a\nb"]),
        ([text("before"), image(PNG), text("after")], ["before", "(picture)", "after"]),
        ([image("no base64 !")], ["(a picture that cannot be shown, image/png)"]),
        ([image(b"<svg onload=alert(1)>", "image/svg+xml")], ["(a picture that cannot be shown, image/svg+xml)"]),
        ([image(PNG + b"\0" * MAX_IMAGE_BYTES)], ["(a picture that cannot be shown, image/png)"]),
        ([t.AudioContent(type="audio", data="", mime_type="audio/wav")], ["(audio, audio/wav)"]),
        ([t.ResourceLink(type="resource_link", uri="file:///a\nb", name="A")], ["(the resource file:///a b: A)"]),
        ([t.EmbeddedResource(type="resource", resource=blob)], ["(the resource file:///x.bin, application/x)"]),
        ([text("a\x1b[31m\U000e0041\ud800b")], ["a[31m?b"]),
        ([], ["(no content)"]),
        (
            [text("a" * MAX_TEXT_CHARACTERS + "b" * 1000)],
            [f"{'a' * half}\n[... 1,000 characters left out ...]\n{'a' * (half - 1000)}{'b' * 1000}"],
        ),
    ]
    for content, expected in cases:
        outcome = outcome_of(t.CallToolResult.model_construct(content=content, structured_content=None, is_error=False))
        shown = ["(picture)" if isinstance(part, Image) else part.text for part in outcome.parts]
        assert [words.replace("\N{REPLACEMENT CHARACTER}", "?") for words in shown] == expected
        assert outcome.ok


def test_structured_content_is_the_value_and_records_are_a_table() -> None:
    records = [{"port": "Brest", "height": 6.1}, {"port": "<b>Nantes</b>", "height": None}]
    for content, has_table in (
        ({"ports": records}, True),
        ({"ports": records, "n": 2}, False),
        ({"ports": []}, False),
        ({"ports": [{"port": {"nested": 1}}]}, False),
        ({"n": 2}, False),
    ):
        outcome = outcome_of(t.CallToolResult(content=[], structured_content=content))
        assert outcome.value == content
        assert (outcome.display is not None) == has_table, content
        assert isinstance(outcome.parts[0], Text)
    told = outcome_of(t.CallToolResult(content=[text("two ports")], structured_content={"ports": records}))
    assert told.text == "two ports", "the server's own words go to the model"
    assert told.display is not None
    assert told.display.columns == ("port", "height")


def test_content_that_does_not_fit_the_declared_schema_is_marked() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    cases: list[tuple[dict[str, Any] | None, dict[str, Any] | None, bool]] = [
        ({"n": 1}, schema, False),
        ({"n": "one"}, schema, True),
        (None, schema, True),
        (None, None, False),
        ({"n": 1}, {"$ref": "#/nowhere"}, False),
    ]
    for content, declared, is_marked in cases:
        outcome = outcome_of(t.CallToolResult(content=[text("told")], structured_content=content), declared)
        assert (outcome.ok, len(outcome.text.splitlines()) > 1) == (True, is_marked), content


def test_error_results_stay_errors_with_the_words_of_the_server() -> None:
    for content, problem in (([text("no such port")], "no such port"), ([], "The server gave no reason.")):
        outcome = outcome_of(t.CallToolResult(content=content, is_error=True))
        assert (outcome.ok, outcome.error_code, outcome.problem) == (False, "tool_error", problem)
