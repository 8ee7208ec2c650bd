"""The report as a single-file page without scripts or external resources, readable in light and dark mode, on narrow screens
and in print.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

from agentnb.display.card.run_page import page_of
from agentnb.display.markup import Html, tag
from agentnb.experiments.report.document import Block, Bullets, Code, Document, Facts, File, Grid, Heading, Paragraph, Picture
from agentnb.experiments.views.layout import facts_html, table_html


def report_html(document: Document) -> str:
    """Render the complete page."""
    blocks = tag("main", "report", tag("h1", "", document.title), *[_FORMS[type(block)](block) for block in document.blocks])
    return page_of(document.title, blocks, style=_style())


@cache
def _style() -> str:
    return Path(__file__).with_name("report.css").read_text("utf-8")


def _picture(block: Picture) -> Html:
    data = b64encode(block.png).decode("ascii")
    image = tag("img", "", src=f"data:image/png;base64,{data}", alt=block.description, width=str(block.width))
    return tag("figure", "report-figure", image)


def _file(block: File) -> Html:
    return tag("p", "report-file", tag("a", "", block.path, href=quote(block.path)), f": {block.content}")


_FORMS: dict[type[Block], Callable[[Any], Html]] = {
    Heading: lambda block: tag("h3" if block.is_inner else "h2", "", block.text),
    Paragraph: lambda block: tag("p", "", block.text),
    Bullets: lambda block: tag("ul", "", *[tag("li", "", item) for item in block.items]),
    Facts: lambda block: facts_html(block.rows),
    Grid: lambda block: table_html(*block),
    Picture: _picture,
    Code: lambda block: tag("pre", "report-code", tag("code", "", block.text)),
    File: _file,
}
