"""The box of a running experiment: a single cell output with its progress, Pause and Stop."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from typing import Any
from uuid import uuid4

from traitlets import Dict, Unicode

from agentnb.display.css import style_sheet
from agentnb.experiments.running.control import Control, Progress
from agentnb.experiments.views.progress_view import lost_html, progress_html, progress_parts, progress_text
from agentnb.notebook.card.widget import OpenWidgets
from agentnb.notebook.views import Cell
from agentnb.notebook.widget_tools import HEARS_WHILE_BUSY, close, hear_while_busy, script, synced_trait
from agentnb.runtime.threads import running_loop

INTERVAL = 0.25
"""Seconds between updates."""
PULSE = 2.0
"""Seconds until the next update if no cell ends in the meantime, since the time shown advances anyway."""
UNSEEN = 10.0
"""Seconds after which the box becomes plain HTML if no browser has reported showing the widget."""

_variable: ContextVar[str] = ContextVar("variable of an experiment's results", default="")


@contextmanager
def results_in(variable: str) -> Iterator[None]:
    """Set the name of the results variable shown in the boxes of experiments started in this block."""
    token = _variable.set(variable)
    try:
        yield
    finally:
        _variable.reset(token)


@cache
def _widget_class() -> Any:
    import anywidget  # takes 60 ms, and is useless without a frontend that shows widgets

    class ExperimentWidget(anywidget.AnyWidget):
        _esm = script("document.js", "experiment.js")
        _css = style_sheet()
        key = synced_trait(Unicode)
        """The id of the widget's model, which the page uses to find the widget in the notebook."""
        frame = synced_trait(Dict)
        """The content shown: ``parts``; ``saved``, which the page writes if no update of its output arrives; ``over``."""

    return ExperimentWidget


class ProgressBox:
    """Watches an experiment and shows it in the cell that started it. Thread-safe.

    A live box is a widget whose buttons work even while the cell blocks the kernel, as a card's do. Its final form is plain
    HTML, as is the box in an unattended notebook.
    """

    def __init__(self, control: Control, open_widgets: OpenWidgets | None = None) -> None:
        """``open_widgets`` receives the widget once the experiment is over, and is None if nobody can click."""
        self._control = control
        self._open_widgets = open_widgets
        self._variable = _variable.get()
        self._cell = Cell()
        self._lock = threading.RLock()
        self._state = ""
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the timer."""
        self._was_seen = self._has_ended = False
        self._widget: Any = self._make_widget() if open_widgets is not None and HEARS_WHILE_BUSY else None

    def __call__(self, progress: Progress) -> None:
        """Draw a change of state at once, and anything else soon after."""
        with self._lock:
            if progress.state != self._state:
                self._draw()
            else:
                self._draw_after(INTERVAL)

    def _draw_after(self, seconds: float) -> None:
        loop = running_loop()
        if loop is None:
            return
        due = loop.time() + seconds
        if self._timer is not None and self._loop is loop:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._loop, self._timer = loop, loop.call_later(seconds, self._draw)

    def _draw(self) -> None:
        with self._lock:
            if self._timer is not None and self._loop is running_loop():
                self._timer.cancel()
            self._timer = None
            if self._has_ended:
                return
            progress, is_first = self._control.progress, not self._state
            self._state, self._has_ended = progress.state, progress.is_over
            if self._widget is not None:
                self._send(progress, is_first=is_first)
            if self._widget is None or progress.is_over:
                self._cell.keep(self._saved_form(progress))
            if not progress.is_over:
                self._draw_after(PULSE)

    def _saved_form(self, progress: Progress, *, lost: bool = False) -> dict[str, str]:
        """Return the form without a widget. ``lost``: return the form that stays if the kernel ends first."""
        html = lost_html(progress) if lost else progress_html(progress, self._variable)
        return {"text/plain": progress_text(progress, self._variable), "text/html": html}

    # The widget

    def _make_widget(self) -> Any:
        key = uuid4().hex
        widget = hear_while_busy(_widget_class()(model_id=key, key=key))
        widget.on_msg(self._hear)
        return widget

    def _send(self, progress: Progress, *, is_first: bool) -> None:
        """Send the frame. The output keeps its first form until the end, because showing a widget again would redraw it."""
        saved = self._saved_form(progress, lost=not progress.is_over)
        self._widget.frame = {"parts": progress_parts(progress, self._variable), "saved": saved, "over": progress.is_over}
        if progress.is_over and self._open_widgets is not None:
            self._open_widgets.keep(self._widget)
        elif is_first:
            self._cell.show(self._widget, self._saved_form(progress))
            if (loop := running_loop()) is not None:
                loop.call_later(UNSEEN, self._give_up)

    def _give_up(self) -> None:
        """Switch to plain HTML, which every frontend can show, if no browser shows the widget."""
        with self._lock:
            if self._was_seen or self._widget is None or self._control.progress.is_over:
                return
            widget, self._widget = self._widget, None
            self._draw()
            close(widget)

    def _hear(self, widget: Any, message: Any, buffers: Any) -> None:
        """Handle a message from a page. The page repeats it until it is acknowledged. Called on a separate thread while the
        cell runs.
        """
        if not isinstance(message, dict):
            return
        action = str(message.get("do", ""))
        if action == "hello":
            self._was_seen = True
            widget.send_state()
        elif action == "gone":
            if self._open_widgets is not None and self._control.progress.is_over:
                self._open_widgets.let_go(widget)
            return
        elif action in ("pause", "resume", "stop"):
            getattr(self._control, action)()
        else:
            logging.getLogger("agentnb").info("Unknown action of an experiment's box: %r", action[:40])
            return
        widget.send({"heard": action})
