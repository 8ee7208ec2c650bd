"""The parts of a guidance set, and their Markdown format.

A heading names a part, and is followed by its text. Only headings of the highest level present name parts; deeper
ones are text. A body without headings is the text for all four cells.
"""

from __future__ import annotations

import re

from agentnb.detect.guidance_rules import ALREADY_SAID, CELLS, FAILURE_LOOP, TODO_LIST, TOOL_FAILED, WORKFLOW
from agentnb.errors import SettingsError, suggest_names

LEVELS = ("reminder", "warning", "final_warning")
"""Parts for the first, the second, and every later intervention."""
STRONGER = ("stronger", "strongest")
"""Parts prepended to a cell's text after guidance has been ignored two or four times in a row."""
PLANNING = "planning"
"""Part for an intervention against endless planning while no todo is open."""
TOOL_FAILED_AGAIN = "tool_failed_again"
"""Part about tools that fail again after the first time."""
NOTE = "note"
"""Part for the status line that is sent with every request."""
FAILURES = (TOOL_FAILED, TOOL_FAILED_AGAIN, FAILURE_LOOP)
PARTS = (*CELLS, *LEVELS, PLANNING, *STRONGER, WORKFLOW, ALREADY_SAID, *FAILURES, TODO_LIST, NOTE)

_GLUED = re.compile(r"#{1,6}([A-Za-z_]+)")
_OTHER_NAMES = {
    "level_1": "reminder",
    "level_2": "warning",
    "level_3": "final_warning",
    "intervention_1": "reminder",
    "intervention_2": "warning",
    "intervention_3": "final_warning",
}


def part_name(heading: object) -> str:
    """Return the part named by a heading; ``Final warning`` names ``final_warning``. Raises `SettingsError` for an unknown
    part.
    """
    if not isinstance(heading, str):
        raise SettingsError(f"{heading!r} is not the name of a part", f"The parts are {', '.join(PARTS)}")
    name = "_".join(heading.strip().strip("`:*").lower().replace("-", " ").split())
    name = _OTHER_NAMES.get(name, name)
    if name not in PARTS:
        raise SettingsError(f"A guidance set has no part named {heading.strip()!r}", suggest_names(name, PARTS, most=2))
    return name


def read_parts(body: str) -> dict[str, str]:
    """Parse the texts of the parts from a Markdown body. Raises `SettingsError` for an unknown or repeated part."""
    body = body.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    lines = body.split("\n")
    for line in lines:
        if (glued := _GLUED.fullmatch(line.strip())) and glued[1].lower() in PARTS:
            raise SettingsError(f"{line.strip()!r} is not a heading in Markdown", f"Add a space: # {glued[1]}")
    headings = _headings(body)
    if not headings:
        text = body.strip()
        if not text:
            raise SettingsError("The guidance set is empty", f"Write a heading for each part: # {CELLS[0]}, and its text below")
        return dict.fromkeys(CELLS, text)
    before = "\n".join(lines[: headings[0][0]]).strip()
    if before:
        raise SettingsError(
            f"The text before the first heading belongs to no part: {before.splitlines()[0][:60]!r}",
            f"Put a heading above it, such as # {CELLS[0]}, or remove all headings",
        )
    parts: dict[str, str] = {}
    for index, (_, start, title) in enumerate(headings):
        end = headings[index + 1][0] if index + 1 < len(headings) else len(lines)
        name = part_name(title)
        if name in parts:
            raise SettingsError(f"The part {name} appears twice", "Keep one of them")
        parts[name] = "\n".join(lines[start:end]).strip()
    return parts


def _headings(body: str) -> list[tuple[int, int, str]]:
    """Return the headings of the highest level present: first line, line after the heading, text."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").parse(body)
    headings = [
        (token.tag, token.map[0], token.map[1], tokens[index + 1].content)
        for index, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0 and token.map
    ]
    highest = min((tag for tag, *_ in headings), default="")
    return [(first, after, words) for tag, first, after, words in headings if tag == highest]
