"""Pages written by `save_trace`, which contain the run's log."""

from __future__ import annotations

from collections.abc import Iterator

from agentnb.detect.run import Run
from agentnb.interchange.formats.agentnb_log import run_of_lines
from agentnb.interchange.page_log import holds_log, log_lines
from agentnb.interchange.trace_file import TraceFile

NAME = "page"
TITLE = "HTML page saved by agentnb"
RECORDS_END = "as in the log"


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    return "" if holds_log(file.start) else "the page was not saved by agentnb"


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run in the page's log."""
    yield run_of_lines(log_lines(file.whole(), file.name), file.name)
