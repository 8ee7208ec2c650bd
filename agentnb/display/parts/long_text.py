"""Long texts of tools: their beginning and end, how much is left out, and how to see all of it."""

from __future__ import annotations

from typing import NamedTuple

from agentnb.display.defaults import MAX_AT_ONCE, MAX_OF_ALL
from agentnb.display.markup import NOTHING, Html, joined, tag, words
from agentnb.display.texts.labels import clean

LONGEST_LINE = 200
"""Longest line that is left out rather than cut, in characters."""
SHARE_OF_THE_END = 4
"""The share of the end: one part in this many."""


class Way(NamedTuple):
    """How the person gets to the text that is left out."""

    call_id: str = ""
    live: bool = False
    """Whether a button can request it."""
    where: str = ""
    """The Python expression that holds it."""
    key: str = ""
    """Prefix of the names of its folds."""
    most: int = MAX_AT_ONCE
    """Characters that are shown."""


def long_html(text: str, way: Way, kind: str = "tool-output") -> Html:
    """Return the text with its line breaks; of a long text, the beginning and the end."""
    if len(text) <= way.most:
        return tag("pre", kind, clean(text))
    start, end = _ends(text, way.most)  # cut first: only what is shown needs cleaning
    count = len(text) - len(start) - len(end)
    gap = tag("div", "tool-left-out", f"… {count:,} characters left out … ", _to_all(len(text), way))
    return joined(tag("pre", kind, start), gap, tag("pre", kind, end))


def _ends(text: str, most: int) -> tuple[str, str]:
    """Return the beginning and the end of the text, in whole lines unless these are long."""
    length = most // SHARE_OF_THE_END
    start, end = text[: most - length], text[-length:]
    last_line, first_line = start.rfind("\n"), end.find("\n")
    if last_line > len(start) - LONGEST_LINE:
        start = start[:last_line]
    if 0 <= first_line < LONGEST_LINE:
        end = end[first_line + 1 :]
    return start, end


def _to_all(length: int, way: Way) -> Html:
    if way.live and way.most < MAX_OF_ALL:
        return tag("button", "button", f"Show all {length:,} characters", type="button", data_do="all", data_call=way.call_id)
    return joined(tag("code", "tool-code", way.where), words(" has the full text")) if way.where else NOTHING
