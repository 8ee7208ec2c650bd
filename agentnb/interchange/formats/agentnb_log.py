"""agentnb's own logs: JSON Lines of events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from agentnb.core.log.well_formed import check_events
from agentnb.core.log.wire import decode_lines
from agentnb.detect.run import Run
from agentnb.interchange.trace_file import TraceFile
from agentnb.store.store import LOG_BEGINS, load_file

NAME = "agentnb"
TITLE = "run log of agentnb"
RECORDS_END = "the event `run_finished`"


def sniff(file: TraceFile) -> str:
    """Return an empty string for a log, otherwise what is missing. The first line may be damaged or from a later version."""
    if file.start.startswith(LOG_BEGINS):
        return ""
    first = file.first
    is_event = isinstance(first, dict) and isinstance(first.get("kind"), str) and bool(first.keys() & {"run_id", "schema"})
    return "" if is_event else "its first line is not a run_started event"


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run in the log."""
    if file.path is not None:
        yield load_file(file.path)
        return
    yield run_of_lines((line for _, line in file.lines()), file.name)


def run_of_lines(lines: Iterable[bytes], source: str) -> Run:
    """Return the run in a log's lines. Raises `TraceError` with ``source`` if they are malformed."""
    events = decode_lines(lines, source)
    check_events(events, source)
    run = Run.from_events(events)
    run.mark_interrupted()
    return run
