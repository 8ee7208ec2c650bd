"""The host of one cell: the runs that its Python code begins are shown below it, can be stopped and can ask the person."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agentnb.core.log.events import AnyEvent, Delta, Event, QuestionAsked, RunFinished
from agentnb.core.log.stores import Watcher
from agentnb.detect.run import Run
from agentnb.display.card.many_runs import ManyRuns, many_runs_html
from agentnb.display.card.nested import NestedRuns
from agentnb.experiments.running.control import Control, Progress
from agentnb.notebook.card.view import CardView
from agentnb.notebook.card.widget import OpenWidgets
from agentnb.notebook.frontend import asker, can_ask, view_for
from agentnb.notebook.views import Cell, DisplayView, TerminalView
from agentnb.runtime.host.host import Beginning, Host
from agentnb.runtime.host.live import LiveRun
from agentnb.runtime.threads import running_loop
from agentnb.session.session import Session

INTERVAL = 0.25
"""Seconds between two updates."""


class ProgressLine:
    """One output of a cell that counts its runs. Used from any thread."""

    def __init__(self) -> None:
        self._runs = ManyRuns()
        self._cell = Cell()
        self._lock = threading.RLock()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, run_id: str, run: Run) -> None:
        """Count this run from now on."""
        with self._lock:
            self._runs.add(run_id, run)

    def ended(self, run_id: str) -> None:
        """Count a run as ended, and draw: at once if it was the last."""
        with self._lock:
            self._runs.ended(run_id)
            if self._runs.is_over:
                self.draw()
            else:
                self.changed()

    def changed(self) -> None:
        """Draw soon."""
        with self._lock:
            loop = running_loop()
            if loop is not None and (self._timer is None or self._loop is not loop):
                self._loop, self._timer = loop, loop.call_later(INTERVAL, self.draw)

    def draw(self) -> None:
        """Show the line as it is now, and again soon while runs go on: the time goes on too."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._cell.keep({"text/plain": self._runs.text, "text/html": many_runs_html(self._runs)})
            if not self._runs.is_over:
                self.changed()


MAX_CARDS = 4
"""Runs of one cell that have a card each; the others are counted in one line."""
DELAY = 0.05
"""Seconds in which more runs may begin before it is decided how the first ones are shown."""


class CellHost:
    """Shows the runs of one cell: a card each, or one line for more than `MAX_CARDS`."""

    def __init__(self, shell: Any, session: Session, open_widgets: OpenWidgets) -> None:
        self._shell = shell
        self._session = session
        self._open_widgets = open_widgets
        self._lock = threading.RLock()
        self._undecided: list[CellRun] = []
        self._begun: dict[str, CellRun] = {}
        self._cards: set[str] = set()
        self._line: ProgressLine | None = None
        self._printed: Beginning | None = None
        """The run whose lines a terminal shows."""

    def host(self) -> Host:
        """Return what the runs take that the code of the cell begins."""
        asks = can_ask(self._shell, blocks=True)
        return replace(
            self._session.host(),
            watch=self._watch,
            begun=self._take,
            can_ask=asks,
            ask=asker(self._shell),
            experiment=self._watch_experiment,
        )

    def has_card_of(self, run_id: str) -> bool:
        """Return whether this run is shown below the cell; if that was still open, it is decided now."""
        self.decide()
        return run_id in self._cards

    def decide(self) -> None:
        """Show the runs that have begun: a card each, or a line if they are more than there is room for."""
        with self._lock:
            ready = [cell_run for cell_run in self._undecided if cell_run.live is not None]
            self._undecided = [cell_run for cell_run in self._undecided if cell_run.live is None]
            if not ready:
                return
            if self._line is None and len(self._cards) + len(ready) <= MAX_CARDS:
                for cell_run in ready:
                    self._cards.add(cell_run.beginning.run_id)
                    cell_run.show(self.view(cell_run.beginning))
                return
            if self._line is None:
                self._line = ProgressLine()
            for cell_run in ready:
                self._line.add(cell_run.beginning.run_id, cell_run.beginning.run)
            for cell_run in ready:
                cell_run.count_in(self._line)
            self._line.draw()

    def view(self, beginning: Beginning) -> CardView | DisplayView:
        """Return a view for a run."""
        view = view_for(self._shell, self._open_widgets, blocks=beginning.blocks, stored=beginning.stored)
        assert not isinstance(view, TerminalView), "there is a kernel"
        return view

    def _watch(self, beginning: Beginning) -> Watcher | None:
        with self._lock:
            if getattr(self._shell, "kernel", None) is None:  # lines of several runs would be mixed up
                if self._printed is not None and self._printed.run.should_continue:
                    return None
                self._printed = beginning
                return TerminalView()
            cell_run = self._begun[beginning.run_id] = CellRun(self, beginning)
            self._undecided.append(cell_run)
            return cell_run

    def _watch_experiment(self, control: Control) -> Callable[[Progress], object] | None:
        """Return the table of an experiment that the cell begins; in a terminal it has a line of its own."""
        self._session.take_experiment(control)
        if getattr(self._shell, "kernel", None) is None:
            return None
        from agentnb.notebook.experiments.progress import ProgressTable

        return ProgressTable(control)

    def _take(self, live: LiveRun) -> None:
        self._session.take(live)
        with self._lock:
            cell_run = self._begun.pop(live.run_id, None)
            if cell_run is not None:
                cell_run.live = live
        if cell_run is not None and cell_run.is_due:
            self.decide()


