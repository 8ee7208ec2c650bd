"""A report as a page in one file: no script, nothing fetched, readable in light and dark, narrow and printed."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from pathlib import Path
from urllib.parse import quote

from agentnb.display.card.page import page_of
from agentnb.display.markup import Html, joined, tag
from agentnb.experiments.report.document import Block, Bullets, Code, Document, Facts, File, Grid, Heading, Paragraph, Picture
from agentnb.experiments.views.layout import facts_html, table_html


def report_html(document: Document) -> str:
    """Return the whole page."""
    blocks = tag("main", "report", tag("h1", "", document.title), *map(_block, document.blocks))
    return page_of(document.title, blocks, style=_style())


@cache
def _style() -> str:
    return Path(__file__).with_name("report.css").read_text("utf-8")


def _block(block: Block) -> Html:
    match block:
        case Heading(text, is_inner):
            return tag("h3" if is_inner else "h2", "", text)
        case Paragraph(text):
            return tag("p", "", text)
        case Bullets(items):
            return tag("ul", "", *[tag("li", "", item) for item in items])
        case Facts(rows):
            return facts_html(rows)
        case Grid(headings, rows, numbers):
            return table_html(headings, rows, numbers)
        case Picture(_, png, width, description):
            data = b64encode(png).decode("ascii")
            image = tag("img", "", src=f"data:image/png;base64,{data}", alt=description, width=str(width))
            return tag("figure", "report-figure", image)
        case Code(text, _):
            return tag("pre", "report-code", tag("code", "", text))
        case File(path, content):
            return tag("p", "report-file", joined(tag("a", "", path, href=quote(path)), f": {content}"))
