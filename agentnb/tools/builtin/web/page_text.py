"""The text of a page: decoded, and of HTML what a reader sees."""

from __future__ import annotations

import codecs
import re

from agentnb.core.messages import visible
from agentnb.tools.builtin.web.html_text import html_text

HTML_TYPES = ("text/html", "application/xhtml+xml")
TEXT_TYPES = frozenset(
    f"application/{name}"
    for name in ("json", "xml", "javascript", "ecmascript", "yaml", "x-yaml", "toml", "sql", "graphql", "x-ndjson", "jsonl")
)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_TEXT_CODEC = re.compile(
    r"utf-(?:8|16|32).*|ascii|iso8859-\d+|cp\d+|koi8-\w|gb\w+|big5\w*|euc_\w+|iso2022_\w+|shift_\w+|mac-\w+"
)
"""The codecs of pages; Python knows others, which run long or are not of the web."""
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def is_text(content_type: str) -> bool:
    """Return whether a reply of this type is text. A reply without a type may be."""
    kind = media_type(content_type)
    return not kind or kind.startswith("text/") or kind in TEXT_TYPES or kind.endswith(("+json", "+xml", "+yaml"))


def page_text(content_type: str, body: bytes, address: str) -> str:
    """Return the text of a page. ``address``: to which its links are relative."""
    text = decoded(content_type, body).replace("\r\n", "\n")
    kind = media_type(content_type)
    is_html = kind in HTML_TYPES or (not kind and text.lstrip()[:15].lower().startswith(("<!doctype html", "<html")))
    return visible(html_text(text, address) if is_html else text).strip()


def decoded(content_type: str, body: bytes) -> str:
    """Return the text of a body, in the character set that it declares; UTF-8 by default."""
    named = next((codec for mark, codec in _BYTE_ORDER_MARKS if body.startswith(mark)), "")
    declared = _CHARSET.search(content_type) or _CHARSET.search(body[:1024].decode("latin-1"))
    if not named and declared is not None:
        named = _text_codec(declared[1])
    return body.decode(named or "utf-8", "replace")


def _text_codec(name: str) -> str:
    """Return the codec of a character set; empty if it is not one of pages."""
    try:
        codec = codecs.lookup(name).name
    except (LookupError, ValueError):
        return ""
    if codec in ("iso8859-1", "ascii"):
        return "cp1252"  # as all browsers read it
    return codec if _TEXT_CODEC.fullmatch(codec) else ""


def media_type(content_type: str) -> str:
    """Return the type without its parameters, in lower case."""
    return content_type.partition(";")[0].strip().lower()
