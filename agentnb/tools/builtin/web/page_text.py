"""Text of a page: decoded and, for HTML, reduced to what a reader sees."""

from __future__ import annotations

import codecs
import re
from html.parser import HTMLParser
from urllib.parse import urljoin

from agentnb.core.messages import visible


def _tags(names: str) -> frozenset[str]:
    return frozenset(names.split())


BLOCKS = _tags(
    "address article aside blockquote body center dd details dialog div dl dt fieldset figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 header hr html legend li main menu nav ol p pre section summary table tbody tfoot thead title tr ul"
)
PARAGRAPHS = _tags("article blockquote dl figure h1 h2 h3 h4 h5 h6 ol p pre section table title ul")
"""Blocks surrounded by empty lines."""
HEADINGS = {"title": "# ", **{f"h{level}": f"{'#' * level} " for level in range(1, 7)}}
LEFT_OUT = _tags(
    "applet audio canvas iframe math noembed noframes noscript object script select style svg template textarea video"
)
VOID = _tags("area base br col embed hr img input link meta source track wbr")
CLOSED_BY_NEXT = _tags("dd dt li option p td th tr")
"""Elements with an optional end tag."""
_HIDDEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|(?:font-size|opacity)\s*:\s*0*\.?0*(?:px|em|rem|pt|%)?\s*(?:;|!|$)",
    re.IGNORECASE,
)
_LONG_TAG = re.compile(r"<[^<>]{20000,}>?")
"""Tags that embed a picture, or are designed to fill the parser's memory."""
MAX_LINK_CHARACTERS = 500


def html_text(html: str, address: str) -> str:
    """Return the visible text of an HTML page. ``address``: base of its links."""
    reader = _Reader(address)
    # Not closed: the parser would rescan an unfinished end from each `<`.
    reader.feed(_LONG_TAG.sub("", html))
    return reader.text


