"""Totals at the end of a log, for the lines before it."""

from __future__ import annotations

from pathlib import Path
from typing import BinaryIO

from agentnb.core.log.events import RunFinished
from agentnb.core.log.wire import decode
from agentnb.store.summaries import log_summary, summary


def read_whole(file: BinaryIO) -> bool:
    raise AssertionError(f"{file.name} is read as a whole")


def check_totals(path: Path) -> None:
    """The first and the last line of a log that a store kept make the summary that all of its lines make."""
    with path.open("rb") as file:
        lines = file.readlines()
        end = decode(lines[-1])
        assert isinstance(end, RunFinished) and end.totals is not None
        assert end.totals.size == sum(map(len, lines[:-1]))
        file.seek(0)
        assert log_summary(file, read_whole) == summary(lines, "interrupted")
