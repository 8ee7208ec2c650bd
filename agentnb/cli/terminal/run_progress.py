"""The progress of a run on standard error: a line for each step and, in a terminal, a bar below them."""

from __future__ import annotations

import sys
import threading
from collections.abc import Collection
from typing import Any

from agentnb.cli.shell_commands import SHELL
from agentnb.cli.terminal.standard_streams import tell
from agentnb.core.log import work_events as w
from agentnb.core.log.events import AnyEvent, Delta, Event, RunStarted, ToolFinished, Warned
from agentnb.core.log.stores import Watcher
from agentnb.detect.run import Run
from agentnb.display.card.text import call_line
from agentnb.display.texts.event_lines import LISTED, WorkNames, event_line
from agentnb.display.texts.labels import clean, pluralize
from agentnb.runtime.host.host import Beginning


class Progress:
    """Watcher for a run and its nested runs. Call `close` when the run has ended."""

    def __init__(self, steps: Collection[str] = (), *, after: int = 0) -> None:
        """``steps``: ids of the top-level steps, if known, for the bar; ``after``: number of earlier events, which are not
        shown again.
        """
        self._lock = threading.Lock()  # nested runs may run on other threads
        self._steps = frozenset(steps)
        self._after = after
        self._done: set[str] = set()
        self._open: dict[str, None] = {}
        self._names = WorkNames()
        self._calls = 0
        self._held: list[str] | None = None
        """Lines to show once the user has answered."""
        self._bar = _bar(len(self._steps) or None) if sys.stderr is not None and sys.stderr.isatty() else None

    def __call__(self, item: AnyEvent | Delta) -> None:
        """Process an event of the run."""
        if isinstance(item, LISTED):
            with self._lock:
                self._take(item)
                if item.seq >= self._after:
                    self._line(event_line(item, names=self._names))
        elif isinstance(item, Warned | RunStarted) and item.seq >= self._after:
            with self._lock:
                if isinstance(item, RunStarted):
                    self._line(f"run {item.run_id}")  # the id to resume it by after a kill
                else:
                    self._line(f"warning: {clean(item.text_for(SHELL))}")

    def nested(self, beginning: Beginning) -> Watcher:
        """Return a watcher that shows the tool calls of a nested run."""
        run, agent = beginning.run, clean(beginning.agent)

        def watch(item: AnyEvent | Delta) -> None:
            if isinstance(item, ToolFinished):
                with self._lock:
                    self._calls += 1
                    self._line(f"  {agent}: {_call(run, item)}")
            elif not isinstance(item, Event):
                self._refresh()

        watch.nested = self.nested  # type: ignore[attr-defined]  # nested runs look it up
        return watch

    def prints(self) -> Any:
        """Return the stream for tools' output: standard error, above the bar."""
        if self._bar is None:
            return sys.stderr
        from tqdm.contrib import DummyTqdmFile  # type: ignore[import-untyped]  # as below

        return DummyTqdmFile(sys.stderr)

    def pause(self) -> None:
        """Hold lines back while the user is answering a question."""
        with self._lock:
            self._held = []
            if self._bar is not None:
                self._bar.clear()
                self._bar.disable = True  # also for output of tools, which would redraw it

    def resume(self) -> None:
        """Show the lines held back, and stop holding them."""
        with self._lock:
            held, self._held = self._held or [], None
            if self._bar is not None:
                self._bar.disable = False
            for line in held:
                self._line(line)

    def close(self) -> None:
        """Remove the bar."""
        with self._lock:
            bar, self._bar = self._bar, None
            if bar is not None:
                bar.close()

    def _take(self, event: Any) -> None:
        self._names.take(event)
        if isinstance(event, w.StepStarted):
            self._open[event.step] = None
            self._open.pop(event.parent, None)  # name the children of a block instead
        elif isinstance(event, w.StepFinished):
            self._open.pop(event.step, None)
            self._done |= {event.step} & self._steps

    def _line(self, text: str) -> None:
        if self._held is not None:
            self._held.append(text)
            return
        if self._bar is None:
            tell(text)
            return
        self._bar.clear()
        tell(text)
        self._bar.n = len(self._done)
        self._bar.set_postfix_str(self._now(), refresh=False)
        self._bar.refresh()

    def _now(self) -> str:
        calls = [pluralize(self._calls, "tool call")] if self._calls else []
        return " · ".join(
            [*calls, ", ".join(clean(self._names.of_step(step).removeprefix("step ")) for step in self._open)]
        ).strip(" ·")

    def _refresh(self) -> None:
        """Update the time in the bar while a reply streams."""
        if self._bar is not None and self._lock.acquire(blocking=False):
            try:
                if self._bar is not None:
                    self._bar.update(0)
            finally:
                self._lock.release()


def _call(run: Run, event: ToolFinished) -> str:
    records = run.rounds[-1].records if run.rounds else ()
    record = next((record for record in reversed(records) if record.call.id == event.result.call_id), None)
    return "a tool call has ended" if record is None else call_line(record)


def _bar(total: int | None) -> Any:
    from tqdm import tqdm  # type: ignore[import-untyped]  # it has no types; only needed in a terminal

    class Bar(tqdm):  # type: ignore[misc]  # as above
        monitor_interval = 0  # no thread of its own

    form = "{n_fmt}/{total_fmt} steps |{bar:20}| {elapsed}{postfix}" if total else "{elapsed}{postfix}"
    return Bar(total=total, bar_format=form, file=sys.stderr, leave=False, dynamic_ncols=True)
