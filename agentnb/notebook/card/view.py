"""The live card of a run in a notebook: sends changes up to thirty times a second, and receives the person's actions."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from functools import cache, partial
from time import perf_counter
from typing import Any, Protocol

from agentnb.core.log.events import AnyEvent, Delta, Event, QuestionAsked, RunFinished
from agentnb.core.log.stores import Watcher
from agentnb.core.redaction import redact
from agentnb.detect.agent_runs import works_in_steps
from agentnb.detect.run import Run
from agentnb.display.card.html import run_html, running_html
from agentnb.display.card.live_card import ASKED, Frame, LiveCard
from agentnb.display.card.nested import NestedRuns
from agentnb.display.card.text import run_text
from agentnb.display.markup import Html, tag
from agentnb.display.texts.states import is_going_on
from agentnb.errors import AgentnbError
from agentnb.notebook.card.actions import ACTIONS, DRAWN, IMMEDIATE_ACTIONS, NOTES
from agentnb.notebook.card.replay_button import replay_buttons
from agentnb.notebook.card.unsaved import unsaved_html
from agentnb.notebook.card.widget import OpenWidgets, make_widget
from agentnb.notebook.views import Cell, DisplayView
from agentnb.notebook.widget_tools import HEARS_WHILE_BUSY, close, error_words
from agentnb.notebook.worker_thread import worker
from agentnb.runtime.host.host import Beginning
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.questions.model_code import click
from agentnb.runtime.questions.question_forms import FieldsRefused
from agentnb.runtime.threads import running_loop


@dataclass
class CardSettings:
    """Display settings that the next card inherits."""

    details: bool = False
    """True if rounds show their guidance, and cards their model."""


@cache
def card_settings() -> CardSettings:
    """Return the settings for this kernel's cards."""
    return CardSettings()


FRAME = 1 / 30
"""Seconds between messages. More updates would not be visible, and a browser that gets one per token loses some for good."""
WHOLE = 0.5
"""Seconds between messages if the browser cannot request what it missed, so that each message must contain everything."""
LOAD = 5
"""Limits the load: after a frame that took long to make, the wait is longer, so that frames take at most a fifth of the
time.
"""
HINT = "Run started. If no card appears: %agent load {}"
"""Line below the first view of a run. If no page is open to receive the end, nothing else is saved."""
UNSEEN = 10.0
"""Seconds after which a card becomes plain HTML if no browser has reported showing it."""


class Place(Protocol):
    """The place in which a card is shown."""

    def show(self, widget: Any, meanwhile: dict[str, str]) -> None:
        """Show the widget; ``meanwhile`` is shown by frontends without widgets."""

    def keep(self, run: dict[str, str]) -> None:
        """Replace the widget with this HTML and text."""


