"""What many formats hold alike: times, pictures, and contents that are a text or a list of parts."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from typing import Any

from agentnb.core.messages import AnyPart, Image, Text, Thinking

_SECONDS = 100_000_000_000
"""A number of seconds since 1970 above this, in the year 5138, is one of milliseconds."""
_TEXTS = frozenset({"text", "input_text", "output_text", "summary_text", "refusal"})


def time_of(value: Any) -> datetime | None:
    """Return a time written in ISO 8601, or as seconds, milliseconds or nanoseconds since 1970; None for anything else."""
    if isinstance(value, bool) or value is None:
        return None
    if isinstance(value, str):
        try:
            return datetime.fromisoformat(value)
        except ValueError:
            return None
    if not isinstance(value, int | float):
        return None
    seconds = float(value)
    while abs(seconds) > _SECONDS:
        seconds /= 1000
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def image_of(url: Any) -> Image | None:
    """Return the picture of a data URI; None for an address, which is never fetched."""
    if not isinstance(url, str) or not url.startswith("data:"):
        return None
    head, _, data = url.partition(",")
    if not head.endswith(";base64"):
        return None
    return picture(head[5:].partition(";")[0], data)


def picture(media_type: Any, data: Any) -> Image | None:
    """Return a picture whose bytes are given in base64; None if they are not."""
    try:
        return Image(str(media_type or "image/png"), base64.b64decode(data, validate=False))
    except (binascii.Error, TypeError, ValueError):
        return None


def parts_of(content: Any) -> list[AnyPart]:
    """Return the parts of a content as the APIs of OpenAI and Anthropic write it: a text, or a list of texts and objects.

    Calls and results are left out, since their formats read them. An object of an unknown kind is kept as its text, if it has
    one; a picture that is only linked, as its address.
    """
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)]
    if isinstance(content, dict):
        content = [content]
    return [part for one in content if (part := _part(one)) is not None]


def _part(one: Any) -> AnyPart | None:
    if isinstance(one, str):
        return Text(one)
    kind = one.get("type")
    if kind in _TEXTS:
        return Text(str(one.get("text", one.get("refusal", ""))))
    if kind in ("thinking", "reasoning"):
        return Thinking(str(one.get("thinking") or one.get("reasoning") or one.get("text") or ""))
    if kind in ("image_url", "input_image", "image"):
        return _picture(one)
    text = one.get("text")
    return Text(text) if isinstance(text, str) else None


def _picture(one: dict[str, Any]) -> AnyPart | None:
    source = one.get("source")
    if isinstance(source, dict) and source.get("type") == "base64":
        return picture(source.get("media_type"), source.get("data"))
    url = one.get("image_url", one.get("image", source))
    url = url.get("url") if isinstance(url, dict) else url
    return image_of(url) or (Text(f"[picture: {url[:200]}]") if isinstance(url, str) else None)
