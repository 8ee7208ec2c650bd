"""Parts that the views of experiments share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentnb.display.css import wrap_output
from agentnb.display.markup import NOTHING, Html, tag, words
from agentnb.display.texts.labels import clean

MAX_OF_A_NOTE = 600


def view_html(title: str, about: str, *parts: str) -> Html:
    """Render a view with its title, and details next to it."""
    head = tag("div", "exp-head", tag("b", "", title), " ", tag("span", "meta", about))
    return wrap_output(tag("div", "exp", head, *parts))


def sentence_html(text: str) -> Html:
    """Render the summary sentence."""
    return tag("div", "exp-sentence", text) if text else NOTHING


def facts_html(rows: Iterable[tuple[str, str, str]]) -> Html:
    """Render facts as a table of names, values and explanations."""
    lines = [
        tag(
            "tr",
            "",
            tag("th", "exp-cell exp-name", name, scope="row"),
            tag("td", "exp-cell", value, *([tag("span", "exp-meaning", f" {meaning}")] if meaning else [])),
        )
        for name, value, meaning in rows
    ]
    return tag("table", "exp-facts", *lines) if lines else NOTHING


def table_html(headings: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int] = ()) -> Html:
    """Render a table in a scrollable box. ``numbers``: indexes of the columns with numbers."""

    def kind(column: int) -> str:
        return "exp-cell exp-number" if column in numbers else "exp-cell"

    head = tag("tr", "", *[tag("th", f"{kind(column)} exp-column", name, scope="col") for column, name in enumerate(headings)])
    body = [tag("tr", "", *[tag("td", kind(column), cell) for column, cell in enumerate(row)]) for row in rows]
    return tag("div", "exp-scroll", tag("table", "exp-table", tag("thead", "", head), tag("tbody", "", *body)))


def notes_html(notes: Sequence[str]) -> Html:
    """Render notes as a list with its own heading."""
    if not notes:
        return NOTHING
    lines = [tag("li", "", words(note, MAX_OF_A_NOTE)) for note in notes]
    return tag("div", "exp-notes", tag("b", "", "Notes"), tag("ul", "exp-list", *lines))


def hint_html(text: str) -> Html:
    """Render a hint on what to type next."""
    return tag("div", "exp-hint", text) if text else NOTHING


def facts_text(rows: Iterable[tuple[str, str, str]]) -> list[str]:
    """Render facts as lines of text."""
    lines = [*rows]
    width = max((len(name) for name, _, _ in lines), default=0)
    return [f"  {name.ljust(width)}  {value}{f'  ({meaning})' if meaning else ''}" for name, value, meaning in lines]


def table_text(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Render a table as lines of text."""
    table = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in table]


def text_of(lines: Iterable[str]) -> str:
    """Join lines into one text, removing control characters."""
    return clean("\n".join(lines))
