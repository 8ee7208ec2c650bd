"""A bar on standard error while many files are read, in a terminal or a notebook."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

Read = TypeVar("Read")
MANY = 10_000
"""Minimum files with a bar."""
DELAY = 2.0
"""Seconds until the bar appears: what ends sooner needs none."""


def show_progress(reading: Iterable[Read], share: int, total: int) -> Iterator[Read]:
    """Yield what is read, and show its progress. The ``share`` read here stands for all ``total`` files: other
    processes read equal ones meanwhile.
    """
    if total < MANY or not _is_watched():
        return iter(reading)
    from tqdm import tqdm  # type: ignore[import-untyped]  # it has no types; only needed here

    class Bar(tqdm):  # type: ignore[misc]  # as above
        monitor_interval = 0  # no thread of its own

    form = "{desc}: {percentage:.0f} %|{bar}| {elapsed}<{remaining}"
    return iter(
        Bar(
            reading, f"Reading {total:,} files", share, file=sys.stderr, delay=DELAY, bar_format=form, ncols=80, mininterval=0.5
        )
    )


def _is_watched() -> bool:
    """True if a person sees standard error: it is a terminal's or a kernel's."""
    stream = sys.stderr
    return stream is not None and (stream.isatty() or type(stream).__module__ == "ipykernel.iostream")
