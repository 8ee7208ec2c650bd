"""Wording for texts, counts, amounts and times, used in both text and HTML."""

from __future__ import annotations

import re
from typing import Any

from agentnb.core.messages import encodable
from agentnb.core.messages import pluralize as pluralize  # noqa: PLC0414  # for all displays

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Terminal escapes and bidirectional marks, because text from models and tools must not control a display."""
SHORT_ID = 8
"""Number of final characters of an id by which ``%agent load`` and ``%agent recover`` identify a run."""
FIGURE_SPACE = "\N{FIGURE SPACE}"
MAX_READ = 10_000
"""Maximum additional characters, such as blanks, read to get the first words of a text."""


def clean(text: str) -> str:
    """Replace control characters in the text, keeping line breaks and tabs."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", encodable(text).replace("\r\n", "\n"))


def cut(text: str, most: int) -> str:
    """Truncate the text to ``most`` characters, and state how many are omitted."""
    return text if len(text) <= most else f"{text[:most].rstrip()} … ({len(text) - most:,} more characters)"


def cut_after_paragraph(text: str, most: int) -> str:
    """Return the paragraphs that fit into ``most`` characters, or one truncated paragraph; state how many characters are
    omitted.
    """
    if len(text) <= most:
        return text
    end = text.rfind("\n\n", 0, most + 2)
    return cut(text, most) if end <= 0 else f"{text[:end].rstrip()}\n\n… ({len(text) - end:,} more characters)"


def first_line(text: str, most: int) -> str:
    """Return the first words of a text of any length, on one line without control characters."""
    line = " ".join(clean(text[: most + MAX_READ]).split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def times(count: int) -> str:
    """Return a frequency, such as ``once``, ``twice`` or ``3 times``."""
    return {1: "once", 2: "twice"}.get(count, f"{count:,} times")


def thousands(count: int) -> str:
    """Return an abbreviated number, such as ``812``, ``8.4k`` or ``1.2M``."""
    if count < 1_000:
        return str(count)
    return f"{count / 1_000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.1f}M"


def file_size(count: int) -> str:
    """Return a file size, such as ``812 bytes``, ``8.4 kB`` or ``1.2 MB``."""
    if count < 1_000:
        return pluralize(count, "byte")
    return f"{count / 1_000:.1f} kB" if count < 1_000_000 else f"{count / 1_000_000:,.1f} MB"


def duration(seconds: float) -> str:
    """Return a duration, such as ``38 ms``, ``2.4 s`` or ``3:07``."""
    if seconds < 0.0005:
        return "under 1 ms"
    if seconds < 0.9995:
        return f"{seconds * 1_000:.0f} ms"
    return f"{seconds:.1f} s" if seconds < 60 else f"{seconds // 60:.0f}:{seconds % 60:02.0f}"


def count_of(count: int, most: int) -> str:
    """Return `` 8.4k of 20k`` in the unit of the limit; the width stays constant as the count grows."""
    limit = thousands(most)
    shown = {"k": f"{count / 1_000:.1f}k", "M": f"{count / 1_000_000:.1f}M"}.get(limit[-1], str(count))
    return f"{shown.rjust(len(limit), FIGURE_SPACE)} of {limit.replace('.0', '')}"


def dollars(value: float) -> str:
    """Return an amount, such as ``$0.50``, ``$5.00`` or ``$0.0025``: two decimals, or as many as the value has."""
    exact = f"{value:.6f}".rstrip("0")
    return "$" + (exact if len(exact.partition(".")[2]) > 2 else f"{value:.2f}")


def amount(value: Any) -> float | None:
    """Return a limit from the settings in a log, or None if the value is unusable."""
    return value if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else None


def short_id(run_id: str) -> str:
    """Return the end of a run's id, as accepted by commands."""
    return run_id[-SHORT_ID:]
