"""The live card of a run in a notebook: sends what has changed about thirty times a second, and hears what the person does."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextlib import nullcontext, suppress
from functools import partial
from time import perf_counter
from typing import Any, Protocol

from agentnb.core.events import AnyEvent, Delta, Event, QuestionAsked, RunFinished
from agentnb.core.redaction import redact
from agentnb.core.run import Run
from agentnb.display.html import run_html, running_html
from agentnb.display.live_card import ASKED, Frame, LiveCard
from agentnb.display.markup import Html, tag
from agentnb.display.text import run_text
from agentnb.errors import AgentnbError
from agentnb.notebook.card.actions import ACTIONS, AT_ONCE, DRAWN, NOTES, drawing
from agentnb.notebook.card.widget import LeftOpen, make_widget
from agentnb.notebook.views import Cell, DisplayView, running_loop
from agentnb.notebook.widgets import HEARS_WHILE_BUSY, close
from agentnb.runtime.live import LiveRun

FRAME = 1 / 30
"""Seconds between two messages. More would not be seen, and a browser that is sent a message a token loses some for good."""
WHOLE = 0.5
"""Seconds between two messages where the browser cannot ask for what it has missed, and each holds all."""
LOAD = 5
"""A frame that took long to make is followed by a longer wait: at most a part in five of the time."""
HINT = "So it began. The card replaces this; where it does not: %agent load {}"
"""What stands below the first moment of a run, which is all that is kept where no page was there to take in the end."""
UNSEEN = 10.0
"""Seconds after which a card that no browser has reported to show is no card but plain HTML."""


class Place(Protocol):
    """Where a card is shown."""

    def show(self, widget: Any, meanwhile: dict[str, str]) -> None:
        """Show the widget; ``meanwhile`` is for frontends that have no widgets."""

    def keep(self, run: dict[str, str]) -> None:
        """Put this HTML and text in its place."""


class CardView:
    """Watches one run, and shows it in its place. It holds no truth: all it shows is in the run."""

    def __init__(
        self,
        left_open: LeftOpen,
        *,
        answer_beside: bool,
        blocks: bool,
        place: Place | None = None,
        variable: str = "run",
    ) -> None:
        """``left_open`` takes the widget once the run is over; ``answer_beside``: the answer will be shown as the cell's
        result; ``blocks``: the cell waits for the run; ``place``: by default the cell that calls `show`;
        ``variable`` holds the run.
        """
        self._place = place or Cell()
        self._left_open = left_open
        self._variable = variable
        self._answer_beside = answer_beside
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
        self._begun = False
        self._was_seen = False
        self._is_over = False
        self._folds: dict[str, bool] = {}
        self._cost = 0.0

    # The run

    def __call__(self, item: AnyEvent | Delta) -> None:
        """Take it in, and show it soon. Called on the run's event loop; what a recovered run did before, on any thread."""
        with self._lock:
            if self._instead is not None:
                self._take_instead(self._instead, item)
                return
            loop = running_loop()
            if loop is not None and loop is not self._loop:
                self._loop = loop
                loop.call_soon(self._begin)  # if it is shown already; else `show` will do so
            self._card.take(item)
            if isinstance(item, RunFinished):
                self._end()
            elif self._timer is None and self._widget is not None:
                self._send_soon()

    def show(self, live: LiveRun) -> None:
        """Begin to show the run. One that is over already is shown as it will be kept."""
        with self._lock:
            self._live = live
            if not self._run.should_continue:
                self._place.keep(self._kept())
                return
            self._widget = make_widget()
            self._widget.on_msg(self._hear)
            hint = HINT.format(live.run_id)
            text = f"{run_text(self._run)}\n{hint}"
            self._place.show(self._widget, {"text/html": running_html(self._run, hint=hint), "text/plain": text})
        self._on_loop(self._begin)

    @property
    def _run(self) -> Run:
        return self._card.run

    def _begin(self) -> None:
        """Once there is a loop and a widget: send what there is, and look later whether anybody sees it."""
        with self._lock:
            if self._begun or self._widget is None or self._loop is None:
                return
            self._begun = True
            self._send()
            if self._hears:
                self._loop.call_later(UNSEEN, self._give_up)

    # What the browser is sent

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
        """What is sent now needs no timer: two of them would send twice as often."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _send_whole(self) -> None:
        with self._lock:
            if self._widget is not None and not self._is_over:
                self._tell(self._card.whole(self._todos()))

    def _tell(self, message: Frame) -> None:
        widget = self._widget  # once: the next moment it may be given up
        if widget is None:
            return
        try:
            widget.send(message)
        except Exception:  # it was closed on another thread; who clicks, and who watches, must not fail of that
            logging.getLogger("agentnb").info("The card of run %s could not be told", self._run.id, exc_info=True)

    def _todos(self) -> Any:
        """The list as it is on its board: what the person changes is seen before the loop has read it."""
        board = self._live.board if self._live is not None else None
        if board is None or not self._run.should_continue:
            return None
        try:
            return redact(tuple(board.read()))  # it does not come out of the log
        except Exception:  # a board of the person's own: the run is what tells of it, the card goes on with the list it knows
            return None

    # What the browser says: heard on a thread of its own while the cell runs, and so answered elsewhere

    def _hear(self, widget: Any, message: Any, buffers: Any) -> None:
        if not isinstance(message, dict):
            return
        do = str(message.get("do", ""))
        if do in ("hello", "resync"):
            self._greeted(str(message.get("page", "")))
        elif do == "gone":
            self._pages.discard(str(message.get("page")))
            if self._is_over and not self._pages:
                self._left_open.let_go(widget)
        elif do == "fold":
            self._folds[str(message.get("key"))] = bool(message.get("open"))
        elif do in AT_ONCE:
            self._do(message)
        elif do in DRAWN:
            drawing().do(partial(self._do, message))
        elif do in ACTIONS:
            self._on_loop(self._do, message)
        else:
            self._tell({"kind": "heard", "id": message.get("id"), "error": f"Nothing can be done that is called {do[:40]!r}"})

    def _greeted(self, page: str) -> None:
        """A page shows the widget, or has missed something."""
        self._was_seen = True
        if page:
            self._pages.add(page)
        if self._is_over:  # it was loaded again while the run went on, and its output is still the widget
            self._tell_end()
        else:
            self._on_loop(self._send_whole)

    def _tell_end(self) -> None:
        """With the answer, for a page that was loaded again has not got the result of the cell either."""
        self._tell({"kind": "ended", "html": self._html(last_text=True)})

    def _do(self, message: Frame) -> None:
        error = ""
        try:
            if self._live is not None:
                answer = self._done(self._live, message)
                if answer is not None:
                    self._tell({"kind": "fill", "key": message.get("key"), "html": answer})
        except AgentnbError as refused:
            error = str(refused)
        except Exception as broken:  # of a board of the person's own, or a message that no card of ours has sent
            # Not louder: it is told in the card, and standard error would be the output of a cell.
            logging.getLogger("agentnb").info("What was clicked in the card of run %s failed", self._run.id, exc_info=True)
            error = f"That failed: {type(broken).__name__}: {broken}"
        note = "" if error else NOTES.get(message["do"], "")
        self._tell({"kind": "heard", "id": message.get("id"), "error": redact(error), "note": note})
        self._on_loop(self._send)

    def _done(self, live: LiveRun, message: Frame) -> Html | None:
        do = message["do"]
        with self._lock if do in ASKED else nullcontext():  # the run may read it at once: what was asked stands there before
            answer = ACTIONS[do](live, message)
            self._card.asked(do, str(message.get("text", "")))
        return answer

    def _on_loop(self, function: Any, *arguments: Any) -> None:
        if self._loop is not None:
            with suppress(RuntimeError):  # the loop was closed: the run is over
                self._loop.call_soon_threadsafe(function, *arguments)

    # The end

    def _kept(self) -> dict[str, str]:
        """The run as it stays in the notebook."""
        last_text = not (self._answer_beside and self._run.is_answered)
        return {"text/html": self._html(last_text), "text/plain": run_text(self._run, last_text=last_text)}

    def _html(self, last_text: bool) -> Html:
        """As HTML; if that cannot be drawn as text, for a card must never stay as it was while the run went on."""
        try:
            return run_html(self._run, last_text=last_text, folds=dict(self._folds), variable=self._variable)
        except Exception:
            logging.getLogger("agentnb").exception("Run %s cannot be drawn", self._run.id)
            return tag("pre", "", run_text(self._run, last_text=last_text))

    def _end(self) -> None:
        self._wait_no_longer()
        if self._widget is None:
            return  # not shown yet: `show` will find it ended
        try:
            self._send()  # the page tells screen readers how it ended
        finally:
            self._is_over = True
            self._left_open.keep(self._widget)
            self._place.keep(self._kept())
            self._let_go_later()

    def _let_go_later(self) -> None:
        if self._pages:
            # The page says when it has put the saved form in its place. One that was loaded again meanwhile never does: no
            # update of an output reaches it, and the widget is all it has.
            if len(self._pages) > 1:
                self._tell_end()
        else:
            # A browser that is just making it would complain if it were gone at once.
            asyncio.get_running_loop().call_later(UNSEEN, self._left_open.let_go, self._widget)

    def _give_up(self) -> None:
        """No browser shows the widget: go on as plain HTML, which every frontend can show."""
        with self._lock:
            if self._was_seen or self._is_over or self._widget is None:
                return
            widget, self._widget = self._widget, None
            self._instead = DisplayView(answer_beside=self._answer_beside, keep=self._place.keep, variable=self._variable)
            for event in self._run.events:
                self._instead(event)
            for delta in self._card.heard:
                self._instead(delta)
            self._ask_nobody()
            close(widget)

    def _take_instead(self, instead: DisplayView, item: AnyEvent | Delta) -> None:
        instead(item)
        if isinstance(item, Event):
            self._card.take(item)  # for the run, which knows the questions that are open
            if isinstance(item, QuestionAsked):
                self._ask_nobody()

    def _ask_nobody(self) -> None:
        """Where there are no buttons, and the cell is busy, a question would be waited for without an end."""
        live = self._live
        if live is not None and self._blocks:
            for question in self._run.waiting:
                with suppress(AgentnbError):  # it was answered, or withdrawn, in the meantime
                    live.decline(question.id)
