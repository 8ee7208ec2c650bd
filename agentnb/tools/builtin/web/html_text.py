"""The text of HTML, with its headings, lists, links and tables as in Markdown.

Python's own parser reads tag after tag and builds no tree: time and memory are in proportion to the length of the page. Parsers
that build a tree need minutes for some hostile pages, such as tags deep in each other.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from urllib.parse import urljoin


def _tags(names: str) -> frozenset[str]:
    return frozenset(names.split())


BLOCKS = _tags(
    "address article aside blockquote body center dd details dialog div dl dt fieldset figcaption figure footer form h1 h2 h3 "
    "h4 h5 h6 header hr html legend li main menu nav ol p pre section summary table tbody tfoot thead title tr ul"
)
PARAGRAPHS = _tags("article blockquote dl figure h1 h2 h3 h4 h5 h6 ol p pre section table title ul")
"""Blocks with an empty line before and after them."""
HEADINGS = {"title": "# ", **{f"h{level}": f"{'#' * level} " for level in range(1, 7)}}
LEFT_OUT = _tags(
    "applet audio canvas iframe math noembed noframes noscript object script select style svg template textarea video"
)
VOID = _tags("area base br col embed hr img input link meta source track wbr")
CLOSED_BY_NEXT = _tags("dd dt li option p td th tr")
"""Elements whose end tag may be left out."""
_HIDDEN_STYLE = re.compile(
    r"display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|(?:font-size|opacity)\s*:\s*0*\.?0*(?:px|em|rem|pt|%)?\s*(?:;|!|$)",
    re.IGNORECASE,
)
_LONG_TAG = re.compile(r"<[^<>]{20000,}>?")
"""A tag that holds a whole picture, or is made to fill the memory of the parser."""
MAX_LINK_CHARACTERS = 500


def html_text(html: str, address: str) -> str:
    """Return the text of a page without what is hidden. ``address``: to which its links are relative."""
    reader = _Reader(address)
    # It is not closed: what is unfinished at the end would be read again from each `<`.
    reader.feed(_LONG_TAG.sub("", html))
    return reader.text


class _Reader(HTMLParser):
    """Collects the text of a page."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address
        self._pieces: list[str] = []
        self._left_out = ""
        """The element within which all is left out; empty for none."""
        self._depth = 0
        """Elements of that name which are open."""
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
        """Begin an element."""
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
        """Begin an element: in HTML, a slash at the end of a tag means nothing."""
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
        """Add text."""
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
        """Put the address of the open link behind its text; a link without text is left out."""
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
