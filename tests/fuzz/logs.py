"""Damaged and hostile logs of agentnb for the fuzzer: each is read as a trace is, followed, and reopened to be resumed."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from random import Random

import traces

from agentnb import Store, load_trace
from agentnb.errors import AgentnbError

RUN_ID = "20260101-000000-0000000000"


@cache
def samples() -> list[tuple[str, bytes]]:
    """Return the logs among the samples of traces."""
    return [(name, data) for name, data in traces.samples() if data.startswith(b'{"kind":"run_started"')]


def write(random: Random, folder: Path) -> Path:
    """Write a log that is damaged, cut off, or joined with another."""
    return traces.write_from(samples(), random, folder)


def check(path: Path) -> bool:
    """Read the log as a trace, follow it, and reopen it in a store as a run to be resumed."""
    is_read = traces.check(path)
    store = Store(path.parent / ".store")
    store.prepare()
    store.path(RUN_ID).write_bytes(path.read_bytes())
    for act in (lambda: load_trace(store.path(RUN_ID), follow=True).run.rounds, lambda: store.reopen(RUN_ID)[0].close()):
        try:
            act()
        except AgentnbError as error:
            traces.check_told(str(error))
    return is_read
