"""The report in Markdown, with any markup in its texts escaped."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from agentnb.display.texts.labels import clean
from agentnb.experiments.report.document import Block, Bullets, Code, Document, Facts, File, Grid, Heading, Paragraph, Picture

_MARKUP = re.compile(r"[\\`*\[\]<|~$@]|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])|:(?=//)|(?<=www)\.", re.IGNORECASE)
"""Characters that may begin or end markup, formulas or links, including bare addresses that readers turn into links."""
_BEGINNING = re.compile(r"(?=[#>=])|(?=[-+](?:[-+\s]|$))|\d{1,9}(?=[.)](?:\s|$))")
"""Line beginnings that would make a heading, quotation, list item or rule unless preceded by a backslash."""


def report_markdown(document: Document, folder: str) -> str:
    """Render the report. ``folder``: the folder next to it that holds its figures."""
    parts = [f"# {escape(document.title)}", *["\n".join(_lines(block, folder)) for block in document.blocks]]
    return "\n\n".join(parts) + "\n"


def escape(text: str) -> str:
    """Return any text as one line of Markdown with all markup escaped."""
    line = _MARKUP.sub(r"\\\g<0>", " ".join(clean(text).split()))
    beginning = _BEGINNING.match(line)
    return line if beginning is None else f"{line[: beginning.end()]}\\{line[beginning.end() :]}"


def _lines(block: Block, folder: str) -> Iterator[str]:
    match block:
        case Heading(text, is_inner):
            yield f"{'###' if is_inner else '##'} {escape(text)}"
        case Paragraph(text):
            yield escape(text)
        case Bullets(items):
            yield from [f"- {escape(item)}" for item in items]
        case Facts(rows):
            yield from _table(["", "", ""], rows)
        case Grid(headings, rows, numbers):
            yield from _table(headings, rows, numbers)
        case Picture(name, _, _, description):
            yield f"![{escape(description)}]({quote(folder)}/{quote(name)}.png)"
        case Code(text, language):
            fence = "`" * max(3, 1 + max(map(len, re.findall("`+", text)), default=0))
            yield from (f"{fence}{language}", clean(text), fence)
        case File(path, content):
            yield f"- [{escape(path)}]({quote(path)}): {escape(content)}"


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], numbers: Sequence[int] = ()) -> Iterator[str]:
    lines = ["---:" if column in numbers else "---" for column in range(len(headings))]
    for cells in ([escape(name) for name in headings], lines, *[[escape(cell) for cell in row] for row in rows]):
        yield f"| {' | '.join(cells)} |"
