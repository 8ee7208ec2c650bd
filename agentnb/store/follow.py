"""Following a log while another process writes it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from agentnb.core.log.events import AnyEvent
from agentnb.core.log.well_formed import checker
from agentnb.core.log.wire import DAMAGED, decode, decode_lines
from agentnb.detect.run import Run
from agentnb.errors import TraceError
from agentnb.store.regular_files import open_regular
from agentnb.store.run_file import is_being_written
from agentnb.store.store import unreadable

PAUSE = 0.2
"""Seconds between checks of the log."""


class FollowedRun:
    """A run in another process, as logged so far. `run` grows while you iterate, or with each `update`.

    for event in load_trace("runs/20260301-101500-ab12.jsonl", follow=True): print(event)

    Iterating waits for further events, and ends when the run ends, is suspended, or its process dies; ``async for``
    does so without blocking the kernel.
    """

    def __init__(self, path: Path, pause: float = PAUSE) -> None:
        """Read the log so far. Raises `TraceError` if it is not a log, `StoreError` if it cannot be read."""
        self.path = path
        self.run = Run()
        self._pause = pause
        self._place = 0
        """Bytes of the log read so far."""
        self._check = checker(str(path))
        self._new: list[AnyEvent] = []
        self.update()

    @property
    def is_over(self) -> bool:
        """True if no further event will follow, because the run has ended or nobody is writing its log."""
        return self.run.is_suspended or self.run.status not in ("running", "waiting_on_user")

    def update(self) -> list[AnyEvent]:
        """Read and return the events since the last update."""
        if self.is_over and self.run.events:
            return []
        try:
            with open_regular(self.path) as file:
                is_written = is_being_written(file)  # checked first: a run that ends after it is read with its end
                file.seek(self._place)
                lines = file.readlines()
        except OSError as error:
            raise unreadable(self.path, error) from None
        whole = [line for line in lines if line.endswith(b"\n")]
        events = self._decode_new(whole)
        for event in events:
            self._check(event)
            self.run.apply(event)
        self._place += sum(map(len, whole))
        self._new += events
        if not is_written:
            self.run.mark_interrupted()  # unless it has an end, or is suspended
        return events

    def _decode_new(self, lines: list[bytes]) -> list[AnyEvent]:
        if self.run.events:
            return [self._next(line, number) for number, line in enumerate(lines, len(self.run.events) + 1)]
        if not lines:
            raise TraceError(f"{self.path} does not contain a complete event yet", "Try again once its run has started")
        return decode_lines(lines, str(self.path))  # the first line has the version that wrote the log

    def _next(self, line: bytes, number: int) -> AnyEvent:
        try:
            return decode(line)
        except TraceError as error:
            raise TraceError(f"{self.path}, line {number}: {error.what}", DAMAGED) from error

    def _take(self) -> list[AnyEvent]:
        new, self._new = self._new, []
        return new

    def __iter__(self) -> Iterator[AnyEvent]:
        while True:
            yield from self._take()
            if not self._goes_on():
                return
            if not self.update():
                time.sleep(self._pause)

    async def __aiter__(self) -> AsyncIterator[AnyEvent]:
        while True:
            for event in self._take():
                yield event
            if not self._goes_on():
                return
            if not self.update():
                await asyncio.sleep(self._pause)

    def _goes_on(self) -> bool:
        return bool(self._new) or not self.is_over

    def __repr__(self) -> str:
        return f"<following {self.run!r}>"
