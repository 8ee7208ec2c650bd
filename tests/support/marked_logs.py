"""Logs as the person's agentnb writes them, made of any events: with the marks by which it knows them as its own."""

from __future__ import annotations

from collections.abc import Iterable

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
        line, marks.state = marks.marked(encode(event))
        lines.append(line)
    return b"".join(lines)


def own_run(events: Iterable[AnyEvent]) -> Run:
    """The run of these events, as loaded from a log of the person's own."""
    run = Run.from_events(events)
    run.set_consent(True)
    return run
