"""Live views of a run: watchers that show it as it progresses. Everything they show comes from the `Run`."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable
from time import perf_counter
from typing import Any

from IPython.display import display
from msgspec.structs import replace

from agentnb.core.log.events import (
    AnyEvent,
    BeforeReply,
    Delta,
    Event,
    ModelReplied,
    RoundFinished,
    RunEnd,
    RunRecovered,
    RunStarted,
    StreamEnd,
    TextDelta,
)
from agentnb.core.log.stores import Watcher
from agentnb.core.log.work_events import PlanProposed, StepEnd
from agentnb.detect.run import Run
from agentnb.display.card.html import run_html, running_html
from agentnb.display.card.nested import NestedRuns
from agentnb.display.card.text import head_line, round_lines, run_text
from agentnb.display.markup import Html
from agentnb.display.parts.step_list import has_steps, row_of, row_text
from agentnb.display.texts.event_lines import WorkNames, event_line
from agentnb.display.texts.labels import clean
from agentnb.display.texts.question_labels import question_lines
from agentnb.display.texts.round_notes import RECOVERED, RESUMED, compaction_line, retry_line
from agentnb.display.texts.states import ending, is_going_on, notes, shown_answer
from agentnb.notebook.widget_tools import view_bundle
from agentnb.runtime.host.host import Beginning
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.threads import running_loop

INTERVAL = 1 / 15
"""Seconds between updates. An update for every token would be slow, and could even lose messages."""
WAIT_RATIO = 10
"""Minimum ratio of waiting to drawing time: drawing takes about a tenth of the time at most."""


class Cell:
    """The output of the cell that first uses this object. Each update replaces the output."""

    def __init__(self) -> None:
        self._handle: Any = None

    def show(self, widget: Any, meanwhile: dict[str, str]) -> None:
        """Show the widget; ``meanwhile`` is for frontends without widgets."""
        self.keep(view_bundle(widget) | meanwhile)

    def keep(self, data: dict[str, Any]) -> None:
        """Replace the output. The final form has no widget, since JupyterLab would look for it when the notebook is
        reopened.
        """
        if self._handle is None:
            # The run's task has the context of its cell, so this appears there from the loop's thread too.
            self._handle = display(data, raw=True, display_id=True)
        else:
            self._handle.update(data, raw=True)


class DisplayView:
    """A cell output, updated in place, as HTML and text."""

    shows_prints = True
    """The output of the run's tools is shown at their calls."""

    def __init__(self, *, keep: Callable[[dict[str, str]], Any] | None = None, variable: str = "run") -> None:
        """``keep``: shows HTML and text, by default in the cell that started the run; ``variable``: the variable that
        holds the run.
        """
        self._run = Run()
        self._heard: list[str] = []
        self._finished_rounds: dict[int, Html] = {}
        self._keep = keep or Cell().keep
        self._variable = variable
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the timer."""
        self._cost = 0.0
        self.nested_runs = NestedRuns()

    def nested(self, beginning: Beginning) -> Watcher | None:
        """Return the watcher of a nested run. The nested run is drawn as part of this one."""
        return self.nested_runs.add(beginning, self.draw_nested)

    def draw_nested(self) -> None:
        """Do nothing: nested runs are drawn at the next event of this run."""

    def __call__(self, item: AnyEvent | Delta) -> None:
        """Record the item and schedule an update."""
        if isinstance(item, TextDelta):
            self._heard.append(item.text)
        elif isinstance(item, Event):
            self._run.apply(item)
            if isinstance(item, StreamEnd):
                self._heard.clear()
        if isinstance(item, RunStarted | RunEnd):
            if self._timer is not None:
                self._timer.cancel()
            self._draw()
        elif (loop := running_loop()) is not None and (self._timer is None or loop is not self._loop):
            self._loop = loop
            self._timer = loop.call_later(max(INTERVAL, self._cost * WAIT_RATIO), self._draw)

    def _draw(self) -> None:
        started = perf_counter()
        self._timer = None
        streaming = "".join(self._heard)
        if is_going_on(self._run):
            html = running_html(self._run, streaming=streaming, drawn=self._finished_rounds, nested=self.nested_runs.html)
        else:
            html = run_html(self._run, variable=self._variable, nested=self.nested_runs.html)
        data = {
            "text/plain": run_text(self._run, streaming=streaming),
            "text/html": html,
        }
        self._keep(data)
        self._cost = perf_counter() - started

    def show(self, live: LiveRun) -> None:
        """Do nothing: the view appears at the first event."""

    def show_again(self) -> None:
        """Show a live run in the current cell, because rerunning the cell cleared its output."""
        self._keep = Cell().keep
        self._draw()


class TerminalView:
    """Writes lines to a terminal as events arrive."""

    def __init__(self) -> None:
        self._run = Run()
        self._names = WorkNames()
        self._noted = Counter[str]()
        """Notes on the open round that have already been written."""
        self._written = ""

    def __call__(self, item: AnyEvent | Delta) -> None:
        """Record the item and write its lines."""
        if isinstance(item, TextDelta):
            self._write(clean(item.text))
            return
        was_suspended = self._run.is_suspended
        if isinstance(item, Event):
            self._run.apply(item)
        if isinstance(item, BeforeReply):
            self._write_notes()
        elif isinstance(item, RunRecovered):
            self._write_line(RESUMED if was_suspended else RECOVERED)
        elif isinstance(item, ModelReplied):
            self._end_line("" if self._written else clean(item.message.text))
        elif isinstance(item, RoundFinished):
            # Notes from before the reply are already written.
            last_round = replace(self._run.rounds[-1], retries=(), compactions=(), recovered=False)
            for line in round_lines(last_round, questions=self._run.questions_of(last_round.index), with_text=False):
                self._write(line + "\n")
            self._written = ""  # so that a next reply that does not stream is written
            self._noted.clear()
        elif isinstance(item, PlanProposed) and has_steps(self._run):
            self._names.take(item)
            self._write(f"  {event_line(item, names=self._names)}\n")
        elif isinstance(item, StepEnd) and has_steps(self._run):
            record = self._run.step_records[item.step]
            if record.status != "running":
                self._write(f"  {row_text(row_of(record, record.status))}\n")
        elif isinstance(item, RunEnd):
            self._end_line(clean(shown_answer(self._run)) if has_steps(self._run) else "")
            self._end_line("\n".join(question_lines(self._run)))
            self._write(f"{head_line(self._run)}\n")
            self._end_line("\n".join([*[f"Note: {note}" for note in notes(self._run)], ending(self._run)]))

    def _write_notes(self) -> None:
        """Write new lines about retries and compactions in the open round."""
        if (current := self._run.open_round) is None:  # a retry of a step's call
            return
        compactions = [compaction_line(compaction, self._run.settings) for compaction in current.compactions]
        for line in Counter([*map(retry_line, current.retries), *compactions]) - self._noted:
            self._noted[line] += 1
            self._write_line(line)

    def _write_line(self, line: str) -> None:
        """Write a separate line."""
        self._end_line("")
        self._write(f"{line}\n")
        self._written = ""

    def show(self, live: LiveRun) -> None:
        """Do nothing: lines are written as events arrive."""

    def _write(self, text: str) -> None:
        self._written = text or self._written
        sys.stdout.write(text)
        sys.stdout.flush()

    def _end_line(self, text: str) -> None:
        self._write(text)
        if self._written and not self._written.endswith("\n"):
            self._write("\n")
        self._written = ""
