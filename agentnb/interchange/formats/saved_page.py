"""Pages that `save_trace` writes, with the run's log inside."""

from __future__ import annotations

from collections.abc import Iterator

from agentnb.detect.run import Run
from agentnb.interchange.formats.agentnb_log import run_of_lines
from agentnb.interchange.page_log import holds_log, log_lines
from agentnb.interchange.trace_file import TraceFile

NAME = "page"
TITLE = "page of HTML saved by agentnb"
RECORDS_END = "as in the log"


def sniff(file: TraceFile) -> str:
    """Return an empty text for a file of this format, otherwise what it lacks."""
    return "" if holds_log(file.start) else "the page was not saved by agentnb"


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of the page's log."""
    yield run_of_lines(log_lines(file.whole(), file.name), file.name)