class CellRun:
    """The watcher of one run of a cell: keeps what comes until it is decided how the run is shown."""

    def __init__(self, cell: CellHost, beginning: Beginning) -> None:
        self.beginning = beginning
        self.live: LiveRun | None = None
        self.is_due = False
        """It is to be shown as soon as its handle is there."""
        self._cell = cell
        self._lock = threading.RLock()
        self._view: CardView | DisplayView | None = None
        self._line: ProgressLine | None = None
        self._waiting: list[AnyEvent | Delta] = []
        self._timed = False
        self._nested = NestedRuns()
        """The runs that its calls began, also before it is shown."""

    @property
    def shows_prints(self) -> bool:
        """Whether what its tools print is shown at their calls: not while the run is only counted in a line."""
        return self._line is None or self._view is not None

    def __call__(self, item: AnyEvent | Delta) -> None:
        """Pass the item on, or keep it until the run is shown."""
        with self._lock:
            if self._view is not None:
                self._view(item)
            elif self._line is None:
                self._waiting.append(item)
            elif isinstance(item, QuestionAsked) and self.live is not None:
                self._show_question(self.live)
            elif isinstance(item, Event):
                self._line.changed()
            if self._line is not None and isinstance(item, RunFinished):
                self._line.ended(self.beginning.run_id)
            undecided = self._view is None and self._line is None
        if undecided:
            self._decide_later(ended=isinstance(item, RunFinished))

    def nested(self, beginning: Beginning) -> Watcher | None:
        """Return the watcher of a run that a call of this one begins."""
        return self._nested.add(beginning, self._draw_nested)

    def _draw_nested(self) -> None:
        view = self._view
        if view is not None:
            view.draw_nested()

    def show(self, view: CardView | DisplayView) -> None:
        """Show the run in this view from now on."""
        with self._lock:
            view.nested_runs.share(self._nested)
            for item in self._waiting:
                view(item)
            self._waiting.clear()
            self._view = view
            if self.live is not None:
                view.show(self.live)

    def count_in(self, line: ProgressLine) -> None:
        """Count the run in this line from now on, and show it only if it asks."""
        with self._lock:
            self._line = line
            self._waiting.clear()
            if self.live is not None and self.beginning.run.waiting:
                self._show_question(self.live)
            if self.beginning.run.events and not self.beginning.run.should_continue:
                line.ended(self.beginning.run_id)

    def _show_question(self, live: LiveRun) -> None:
        """Give the run a card of its own: the person can answer nowhere else while the cell goes on."""
        view = self._cell.view(self.beginning)
        view.nested_runs.share(self._nested)
        for event in self.beginning.run.events:
            view(event)
        self._view = view
        view.show(live)

    def _decide_later(self, *, ended: bool) -> None:
        """Decide after `DELAY`; at once if the run has ended and its event loop may end with it."""
        loop = running_loop()
        if loop is None or (ended and not self.beginning.awaited):
            self._due()
        elif not self._timed:
            self._timed = True
            loop.call_later(DELAY, self._due)

    def _due(self) -> None:
        self.is_due = True
        self._cell.decide()
