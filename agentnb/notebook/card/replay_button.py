"""The button on a failed run: clicking it shows what a replay under ``matrix`` would make of the run."""

from __future__ import annotations

from collections import OrderedDict
from functools import cache, partial
from typing import Any

from traitlets import List, Unicode

from agentnb.detect.run import Run
from agentnb.display.card.replay_offer import is_offered
from agentnb.display.css import style_sheet
from agentnb.display.texts.labels import clean
from agentnb.notebook.widget_tools import close, error_words, hear_while_busy, script, synced_trait
from agentnb.notebook.worker_thread import worker
from agentnb.rerun.replay import replay

MAX_RUNS = 16
"""Maximum runs with a button, counted from the newest; the cards of older runs keep the command."""

GONE = "This run is no longer in memory"


class ReplayButtons:
    """The replay buttons in this kernel. A page replaces the command in a run's card with the run's button."""

    def __init__(self) -> None:
        self._runs: OrderedDict[str, Run] = OrderedDict()
        self._widget: Any = None

    def add(self, run: Run) -> None:
        """Add a button to the cards of this run, if a replay is offered. Nothing is replayed before a click."""
        if not is_offered(run):
            return
        self._runs.pop(run.id, None)
        self._runs[run.id] = run
        while len(self._runs) > MAX_RUNS:
            self._runs.popitem(last=False)
        if self._widget is None:
            self._widget = hear_while_busy(_widget_class()())
            self._widget.on_msg(self._hear)
        self._widget.runs = [*self._runs]

    def close(self) -> None:
        """Leave only the commands, and release the runs."""
        self._runs.clear()
        if self._widget is not None:
            widget, self._widget = self._widget, None
            close(widget)

    def _hear(self, widget: Any, message: Any, buffers: Any) -> None:
        if isinstance(message, dict) and message.get("do") == "replay":
            worker("agentnb-replays").do(partial(self._replay, str(message.get("run"))))

    def _replay(self, run_id: str) -> None:
        run = self._runs.get(run_id)
        sentence, error = "", "" if run is not None else GONE
        try:
            if run is not None:
                sentence = replay(run, guidance="matrix", policy="matrix").sentence
        except Exception as broken:  # including errors of detectors or policies on an unforeseen record
            error = error_words(broken, f"The replay of run {run_id}")
        widget = self._widget  # read once: it may be closed at any moment
        if widget is not None:
            widget.send({"run": run_id, "told": clean(sentence), "error": clean(error)})


@cache
def replay_buttons() -> ReplayButtons:
    """Return this kernel's replay buttons."""
    return ReplayButtons()


@cache
def _widget_class() -> Any:
    import anywidget  # takes 60 ms, and is useless without a frontend that shows widgets

    class ReplayWidget(anywidget.AnyWidget):
        """A widget without a view: saved cards have no widget, so the page finds the cards itself."""

        _esm = script("document.js", "replay.js")
        _css = style_sheet()
        runs = synced_trait(List, Unicode())
        """The ids of the runs with a button."""

    return ReplayWidget
