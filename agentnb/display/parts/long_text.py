"""Long texts from tools: beginning and end, the number of omitted characters, and access to the complete text."""

from __future__ import annotations

from typing import NamedTuple

from agentnb.display.defaults import MAX_AT_ONCE, MAX_OF_ALL
from agentnb.display.markup import NOTHING, Html, join_html, tag

MAX_OMITTED_LINE_CHARACTERS = 200
"""Maximum characters of a line that is omitted entirely rather than cut."""
SHARE_OF_THE_END = 4
"""The end of a long text gets 1/``SHARE_OF_THE_END`` of the space."""


class Way(NamedTuple):
    """The person's access to omitted text."""

    call_id: str = ""
    live: bool = False
    """True if a button can request the text."""
    where: str = ""
    """A Python expression for the text."""
    key: str = ""
    """Key prefix of its folds."""
    most: int = MAX_AT_ONCE
    """Maximum characters shown."""


def long_html(text: str, way: Way, kind: str = "tool-output") -> Html:
    """Return the text with its line breaks; a long text is reduced to its beginning and end."""
    if len(text) <= way.most:
        return tag("pre", kind, text)
    start, end = _ends(text, way.most)  # cut first: only the visible text needs cleaning
    count = len(text) - len(start) - len(end)
    gap = tag("div", "tool-left-out", f"… {count:,} characters left out … ", _to_all(len(text), way))
    return join_html(tag("pre", kind, start), gap, tag("pre", kind, end))


def _ends(text: str, most: int) -> tuple[str, str]:
    """Return the beginning and end of the text, as complete lines unless these are long."""
    length = most // SHARE_OF_THE_END
    start, end = text[: most - length], text[-length:]
    last_line, first_line = start.rfind("\n"), end.find("\n")
    if last_line > len(start) - MAX_OMITTED_LINE_CHARACTERS:
        start = start[:last_line]
    if 0 <= first_line < MAX_OMITTED_LINE_CHARACTERS:
        end = end[first_line + 1 :]
    return start, end


def _to_all(length: int, access: Way) -> Html:
    if access.live and access.most < MAX_OF_ALL:
        return tag(
            "button", "button", f"Show all {length:,} characters", type="button", data_do="all", data_call=access.call_id
        )
    return join_html(tag("code", "tool-code", access.where), " has the full text") if access.where else NOTHING
