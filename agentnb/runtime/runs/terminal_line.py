"""A line on standard error that shows the progress of a script's runs; only in a terminal."""

from __future__ import annotations

import sys
import threading
from typing import Any

from agentnb.core.log.events import AnyEvent, Delta, Event, RunEnd
from agentnb.core.log.stores import Watcher
from agentnb.detect.run import Run


def progress_watcher(run: Run, run_id: str) -> Watcher | None:
    """Return a watcher that shows this run on the line, or None if standard error is not a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        return None
    _line.add(run_id, run)

    def watch(item: AnyEvent | Delta) -> None:
        if isinstance(item, Event):
            _line.update(run_id, ended=isinstance(item, RunEnd))

    return watch


def progress_text(run: Run) -> str:
    """Return the run's progress: its round or step, its running calls, its todos and its cost."""
    in_steps = run.kind != "agent" and not run.rounds
    pieces = [f"{run.agent}: {f'step {run.step_count}' if in_steps else f'round {len(run.rounds)}'}"]
    records = run.rounds[-1].records if run.rounds else ()
    running = [_printable(record.call.name) for record in records if record.result is None]
    pieces += [", ".join(running)] if running else []
    if run.todos:
        pieces.append(f"{sum(todo.status == 'completed' for todo in run.todos)} of {len(run.todos)} todos")
    if run.waiting:
        pieces.append("waiting for an answer")
    return " · ".join([*pieces, *([f"${run.spent:.4f}"] if run.spent else [])])


class _Line:
    """The process's line, shared by all its runs. Used from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._live: dict[str, Run] = {}
        self._ended = 0
        self._bar: Any = None

    def add(self, run_id: str, run: Run) -> None:
        with self._lock:
            self._live[run_id] = run

    def update(self, run_id: str, *, ended: bool) -> None:
        with self._lock:
            if ended and self._live.pop(run_id, None) is not None:
                self._ended += 1
            if not self._live:
                self._close()
                return
            if self._bar is None:
                self._bar = _bar()
            self._bar.set_description_str(self._text())

    def _text(self) -> str:
        if len(self._live) == 1 and not self._ended:
            return progress_text(next(iter(self._live.values())))
        return f"{len(self._live)} in progress, {self._ended} ended"

    def _close(self) -> None:
        bar, self._bar, self._ended = self._bar, None, 0
        if bar is not None:
            bar.close()


_line = _Line()


def _bar() -> Any:
    from tqdm import tqdm  # type: ignore[import-untyped]  # it has no types; only needed in a terminal

    class Line(tqdm):  # type: ignore[misc]  # as above
        monitor_interval = 0  # no thread of its own

    return Line(bar_format="{desc}", file=sys.stderr, leave=False, dynamic_ncols=True)


def _printable(text: str) -> str:
    """Replace the terminal control characters in text."""
    return "".join(character if character.isprintable() else "?" for character in text)
