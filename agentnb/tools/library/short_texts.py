"""Descriptions that are short enough for every request: docstrings of libraries are manuals."""

from __future__ import annotations

MAX_DESCRIPTION = 1_000
"""Characters of the description of a function of a library."""
MAX_OF_PARAMETER = 200
"""Characters of the description of each of its parameters."""


def short_description(text: str) -> str:
    """Return the first paragraphs of a description that fit."""
    if len(text) <= MAX_DESCRIPTION:
        return text
    paragraphs = text.split("\n\n")
    short = shortened(paragraphs[0], MAX_DESCRIPTION)
    for paragraph in paragraphs[1:]:
        longer = f"{short}\n\n{paragraph}"
        if len(longer) > MAX_DESCRIPTION:
            break
        short = longer
    return short


def shortened(text: str, most: int = MAX_OF_PARAMETER) -> str:
    """Return the first sentences of a text that fit, on one line; of a longer sentence its beginning."""
    if len(text) <= most:
        return text
    line = " ".join(text.split())
    if len(line) <= most:
        return line
    sentences, stop, _ = line[: most + 1].rpartition(". ")
    return f"{sentences}." if stop else f"{line[: most - 1].rpartition(' ')[0] or line[: most - 1]}…"
