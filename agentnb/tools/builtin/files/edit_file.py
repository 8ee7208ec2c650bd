"""The tool ``edit_file``: replaces text that occurs exactly once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from agentnb.core.redaction import MASK
from agentnb.tools.builtin.files.confined import ConfinedPath, as_text, confine
from agentnb.tools.builtin.files.replacing import check_mark, replace_file
from agentnb.tools.builtin.files.write_file import encode_text
from agentnb.tools.tool import ToolContext, ToolRefused

MAX_COUNTED = 1_000
"""Maximum number of occurrences to count."""
MAX_LINES_NAMED = 5
"""Maximum number of occurrences whose lines are reported."""


async def edit_file(context: ToolContext, path: str, old: str, new: str) -> str:
    """Replace a text in a file in the working directory. The text has to occur exactly once.

    :param path: Path relative to the working directory
    :param old: The exact text to replace, with its spaces and line ends; enough lines of it to be the only one
    :param new: The text in its place
    """
    return await asyncio.to_thread(_edit, context, path, old, new)


def text_after_edit(arguments: Mapping[str, Any], before: str | None) -> str | None:
    """Return the text of a file after a call to ``edit_file``, or None if the call fails."""
    old, new = arguments.get("old"), arguments.get("new")
    if before is None or not isinstance(old, str) or not isinstance(new, str) or len(_starts(before, old, 2)) != 1:
        return None
    return before.replace(old, new)


def _edit(context: ToolContext, path: str, old: str, new: str) -> str:
    encode_text(new, "new")
    target, line = confine(path, context.work_dir), 0

    def new_bytes(data: bytes | None) -> bytes:
        nonlocal line
        check_mark(new, data, target)
        before = as_text(data or b"", path)
        start = _only_start(before, old, new, target)
        line = before.count("\n", 0, start) + 1
        return f"{before[:start]}{new}{before[start + len(old) :]}".encode()

    replace_file(context, target, new_bytes, create=False)
    return f"Successfully edited {path} at line {line}"


def _only_start(text: str, old: str, new: str, place: ConfinedPath) -> int:
    """Return the position of the text to replace. Raises `ToolRefused` unless it occurs exactly once."""
    if not old or old == new:
        problem = "old is empty" if not old else "old and new are identical"
        advice = "Pass text from the file as old, or write the whole file with write_file."
        raise ToolRefused("no_change", f"{place.shown} was not changed: {problem}", advice)
    starts = _starts(text, old, MAX_COUNTED + 1)
    if not starts:
        problem = f"{place.shown} was not changed: old does not occur in it"
        raise ToolRefused("no_match", problem, _advice_on_missing(text, old))
    if len(starts) > 1:
        count = f"more than {MAX_COUNTED:,}" if len(starts) > MAX_COUNTED else str(len(starts))
        lines = dict.fromkeys(str(text.count("\n", 0, start) + 1) for start in starts[:MAX_LINES_NAMED])
        more = " and further lines" if len(starts) > MAX_LINES_NAMED else ""
        advice = f"It occurs at line {', '.join(lines)}{more}. Include more of the surrounding lines."
        raise ToolRefused("not_unique", f"{place.shown} was not changed: old occurs {count} times", advice)
    return starts[0]


def _starts(text: str, part: str, most: int) -> list[int]:
    """Return up to ``most`` positions of ``part`` in the text, including overlapping ones."""
    starts: list[int] = []
    start = text.find(part) if part else -1
    while start >= 0 and len(starts) < most:
        starts.append(start)
        start = text.find(part, start + 1)
    return starts


def _advice_on_missing(text: str, old: str) -> str:
    if MASK in old:
        return f"{MASK} stands for a key, and the file contains the key itself: use a passage without it."
    if "\r\n" in text and old.replace("\r\n", "\n") in text.replace("\r\n", "\n"):
        return "The lines of the file end with \\r\\n: use \\r\\n in old and new."
    words, text_words = " ".join(old.split()), " ".join(text.split())
    if words and words in text_words:
        return "It occurs with different whitespace or line endings: copy it exactly from the output of read_file."
    return "Read the file again with read_file, then copy the text exactly."
