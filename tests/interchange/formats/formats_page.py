"""Writes the table of formats in docs/traces.md: ``python tests/interchange/formats/formats_page.py``."""

from __future__ import annotations

import inspect
from pathlib import Path

from agentnb.interchange.formats import FORMATS

PAGE = Path(__file__).parents[3] / "docs" / "traces.md"
BEGIN, END = "<!-- formats -->\n", "<!-- /formats -->"


def table() -> str:
    """Return the table: name, contents that are read, and what records an end."""
    formats = sorted(FORMATS, key=lambda one: one.NAME)
    rows = [f"| `{format_.NAME}` | {_first_sentence(format_)} | {format_.RECORDS_END} |" for format_ in formats]
    head = "| name in tables | its files | what records the end |"
    return "\n".join([head, "|---|---|---|", *rows, ""])


def _first_sentence(module: object) -> str:
    text = " ".join((inspect.getdoc(module) or "").split("\n\n", maxsplit=1)[0].split())
    return text.replace("``", "`").replace("|", "\\|")


def page() -> str:
    """Return the page with a current table."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"docs/traces.md: {len(FORMATS)} formats")
