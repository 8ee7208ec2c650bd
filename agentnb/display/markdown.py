"""Markdown of a model as HTML: parsed by one library, sanitised by another, and bounded whatever the text is."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING

from agentnb.display.labels import clean
from agentnb.display.markdown_parser import parser
from agentnb.display.markup import NOTHING, PREFIX, Html, joined, tag

if TYPE_CHECKING:
    import nh3

MAX_CHARACTERS = 100_000
"""Characters of one text that are shown."""
GROWTH = 30
"""How many times as long as the text its HTML may be; ordinary text doubles, only tricks go beyond this."""
_CELL = re.compile(r'<(t[hd])(?: align="(left|center|right)")?>')
ELEMENTS = {"p", "br", "strong", "em", "s", "code", "pre", "blockquote", "ul", "ol", "li", "hr", "a"}
TABLE = {"table", "thead", "tbody", "tr", "th", "td"}
ATTRIBUTES: dict[str, set[str]] = {"a": {"href"}, "ol": {"start"}, "th": {"align"}, "td": {"align"}, "*": set()}
"""What may stand in it; links get ``rel`` and ``target`` besides."""


def markdown_html(text: str, most: int = MAX_CHARACTERS) -> Html:
    """The text as HTML in a box of its own; of a long one the beginning, with the count of what is left out.

    HTML in the text is shown as it is written, LaTeX too. What the library cannot take, or what nests too deep, stands as it
    was written.
    """
    shown = clean(text)
    return markdown_box(fragment(shown[:most]), left_out(len(shown) - most))


def markdown_box(*content: Html) -> Html:
    """The box around blocks of Markdown."""
    return tag("div", "md", *content)


def left_out(count: int) -> Html:
    """The line that says how much of a text is not shown; nothing where all of it is."""
    return tag("p", "md-left-out", f"… ({count:,} more characters)") if count > 0 else NOTHING


def fragment(text: str) -> Html:
    """Cleaned text as HTML without a box."""
    if not text.strip():
        return NOTHING
    try:
        rendered = parser().render(text)
        if len(rendered) > GROWTH * len(text) + 2_000:
            return _as_written(text)
        # Once more: entities such as &#x202e; are characters only now.
        return Html(_CELL.sub(_aligned, clean(_cleaner().clean(rendered))))
    except Exception:  # whatever the library does not take must not keep the person from reading it
        return _as_written(text)


def _aligned(cell: re.Match[str]) -> str:
    """A cell of a table with a class for its alignment: JupyterLab sets all cells without a rule of ours to the right."""
    return f'<{cell.group(1)} class="{PREFIX}cell-{cell.group(2) or "left"}">'


def _as_written(text: str) -> Html:
    return joined(tag("pre", "", tag("code", "", text)), Html("\n"))


@cache
def _cleaner() -> nh3.Cleaner:
    """Made once. It changes nothing that the parser makes: it stands here for the day on which the parser has a hole."""
    import nh3

    return nh3.Cleaner(
        tags=ELEMENTS | TABLE,
        attributes=ATTRIBUTES,
        set_tag_attribute_values={"a": {"target": "_blank"}},
        link_rel="noopener noreferrer nofollow",
        url_schemes={"http", "https", "mailto"},
        url_relative="deny",
        clean_content_tags={"script", "style"},
    )
