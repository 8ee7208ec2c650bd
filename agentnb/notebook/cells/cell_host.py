"""The host of a cell: shows the runs that its Python code starts, lets them ask the person, and lets them be stopped."""

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
from agentnb.display.texts.question_labels import saved_rules_lines
from agentnb.experiments.running.control import Control, Progress
from agentnb.notebook.card.view import CardView
from agentnb.notebook.card.widget import OpenWidgets
from agentnb.notebook.frontend import asker, can_ask, is_attended, view_for
from agentnb.notebook.views import Cell, DisplayView, TerminalView
from agentnb.notebook.widget_tools import has_kernel
from agentnb.runtime.host.host import Beginning, Host
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.threads import running_loop
from agentnb.session.session import Session

INTERVAL = 0.25
"""Seconds between updates."""


class ProgressLine:
    """A cell output that shows the number of its runs. Thread-safe."""

    def __init__(self) -> None:
        self._runs = ManyRuns()
        self._cell = Cell()
        self._lock = threading.RLock()
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, run_id: str, run: Run) -> None:
        """Start counting this run."""
        with self._lock:
            self._runs.add(run_id, run)

    def note_end(self, run_id: str) -> None:
        """Count a run as ended, and redraw: immediately if it was the last."""
        with self._lock:
            self._runs.note_end(run_id)
            if self._runs.is_over:
                self.draw()
            else:
                self.schedule_update()

    def schedule_update(self) -> None:
        """Schedule an update."""
        with self._lock:
            loop = running_loop()
            if loop is not None and (self._timer is None or self._loop is not loop):
                self._loop, self._timer = loop, loop.call_later(INTERVAL, self.draw)

    def draw(self) -> None:
        """Show the current line, and schedule the next update while any run is in progress."""
        with self._lock:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            self._cell.keep({"text/plain": self._runs.text, "text/html": many_runs_html(self._runs)})
            if not self._runs.is_over:
                self.schedule_update()


MAX_CARDS = 4
"""Maximum runs of a cell that each get a card; if there are more, they are counted on one line."""
DELAY = 0.05
"""Seconds to wait for more runs before deciding how to show the first ones."""


class CellHost:
    """Shows the runs of a cell: one card each, or a single line if there are more than `MAX_CARDS`."""

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
        """The run whose lines appear in a terminal."""

    def host(self) -> Host:
        """Return the `Host` for runs started by the cell's code."""
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
        """True if this run has a card below the cell. Decides about pending runs first."""
        self.decide()
        return run_id in self._cards

    def decide(self) -> None:
        """Show the pending runs: one card each, or a single line if there are too many."""
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
        """Return a view of a run."""
        view = view_for(self._shell, self._open_widgets, blocks=beginning.blocks, stored=beginning.stored)
        assert not isinstance(view, TerminalView), "there is a kernel"
        return view

    def _watch(self, beginning: Beginning) -> Watcher | None:
        with self._lock:
            if not has_kernel(self._shell):  # lines of several runs would interleave
                if self._printed is not None and self._printed.run.should_continue:
                    return None
                self._printed = beginning
                return TerminalView()
            cell_run = self._begun[beginning.run_id] = CellRun(self, beginning)
            self._undecided.append(cell_run)
            return cell_run

    def _watch_experiment(self, control: Control) -> Callable[[Progress], object] | None:
        """Return the box for an experiment that the cell started; a terminal shows its own line."""
        self._session.take_experiment(control)
        if not has_kernel(self._shell):
            return None
        from agentnb.notebook.experiments.progress_box import ProgressBox

        return ProgressBox(control, self._open_widgets if is_attended(self._shell) else None)

    def _take(self, live: LiveRun) -> None:
        self._session.take(live)
        tell_saved_rules(self._session)
        with self._lock:
            cell_run = self._begun.pop(live.run_id, None)
            if cell_run is not None:
                cell_run.live = live
        if cell_run is not None and cell_run.is_due:
            self.decide()


def tell_saved_rules(session: Session) -> None:
    """Print how many saved rules allow calls, once for each working folder in which runs start."""
    for folder, found in session.grants.new_saved_rules():
        for line in saved_rules_lines(folder, found, "%agent permissions lists them"):
            print(line)


class CellRun:
    """The watcher of a cell's run. It buffers events until it is decided how to show the run."""

    def __init__(self, cell: CellHost, beginning: Beginning) -> None:
        self.beginning = beginning
        self.live: LiveRun | None = None
        self.is_due = False
        """True if the run must be shown as soon as its handle exists."""
        self._cell = cell
        self._lock = threading.RLock()
        self._view: CardView | DisplayView | None = None
        self._line: ProgressLine | None = None
        self._waiting: list[AnyEvent | Delta] = []
        self._timed = False
        self._nested = NestedRuns()
        """Its nested runs, including those that started before it was shown."""

    @property
    def shows_prints(self) -> bool:
        """True if its tools' output is shown at their calls; for a run that is only counted, this is impossible."""
        return self._line is None or self._view is not None

    def __call__(self, item: AnyEvent | Delta) -> None:
        """Pass the item on, or buffer it until the run is shown."""
        with self._lock:
            if self._view is not None:
                self._view(item)
            elif self._line is None:
                self._waiting.append(item)
            elif isinstance(item, QuestionAsked) and self.live is not None:
                self._show_question(self.live)
            elif isinstance(item, Event):
                self._line.schedule_update()
            if self._line is not None and isinstance(item, RunFinished):
                self._line.note_end(self.beginning.run_id)
            undecided = self._view is None and self._line is None
        if undecided:
            self._decide_later(ended=isinstance(item, RunFinished))

    def nested(self, beginning: Beginning) -> Watcher | None:
        """Return the watcher of a nested run."""
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
        """Count the run on this line from now on, and show it only if it asks a question."""
        with self._lock:
            self._line = line
            self._waiting.clear()
            if self.live is not None and self.beginning.run.waiting:
                self._show_question(self.live)
            if self.beginning.run.events and not self.beginning.run.should_continue:
                line.note_end(self.beginning.run_id)

    def _show_question(self, live: LiveRun) -> None:
        """Give the run a card: while the cell is running, the person cannot answer anywhere else."""
        view = self._cell.view(self.beginning)
        view.nested_runs.share(self._nested)
        for event in self.beginning.run.events:
            view(event)
        self._view = view
        view.show(live)

    def _decide_later(self, *, ended: bool) -> None:
        """Decide after `DELAY`, or immediately if the run has ended, as its event loop may end with it."""
        loop = running_loop()
        if loop is None or (ended and not self.beginning.awaited):
            self._due()
        elif not self._timed:
            self._timed = True
            loop.call_later(DELAY, self._due)

    def _due(self) -> None:
        self.is_due = True
        self._cell.decide()
