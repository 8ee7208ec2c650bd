"""Values that many formats share: times, images, and contents that are text or a list of parts."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from agentnb.core.messages import AnyPart, Image, Text, Thinking

_SECONDS = 100_000_000_000
"""Largest timestamp that is interpreted as seconds (year 5138); larger ones are in milliseconds or finer units."""
_MAX_NANOSECONDS = 100_000_000_000_000_000_000
"""The same year in nanoseconds; a number that is larger or infinite is not a time."""
MAX_URL_CHARACTERS = 200
"""Maximum characters of a URL or name in the line that replaces an image or file."""
_TEXTS = frozenset({"text", "input_text", "output_text", "summary_text", "reasoning_text", "refusal"})
_NAMED = {
    "input_audio": "audio",
    "output_audio": "audio",
    "audio": "audio",
    "file": "file",
    "input_file": "file",
    "container_upload": "file",
    "document": "document",
    "search_result": "search result",
    "video_url": "video",
}
"""Kinds of parts that are replaced by their text or, if they have none, by a line with this word and their name."""


def time_of(value: Any) -> datetime | None:
    """Return a time given in ISO 8601, or in seconds, milliseconds or nanoseconds since 1970; None for other values."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, int | float):
        return None
    seconds: float = value
    while _SECONDS < abs(seconds) < _MAX_NANOSECONDS:
        seconds /= 1000
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def utc_time_of(value: Any) -> datetime | None:
    """Return a time, as `time_of` does. A time without a time zone is in UTC."""
    time = time_of(value)
    return time.replace(tzinfo=UTC) if time is not None and time.tzinfo is None else time


def value_at(value: Any, *names: str) -> Any:
    """Return the value under these names in nested objects, or None."""
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def as_list(value: Any) -> list[Any]:
    """Return a list unchanged; wrap any other value in a list."""
    return value if isinstance(value, list) else [value]


def first_at(fields: Any, *names: str) -> Any:
    """Return the first value under these names that is true, or else the last."""
    value = None
    for name in names:
        if value := fields.get(name):
            break
    return value


def strings_of(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return the fields with these names that are strings."""
    return {name: fields[name] for name in names if isinstance(fields.get(name), str)}


def str_at(fields: Any, *names: str) -> str:
    """Return the first value under these names that is true, as text; empty if there is none."""
    return str(first_at(fields, *names) or "")


def time_at(fields: Any, *names: str) -> datetime | None:
    """Return the time under the first of these names, or under ``timestamp``; None if there is none."""
    return time_of(first_at(fields, *names or ("timestamp",)))


def image_of(url: Any) -> Image | None:
    """Return the image in a data URI, or None for other URLs, which are never fetched."""
    if not isinstance(url, str) or not url.startswith("data:"):
        return None
    head, _, data = url.partition(",")
    if not head.endswith(";base64"):
        return None
    return picture(head[5:].partition(";")[0], data)


def picture(media_type: Any, data: Any) -> Image | None:
    """Return an image from base64 data, or None if the data is invalid."""
    try:
        return Image(str(media_type or "image/png"), base64.b64decode(data, validate=False))
    except (binascii.Error, TypeError, ValueError):
        return None


def parts_of(content: Any) -> list[AnyPart]:
    """Return the parts of message content as in the APIs of OpenAI and Anthropic: text, or a list of texts and objects.

    Calls and results are skipped, because each format reads its own. An object of an unknown kind is replaced by its text, if
    any; audio and files by a line that names them; and a linked image by its URL.
    """
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)] if content.strip() else []
    if isinstance(content, dict):
        content = [content]
    parts = (_part(item) for item in content)
    return [part for part in parts if part is not None and not (isinstance(part, Text) and not part.text)]


def result_parts(content: Any) -> list[AnyPart]:
    """Return the parts of a tool result as `parts_of` does; any other content becomes JSON text."""
    if content is None or isinstance(content, str):
        return parts_of(content)
    items = as_list(content)
    parts: list[AnyPart] = []
    for item in items:
        if isinstance(item, str | dict) and (part := _part(item)) is not None:
            parts.append(part)
        else:
            parts = []
            break
    return parts or ([] if content in ([], {}) else [Text(json_text(content))])


def cost_of(value: Any) -> float | None:
    """Return a cost in US dollars, or None if it is invalid."""
    is_cost = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9
    return float(value) if is_cost else None


def json_text(value: Any) -> str:
    """Return plain data as JSON text; text is returned unchanged."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def text_of(content: Any) -> str:
    """Return the text in message content, leaving out other parts."""
    return texts_of(parts_of(content))


def texts_of(parts: Iterable[AnyPart]) -> str:
    """Return the texts among the parts, leaving out thinking."""
    return "".join([part.text for part in parts if isinstance(part, Text)])


def _part(one: Any) -> AnyPart | None:
    if isinstance(one, str):
        return Text(one)
    kind = one.get("type")
    if kind in _TEXTS:
        value = one.get("text", one.get("refusal"))
        return Text(value if isinstance(value, str) else json_text(value or ""))
    if kind in ("thinking", "reasoning"):
        return Thinking(str_at(one, "thinking", "reasoning", "text"))
    if kind in ("image_url", "input_image", "image"):
        return _picture(one)
    if kind in _NAMED:
        return _describe_file(kind, one)
    text = one.get("text")
    return Text(text) if isinstance(text, str) else None


def _picture(one: dict[str, Any]) -> AnyPart | None:
    source = one.get("source")
    if isinstance(source, dict) and source.get("type") == "base64":
        return picture(source.get("media_type"), source.get("data"))
    if "data" in one and ("mimeType" in one or "media_type" in one):  # as MCP and the AI SDK write it
        return picture(first_at(one, "mimeType", "media_type"), one["data"])
    url = one.get("image_url", one.get("image", source))
    url = first_at(url, "url", "file_id") if isinstance(url, dict) else url or one.get("file_id")
    return image_of(url) or (Text(f"[picture: {url[:MAX_URL_CHARACTERS]}]") if isinstance(url, str) else None)


def _describe_file(kind: str, one: dict[str, Any]) -> Text:
    """Return the text of audio, a file or a document or, if it has none, a line that names it."""
    inner = one.get(kind)
    fields: dict[str, Any] = inner if isinstance(inner, dict) else one
    if isinstance(transcript := fields.get("transcript"), str):
        return Text(transcript)
    source = fields.get("source")
    if isinstance(source, dict):
        if source.get("type") == "text" and isinstance(source.get("data"), str):
            return Text(source["data"])
        if source.get("type") == "content":
            return Text(text_of(source.get("content")))
        fields = {**source, **fields}
    if kind == "search_result":
        return Text(text_of(fields.get("content")) or f"[search result: {fields.get('title')}]")
    candidates = [fields.get(key) for key in ("title", "filename", "file_url", "url", "file_id", "id", "format", "media_type")]
    name = next((candidate for candidate in candidates if isinstance(candidate, str) and candidate), "")
    return Text(f"[{_NAMED[kind]}: {name[:MAX_URL_CHARACTERS]}]" if name else f"[{_NAMED[kind]}]")
