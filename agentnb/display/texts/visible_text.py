"""Makes blanks and invisible characters in a text visible, for a person's approval."""

from __future__ import annotations

import re

import msgspec

from agentnb.core.messages import encodable, is_invisible

MAX_DOTS = 7
"""Maximum consecutive spaces that are shown individually; more are counted."""
# Two spaces count: they are the indentation by which a value could pass for another argument of its call.
_HIDDEN = re.compile(r" {2,}|\n{2,}|[^\n -~]")
"""Candidates: runs of blanks and of line breaks, and characters beyond printable ASCII, which are looked up."""
_NAME = re.compile(r"[\w./:@#-]+(?<!:)")
"""Names that are unambiguous as they are."""


def visible(text: str) -> str:
    """Return the text with visible signs in place of runs of blanks, tabs, and control and other invisible characters.

    Single spaces and single line breaks are kept. The result cannot control a terminal or the direction of the text.
    """
    return _HIDDEN.sub(_sign, encodable(text).replace("\r\n", "\n"))


def visible_name(text: str) -> str:
    """Return a name on its own line. If it is unusual, return it as JSON, so that it cannot pass for other lines or for a
    value.
    """
    return visible(text if _NAME.fullmatch(text) else msgspec.json.encode(encodable(text)).decode())


def _sign(match: re.Match[str]) -> str:
    text = match[0]
    if text[0] == " ":
        return "·" * len(text) if len(text) <= MAX_DOTS else f"⟨{len(text):,} spaces⟩"
    if text[0] == "\n":
        return f"⟨{len(text):,} line breaks⟩\n"
    if text == "\t":
        return "⟨tab⟩"
    return f"⟨U+{ord(text):04X}⟩" if is_invisible(text) else text