class _Reader(HTMLParser):
    """Parser that collects the text of a page."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address
        self._pieces: list[str] = []
        self._left_out = ""
        """Name of the open element whose content is skipped, or ""."""
        self._depth = 0
        """Number of open elements with that name."""
        self._preformatted = 0
        self._cells = 0
        self._link = ""
        self._link_start = 0

    @property
    def text(self) -> str:
        """The text, with at most one empty line between blocks."""
        lines = [line.rstrip() for line in "".join(self._pieces).split("\n")]
        return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Start an element."""
        if self._left_out:
            if tag == self._left_out and tag not in CLOSED_BY_NEXT:
                self._depth += 1
            if tag != self._left_out or tag not in CLOSED_BY_NEXT:
                return
            self._left_out = ""
        attributes = dict(attrs)
        if tag in LEFT_OUT or (tag not in VOID and _is_hidden(attributes)):
            self._left_out, self._depth = tag, 1
            if tag in BLOCKS:
                self._break(tag)
            return
        self._begin_block(tag)
        if tag == "a":
            self._begin_link(attributes.get("href") or "")
        elif tag == "img" and (alternative := (attributes.get("alt") or "").strip()):
            self._pieces.append(f"[image: {alternative}]")

    def _begin_block(self, tag: str) -> None:
        if tag in BLOCKS:
            self._break(tag)
        if tag in HEADINGS:
            self._pieces.append(HEADINGS[tag])
        elif tag == "li":
            self._pieces.append("- ")
        elif tag == "tr":
            self._cells = 0
        elif tag in ("td", "th"):
            self._pieces.append(" | " if self._cells else "")
            self._cells += 1
        elif tag == "br":
            self._pieces.append("\n")
        elif tag == "pre":
            self._preformatted += 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Start an element: HTML ignores the slash at the end of a tag."""
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        """End an element."""
        if self._left_out:
            self._depth -= tag == self._left_out
            if self._depth <= 0:
                self._left_out = ""
            return
        if tag == "a":
            self._end_link()
        elif tag == "pre":
            self._preformatted = max(0, self._preformatted - 1)
        if tag in BLOCKS:
            self._break(tag)

    def handle_data(self, data: str) -> None:
        """Append text."""
        if self._left_out:
            return
        if not self._preformatted:
            data = re.sub(r"\s+", " ", data)
            if not self._pieces or self._pieces[-1].endswith(("\n", " ")):
                data = data.lstrip()
        if data:
            self._pieces.append(data)

    def _break(self, tag: str) -> None:
        self._end_link()
        if self._pieces:
            self._pieces.append("\n\n" if tag in PARAGRAPHS else "" if self._pieces[-1].endswith("\n") else "\n")

    def _begin_link(self, target: str) -> None:
        self._end_link()
        if target and not target.startswith("#"):
            self._link, self._link_start = target, len(self._pieces)

    def _end_link(self) -> None:
        """Append the address of the open link to its text. Links without text are dropped."""
        target, self._link = self._link, ""
        text = "".join(self._pieces[self._link_start :]).strip() if target else ""
        if not text or len(target) > MAX_LINK_CHARACTERS:
            return
        try:
            whole = urljoin(self._address, target.strip())
        except ValueError:
            return
        if whole.startswith(("http://", "https://")):
            self._pieces[self._link_start :] = [f"[{text}]({whole})"]


def _is_hidden(attributes: dict[str, str | None]) -> bool:
    is_hidden = "hidden" in attributes or attributes.get("aria-hidden") == "true"
    return is_hidden or _HIDDEN_STYLE.search(attributes.get("style") or "") is not None


HTML_TYPES = ("text/html", "application/xhtml+xml")
TEXT_TYPES = frozenset(
    f"application/{name}"
    for name in ("json", "xml", "javascript", "ecmascript", "yaml", "x-yaml", "toml", "sql", "graphql", "x-ndjson", "jsonl")
)
_CHARSET = re.compile(r"charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.IGNORECASE)
_TEXT_CODEC = re.compile(
    r"utf-(?:8|16|32).*|ascii|iso8859-\d+|cp\d+|koi8-\w|gb\w+|big5\w*|euc_\w+|iso2022_\w+|shift_\w+|mac-\w+"
)
"""Codecs of web pages; Python has others that are slow or unrelated to the web."""
_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


def is_text(content_type: str) -> bool:
    """True for text types, and for a response without a type."""
    kind = media_type(content_type)
    return not kind or kind.startswith("text/") or kind in TEXT_TYPES or kind.endswith(("+json", "+xml", "+yaml"))


def page_text(content_type: str, body: bytes, address: str) -> str:
    """Return the text of a page. ``address``: base of its links."""
    text = decode_body(content_type, body).replace("\r\n", "\n")
    kind = media_type(content_type)
    is_html = kind in HTML_TYPES or (not kind and text.lstrip()[:15].lower().startswith(("<!doctype html", "<html")))
    return visible(html_text(text, address) if is_html else text).strip()


def decode_body(content_type: str, body: bytes) -> str:
    """Decode a body with its declared character set, by default UTF-8."""
    named = next((codec for mark, codec in _BYTE_ORDER_MARKS if body.startswith(mark)), "")
    declared = _CHARSET.search(content_type) or _CHARSET.search(body[:1024].decode("latin-1"))
    if not named and declared is not None:
        named = _text_codec(declared[1])
    return body.decode(named or "utf-8", "replace")


def _text_codec(name: str) -> str:
    """Return the codec of a character set, or "" if web pages do not use it."""
    try:
        codec = codecs.lookup(name).name
    except (LookupError, ValueError):
        return ""
    if codec in ("iso8859-1", "ascii"):
        return "cp1252"  # as browsers do
    return codec if _TEXT_CODEC.fullmatch(codec) else ""


def media_type(content_type: str) -> str:
    """Return the media type without parameters, in lowercase."""
    return content_type.partition(";")[0].strip().lower()
