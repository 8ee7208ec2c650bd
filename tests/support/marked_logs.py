"""Logs as this person's agentnb writes them, with the marks by which it knows its own, and as a dead process leaves them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from agentnb import Run
from agentnb.core.log.events import AnyEvent
from agentnb.core.log.wire import encode
from agentnb.store.own_logs import log_marks


def marked(events: Iterable[AnyEvent]) -> bytes:
    """The log of these events, written by this person's agentnb."""
    marks = log_marks()
    assert marks is not None, "the tests have a home"
    lines = []
    for event in events:
        line, marks.state = marks.add_mark(encode(event))
        lines.append(line)
    return b"".join(lines)


def own_run(events: Iterable[AnyEvent]) -> Run:
    """The run of these events, as loaded from a log of the person's own."""
    run = Run.from_events(events)
    run.set_consent(True)
    return run


def cut_log(path: Path, end: int | str, number: int = 0, *, before: bool = False) -> Path:
    """Leave of a log what a process leaves that dies after so many events, or after (``before``: before) one of this kind."""
    lines = path.read_bytes().splitlines(keepends=True)
    if isinstance(end, str):
        places = [place for place, line in enumerate(lines) if line.startswith(f'{{"kind":"{end}"'.encode())]
        end = places[number] + (not before)
    path.write_bytes(b"".join(lines[:end]))
    return path
