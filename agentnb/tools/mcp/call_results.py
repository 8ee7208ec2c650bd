"""Results of MCP servers as outcomes of calls."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from agentnb.core.display_data import Table
from agentnb.core.messages import Image, ResultParts, Text, visible
from agentnb.core.schema.json_schema import UnusableSchema, schema_errors, usable_schema
from agentnb.tools.data_frames import frame_table
from agentnb.tools.defaults import MAX_TEXT_CHARACTERS
from agentnb.tools.pictures import media_type
from agentnb.tools.rendering import as_text, joined_texts
from agentnb.tools.tool import ToolOutcome

MAX_IMAGE_BYTES = 5_000_000
MAX_LINE_CHARACTERS = 400
MAX_ODD_CHARACTERS = 2_000
"""Maximum number of characters of text in content that violates the protocol."""
NOT_OF_THE_PROTOCOL = "(The server sent content that violates the protocol; here it is as JSON:)"
_FIELDS = frozenset({"content", "structuredContent", "isError", "_meta", "resultType"})


def outcome_of(given: Any, output_schema: dict[str, Any] | None = None) -> ToolOutcome:
    """Return the outcome of a call: text joined by newlines, pictures, and the structured content as its value.

    ``given``: result from the server; ``output_schema``: schema that the server declares. A mismatch is noted in the outcome.
    """
    raw = given if isinstance(given, Mapping) else {"content": given}
    structured, others = (
        raw.get("structuredContent"),
        {key: field_value for key, field_value in raw.items() if key not in _FIELDS},
    )
    content = raw.get("content", others if structured is None else None) or []
    parts = parts_of(content if isinstance(content, list) else [content])
    if structured is not None and not parts:
        parts = (_text(as_text(structured)),)
    if str(raw.get("isError")).casefold() in ("true", "1", "yes"):
        problem = text_of(parts) or "The server gave no reason."
        return ToolOutcome(False, parts or (Text(problem),), error_code="tool_error", problem=problem)
    value = text_of(parts) if structured is None else structured
    if problem := _misfit(structured, output_schema):
        parts = (*parts, Text(f"(This does not match the server's schema: {visible(problem)})"))
    return outcome_of_parts(parts, value, _table(structured))


def outcome_of_parts(parts: ResultParts, value: Any = None, display: Table | None = None) -> ToolOutcome:
    """Return the outcome of a call with these parts; by default, its value is their text."""
    return ToolOutcome(True, parts or (Text("(no content)"),), text_of(parts) if value is None else value, display=display)


def text_of(parts: Iterable[Text | Image]) -> str:
    """Join the text parts with newlines."""
    return "\n".join(part.text for part in parts if isinstance(part, Text))


def _misfit(content: Any, schema: dict[str, Any] | None) -> str:
    """Describe how structured content deviates from the declared schema, or return ""."""
    if schema is None:
        return ""
    if content is None:
        return "there is no structured content"
    try:
        return next((error.sentence for error in schema_errors(usable_schema(schema).schema, content)), "")
    except UnusableSchema:
        return ""


def _table(content: Any) -> Table | None:
    """Return structured content as a table for the person, if it is a list of records, alone or under a single key."""
    records = next(iter(content.values())) if isinstance(content, dict) and len(content) == 1 else content
    if not isinstance(records, list) or not records or not all(isinstance(record, dict) and record for record in records):
        return None
    if any(isinstance(cell, dict | list) for record in records for cell in record.values()):
        return None
    from pandas import DataFrame

    return frame_table(DataFrame(records))


def parts_of(content: Iterable[Any]) -> ResultParts:
    """Convert content blocks for the model, merging adjacent text."""
    return tuple(joined_texts(map(_part, content)))


def _part(block: Any) -> Text | Image:
    """Convert a content block, to JSON if it violates the protocol."""
    read: Any = {"text": block} if isinstance(block, str) else block
    match read:
        case {"text": str(text), **others} if (others.get("type") or "text") == "text":
            return _text(text)
        case {"type": "image", "data": str()}:
            return _image(block["data"]) or Text(f"(a picture that cannot be displayed, {_word(block, 'mimeType')})")
        case {"type": "audio", "data": str()}:
            return Text(f"(audio, {_word(block, 'mimeType')})")
        case {"type": "resource_link", "uri": str()}:
            return Text(f"(the resource {_word(block, 'uri')}: {_word(block, 'name')})")
        case {"type": "resource", "resource": ({"text": str()} | {"blob": str()}) as resource}:
            return resource_part(resource)
    return _text(f"{NOT_OF_THE_PROTOCOL}\n{msgspec.json.encode(_truncate(block)).decode()}")


def resource_part(resource: Mapping[str, Any]) -> Text | Image:
    """Convert the contents of a resource for the model."""
    if isinstance(resource.get("text"), str):
        return _text(resource["text"])
    note = f"(the resource {_word(resource, 'uri')}, {_word(resource, 'mimeType') or 'bytes'})"
    return _image(resource["blob"]) or Text(note)


def _word(block: Mapping[str, Any], key: str) -> str:
    return one_line(block.get(key) or "")


def _truncate(value: Any) -> Any:
    """Truncate long strings in plain data, such as the bytes of a video."""
    if isinstance(value, str) and len(value) > MAX_ODD_CHARACTERS:
        return f"{value[:MAX_ODD_CHARACTERS]} … ({len(value):,} characters)"
    if isinstance(value, dict):
        return {key: _truncate(item) for key, item in value.items()}
    return [_truncate(item) for item in value] if isinstance(value, list) else value


def _text(text: str) -> Text:
    """Return text from the server, reduced to its beginning and end if very long."""
    if len(text) > MAX_TEXT_CHARACTERS:
        half, left_out = MAX_TEXT_CHARACTERS // 2, len(text) - MAX_TEXT_CHARACTERS
        text = f"{text[:half]}\n[... {left_out:,} characters left out ...]\n{text[-half:]}"
    return Text(visible(text))


def _image(data: str) -> Image | None:
    """Return a picture if the bytes have a known image format, regardless of the declared type."""
    try:
        decoded = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    kind = media_type(decoded)
    return Image(kind, decoded) if kind is not None and len(decoded) <= MAX_IMAGE_BYTES else None


def one_line(text: object) -> str:
    """Return server text on one line, truncated."""
    return " ".join(visible(str(text)).split())[:MAX_LINE_CHARACTERS]