class CardView:
    """Watches one run, and shows it in its place. Everything shown comes from the run."""

    shows_prints = True
    """The output of the run's tools is shown at their calls."""

    def __init__(
        self,
        open_widgets: OpenWidgets,
        *,
        blocks: bool,
        place: Place | None = None,
        variable: str = "run",
        stored: bool = True,
    ) -> None:
        """``open_widgets`` receives the widget once the run is over; ``blocks``: whether the cell waits for the run;
        ``place``: by default the cell that calls `show`; ``variable``: the variable that holds the run; ``stored``:
        whether its log is kept for `%agent load`.
        """
        self._stored = stored
        self._nested_changed = False
        self._place = place or Cell()
        self._open_widgets = open_widgets
        self._variable = variable
        self._blocks = blocks
        self._hears = HEARS_WHILE_BUSY or not blocks
        self._card = LiveCard(controls=self._hears)
        self._lock = threading.RLock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._live: LiveRun | None = None
        self._widget: Any = None
        self._instead: DisplayView | None = None
        self._pages: set[str] = set()
        self._restored = False
        """True if a page has been reloaded, so that updates to its outputs no longer reach it."""
        self._begun = False
        self._was_seen = False
        self._is_over = False
        self._folds: dict[str, bool] = {}
        self._cost = 0.0

    # The run

    def __call__(self, item: AnyEvent | Delta) -> None:
        """Record the item and schedule an update.

        Called on the run's event loop, except for earlier events of a recovered run, which may arrive on any thread.
        """
        with self._lock:
            if self._instead is not None:
                self._take_instead(self._instead, item)
                return
            loop = running_loop()
            if loop is not None and loop is not self._loop:
                self._loop = loop
                loop.call_soon(self._begin)  # if it is shown already; otherwise `show` will do so
            self._card.take(item)
            if isinstance(item, RunFinished) or self._is_suspended():
                self._end()
            elif self._timer is None and self._widget is not None:
                self._send_soon()

    def nested(self, beginning: Beginning) -> Watcher | None:
        """Return the watcher of a run started by one of this run's calls. The nested run is shown at that call."""
        with self._lock:
            return self.nested_runs.add(beginning, self.draw_nested, self.draw_nested if self._card.shows_steps else None)

    @property
    def nested_runs(self) -> NestedRuns:
        """The nested runs started by the run's calls."""
        return self._card.nested

    def draw_nested(self) -> None:
        """Schedule a redraw, from whichever thread the nested run is on."""
        if self._loop is not None and not self._nested_changed:
            self._nested_changed = True
            self._on_loop(self._nested_soon)

    def _nested_soon(self) -> None:
        with self._lock:
            self._nested_changed = False
            self._card.redraw_round()
            if self._timer is None and self._widget is not None and not self._is_over:
                self._send_soon()

    def show(self, live: LiveRun) -> None:
        """Start showing the run. If it has already ended, show its final form."""
        with self._lock:
            self._live = live
            if not self._run.should_continue or self._is_suspended():
                self._keep_ended()
                return
            self._widget = make_widget(live.run_id if self._stored else "")
            self._widget.on_msg(self._hear)
            self._show_widget(live)
        self._on_loop(self._begin)

    def _show_widget(self, live: LiveRun) -> None:
        hint = HINT.format(live.run_id) if self._stored else ""
        text = "\n".join(filter(None, [run_text(self._run), hint]))
        self._place.show(self._widget, {"text/html": running_html(self._run, hint=hint), "text/plain": text})

    def show_again(self) -> None:
        """Show a live run in the current cell, because rerunning the cell cleared its output."""
        with self._lock:
            if self._instead is not None:
                self._instead.show_again()
            elif self._widget is not None and self._live is not None and not self._is_over:
                self._place = Cell()
                self._show_widget(self._live)

    @property
    def _run(self) -> Run:
        return self._card.run

    def _is_suspended(self) -> bool:
        """Return whether the live run is really suspended, rather than resumed and still receiving its earlier events."""
        run, live = self._run, self._live
        return live is not None and run.is_suspended and len(run.events) > live.events_before

    def _begin(self) -> None:
        """Send the first frame once a loop and a widget exist, and check later whether a browser shows it."""
        with self._lock:
            if self._begun or self._widget is None or self._loop is None:
                return
            self._begun = True
            self._send()
            if self._hears:
                self._loop.call_later(UNSEEN, self._give_up)

    # Messages to the browser

    def _send_soon(self) -> None:
        wait = max(FRAME if self._hears else WHOLE, self._cost * LOAD)
        self._timer = asyncio.get_running_loop().call_later(wait, self._send)

    def _send(self) -> None:
        with self._lock:
            self._wait_no_longer()
            if self._widget is None or self._is_over:
                return
            started = perf_counter()
            todos = self._todos()
            frame = self._card.frame(todos) if self._hears else self._card.whole(todos)
            if frame is not None:
                self._tell(frame)
            self._cost = perf_counter() - started

    def _wait_no_longer(self) -> None:
        """Cancel the timer: a frame is being sent now, and a second timer would double the rate."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send_whole(self) -> None:
        with self._lock:
            if self._widget is not None and not self._is_over:
                self._tell(self._card.whole(self._todos()) | {"details": card_settings().details})

    def _tell(self, message: Frame) -> None:
        widget = self._widget  # read once: it may be given up at any moment
        if widget is None:
            return
        try:
            widget.send(message)
        except Exception:  # closed on another thread; neither a click nor the watcher may fail because of it
            logging.getLogger("agentnb").info("The card of run %s could not be updated", self._run.id, exc_info=True)

    def _todos(self) -> Any:
        """Return the list from its board, so that the person's changes are visible before the loop reads them."""
        board = self._live.board if self._live is not None else None
        if board is None or not is_going_on(self._run):
            return None
        try:
            return redact(tuple(board.read()))  # unlike the log, a board is not redacted
        except Exception:  # a custom board: the run reports the error, the card keeps the last list it has
            return None

    # Messages from the browser: received on a separate thread while the cell runs, and so handled elsewhere

    def _hear(self, widget: Any, message: Any, buffers: Any) -> None:
        if not isinstance(message, dict):
            return
        do = str(message.get("do", ""))
        if do in ("hello", "resync"):
            self._restored |= message.get("restored") is True
            self._greet_page(str(message.get("page", "")))
        elif do == "gone":
            self._pages.discard(str(message.get("page")))
            if self._is_over and not self._pages:
                self._open_widgets.let_go(widget)
        elif do == "fold":
            self._folds[str(message.get("key"))] = bool(message.get("open"))
        elif do == "details":
            card_settings().details = bool(message.get("open"))
        elif do in IMMEDIATE_ACTIONS:
            self._do(message)
        elif do in DRAWN:
            worker("agentnb-cards").do(partial(self._do, message))
        elif do in ACTIONS:
            self._on_loop(self._do, message)
        else:
            self._tell({"kind": "heard", "id": message.get("id"), "error": f"Unknown action: {do[:40]!r}"})

    def _greet_page(self, page: str) -> None:
        """Handle a page that has begun to show the widget, or has missed a frame."""
        self._was_seen = True
        if page:
            self._pages.add(page)
        if self._is_over:  # reloaded during the run: its output is still the widget
            self._tell_end()
        else:
            self._on_loop(self._send_whole)

    def _tell_end(self) -> None:
        """Send the final form to pages that were reloaded; they write it to the notebook themselves."""
        unsaved = unsaved_html(self._run.id, stored=self._stored)
        self._tell({"kind": "ended", "html": self._html(), "text": run_text(self._run), "unsaved": unsaved})

    def _do(self, message: Frame) -> None:
        error, fields = "", {}
        try:
            if self._live is not None:
                answer = self._done(self._live, message)
                if message["do"] in DRAWN:
                    self._tell({"kind": "fill", "key": message.get("key"), "html": answer})
        except Exception as broken:  # also from a custom board, or a message that our card did not send
            error = error_words(broken, f"An action on the card of run {self._run.id}")
            fields = broken.problems if isinstance(broken, FieldsRefused) else {}
        note = "" if error else NOTES.get(message["do"], "")
        heard = {"kind": "heard", "id": message.get("id"), "error": redact(error), "note": note}
        self._tell(heard | ({"fields": redact(fields)} if fields else {}))
        self._on_loop(self._send)

    def _done(self, live: LiveRun, message: Frame) -> object:
        do = message["do"]
        with self._lock if do in ASKED else nullcontext():  # the run may read it at once: record the request before its event
            with click():
                answer = ACTIONS[do](live, message)
            self._card.note_command(do, str(message.get("text", "")))
        return answer

    def _on_loop(self, function: Any, *arguments: Any) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop was closed: the run is over
                self._loop.call_soon_threadsafe(function, *arguments)

    # The end

    def _keep_ended(self) -> None:
        """Show the run in its final form, which stays in the notebook."""
        self._place.keep({"text/html": self._html(), "text/plain": run_text(self._run)})
        replay_buttons().add(self._run)

    def _html(self) -> Html:
        """Return the run as HTML, or as text if drawing fails: a card must not stay live after its run."""
        try:
            nested, folds = self._card.nested.html, dict(self._folds)
            details = card_settings().details
            return run_html(self._run, folds=folds, details=details, variable=self._variable, nested=nested)
        except Exception:
            logging.getLogger("agentnb").exception("Run %s could not be drawn", self._run.id)
            return tag("pre", "", run_text(self._run))

    def _end(self) -> None:
        self._wait_no_longer()
        if self._widget is None:
            return  # not shown yet: `show` will find it ended
        try:
            self._send()  # so that the page announces the end to screen readers
        finally:
            self._is_over = True
            self._open_widgets.keep(self._widget)
            self._keep_ended()
            self._let_go_later()

    def _let_go_later(self) -> None:
        # A page reports when its card was replaced by the saved form. A page reloaded meanwhile replaces it itself: no update
        # of an output reaches it. One that was closed may be opened again: the widget is left open for that.
        if self._restored or len(self._pages) > 1:
            self._tell_end()
        elif not self._was_seen:
            # A browser still creating the widget would report an error if it were closed at once.
            asyncio.get_running_loop().call_later(UNSEEN, self._open_widgets.let_go, self._widget)

    def _give_up(self) -> None:
        """Switch to plain HTML, which every frontend can show, if no browser shows the widget."""
        with self._lock:
            if self._was_seen or self._is_over or self._widget is None:
                return
            widget, self._widget = self._widget, None
            self._instead = DisplayView(keep=self._place.keep, variable=self._variable)
            self._instead.nested_runs = self._card.nested
            for event in self._run.events:
                self._instead(event)
            for delta in self._card.heard:
                self._instead(delta)
            self._ask_nobody()
            close(widget)

    def _take_instead(self, instead: DisplayView, item: AnyEvent | Delta) -> None:
        instead(item)
        if isinstance(item, Event):
            self._card.take(item)  # keeps the card's run up to date, which holds the open questions
            if isinstance(item, QuestionAsked):
                self._ask_nobody()

    def _ask_nobody(self) -> None:
        """If the cell waits for the run, suspend it at a question of a gate or a step and decline tools' questions: there are
        no buttons.
        """
        live = self._live
        if live is not None and self._blocks and works_in_steps(self._run):
            live.leave()
        elif live is not None and self._blocks:
            with suppress(AgentnbError):  # no gate asks
                live.suspend(nobody_here=True)
            for question in self._run.waiting:
                with suppress(AgentnbError):  # it was answered, withdrawn, or left open
                    live.decline(question.id, nobody_here=True)
