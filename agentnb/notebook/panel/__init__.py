"""``agentnb.panel()``: starts runs without a cell, next to a list of runs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from functools import partial
from itertools import islice
from typing import Any

from IPython.core.getipython import get_ipython

from agentnb.advice import USUAL_OUT, Invocation
from agentnb.agent.agent import Agent
from agentnb.core.log.events import AnyEvent, Delta, RunStarted
from agentnb.detect.run import Run
from agentnb.display.card.html import run_html, running_html
from agentnb.display.lists.history_list import list_title, run_list_html
from agentnb.display.markup import tag
from agentnb.display.texts.labels import pluralize
from agentnb.display.texts.states import is_going_on
from agentnb.errors import SettingsError
from agentnb.notebook.agent_options import AgentOptions, make_agent
from agentnb.notebook.card.replay_button import replay_buttons
from agentnb.notebook.card.view import CardView
from agentnb.notebook.card.widget import OpenWidgets
from agentnb.notebook.cells.interpolation import interpolate, near_misses
from agentnb.notebook.choices import available_choices
from agentnb.notebook.commands.history_command import families_known_here
from agentnb.notebook.frontend import can_ask
from agentnb.notebook.ipython_extension import session_of
from agentnb.notebook.panel.area import Area, RunPlace
from agentnb.notebook.panel.panel_widgets import PanelWidgets
from agentnb.notebook.widget_tools import error_words, has_kernel, view_bundle
from agentnb.notebook.worker_thread import Worker
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.host.run_options import RunOptions
from agentnb.session.session import Session

PANEL = "_agentnb_panel"
MAX_LISTED_RUNS = 30
"""Maximum runs in the list, counted from the newest."""
WITHOUT_KERNEL = (
    "The agentnb panel starts runs without a cell. It needs its kernel: run this cell to show it again. "
    "%agent history lists past runs."
)
ELSEWHERE = "Its live card is where it was started. Refresh shows its progress"
Message = dict[str, Any]


def panel() -> Panel:
    """Return the panel of this kernel, where you write a prompt, choose a model, tools and guidance, and start runs.

    The runs are listed next to it. Each kernel has one panel, however often you call this: all copies show the same content,
    and nothing typed is lost. Its runs belong to the session: ``%agent status``, ``%agent history`` and ``%%agent --continue``
    include them, and a finished run is stored in the variable ``run``. Plain tools run in threads, as with ``%%agent
    --background``, and their output appears below the cell that last showed the panel. ``{{ name }}`` in the prompt is replaced
    by that variable.

    A saved notebook opened without its kernel shows a sentence in place of the panel. JupyterLab itself adds "model not found",
    which no widget can prevent. Raises `SettingsError` outside a notebook.
    """
    shell: Any = get_ipython()
    if shell is None:
        raise SettingsError("The panel needs a notebook", "In Python: Agent(...).run_sync(PROMPT)")
    if not has_kernel(shell):
        raise SettingsError("The panel needs a notebook, and this is a terminal", "Write a task with: %%agent")
    session = session_of(shell)
    existing: Panel | None = getattr(shell, PANEL, None)
    if existing is None or not existing.is_open:
        existing = Panel(shell, session)
        setattr(shell, PANEL, existing)
    existing.shown_from_here()
    return existing


class _Watcher:
    """Passes a run's events on to its card, and updates the list when the run starts."""

    shows_prints = True

    def __init__(self, view: CardView, begun: Callable[[], None]) -> None:
        self._view = view
        self._begun = begun
        self.nested = view.nested

    def __call__(self, item: AnyEvent | Delta) -> None:
        self._view(item)
        if isinstance(item, RunStarted):
            self._begun()


class Panel:
    """The panel returned by `panel`. It displays itself as the result of a cell."""

    def __init__(self, shell: Any, session: Session) -> None:
        self._shell = shell
        self._session = session
        self._widgets = PanelWidgets(tag("p", "", WITHOUT_KERNEL))
        self._area = Area(self._widgets.area, self._widgets.page)
        self._places: dict[str, RunPlace] = {}
        self._watched = ""
        self._seen: object = None
        self._used: list[str] = []
        self._open_widgets = OpenWidgets()
        self._worker = Worker("agentnb-panel")
        self._context = copy_context()
        actions: dict[Any, dict[str, Callable[[Message], object]]] = {
            self._widgets.form: {"start": self._start, "look": self._look},
            self._widgets.list: {"open": self._open, "refresh": self._refresh},
        }
        for widget, messages in actions.items():
            widget.on_msg(partial(self._hear, messages))

    @property
    def is_open(self) -> bool:
        """True if it can be displayed."""
        return self._widgets.is_open

    def shown_from_here(self) -> None:
        """Send the tool output of subsequent runs to the calling cell."""
        self._context = copy_context()
        self._look({})

    def close(self) -> None:
        """Remove the panel from the kernel and from all pages. Its runs continue."""
        if self.is_open:
            self._worker.end()
            self._area.show(None)
            self._widgets.close()

    def _repr_mimebundle_(self, **_include_and_exclude: Any) -> dict[str, Any]:
        sentence = WITHOUT_KERNEL if self.is_open else "This panel is closed. agentnb.panel() makes another."
        plain = {"text/plain": sentence, "text/html": tag("p", "", sentence)}
        return view_bundle(self._widgets.whole) | plain if self.is_open else plain

    # Messages from the browser: received on a separate thread while a cell runs, which must not be held up

    def _hear(self, messages: dict[str, Callable[[Message], object]], widget: Any, message: Any, buffers: Any) -> None:
        if isinstance(message, dict) and message.get("do") in messages:
            self._soon(partial(self._do, messages[message["do"]], widget, message))

    def _soon(self, job: Callable[[], object]) -> None:
        """Run the job on the worker, in the context of the cell that shows the panel."""
        self._worker.do(partial(self._context.copy().run, job))

    def _do(self, action: Callable[[Message], object], widget: Any, message: Message) -> None:
        if message["do"] != "look":
            widget.error = ""
        try:
            action(message)
        except Exception as broken:  # including the person's own objects, and messages from other senders
            widget.error = error_words(broken, "An action in the panel")
        widget.send({"kind": "heard", "id": message.get("id")})

    # Runs

    def _start(self, message: Message) -> None:
        self._widgets.form.note = ""
        variables = self._shell.user_ns
        typed = str(message.get("prompt", ""))
        prompt = interpolate(typed, variables).strip("\n")
        agent, note = self._agent(message)
        run_place = RunPlace(self._area)
        view = CardView(self._open_widgets, blocks=False, place=run_place)
        options = RunOptions(
            watch=_Watcher(view, partial(self._soon, self._list_runs)),
            can_ask=can_ask(self._shell, blocks=False),
            invocation=Invocation(out=USUAL_OUT, model=str(message.get("model") or ""), tools=tuple(_tools(message))),
        )
        live = self._session.start(agent, prompt, options)
        self._places[live.run_id] = run_place
        view.show(live)
        self._show(run_place, live.run_id)
        self._widgets.form.note = " ".join(filter(None, [near_misses(typed, variables), note, self._session.store_note]))
        threading.Thread(target=self._wait_for, args=(live,), name="agentnb-panel-wait", daemon=True).start()

    def _agent(self, message: Message) -> tuple[Agent, str]:
        """Return the agent with the chosen options, and a note. The rest is as in a cell without options."""
        chosen = AgentOptions(str(message.get("model") or ""), _tools(message), str(message.get("guidance") or ""))
        return make_agent(chosen, self._session, self._shell.user_ns)

    def _wait_for(self, live: LiveRun) -> None:
        with suppress(BaseException):  # its card says what went wrong
            live.result()
        self._shell.user_ns["run"] = live.run
        self._soon(partial(self._remove_place, live))

    def _remove_place(self, live: LiveRun) -> None:
        del self._places[live.run_id]
        self._list_runs()

    # The list, and what is opened from it

    def _look(self, message: Message) -> None:
        """Update the choices, and also the list if runs have started or ended since."""
        if self._state() != self._seen:
            self._list_runs()
        self._widgets.form.offers = available_choices(self._session, self._shell.user_ns, self._used)

    def _refresh(self, message: Message) -> None:
        self._list_runs()
        if self._watched:
            self._open({"run": self._watched})

    def _list_runs(self) -> None:
        self._seen = self._state()
        summaries = [family[0] for family in islice(families_known_here(self._session), MAX_LISTED_RUNS)]
        self._used = [summary.model for summary in summaries]
        count = len(self._session.store.ids())
        note = list_title(summaries, count=count, folder=self._session.store.shown_folder, most=MAX_LISTED_RUNS, wanted=())
        waiting = sum(summary.can_be_answered for summary in summaries)
        if waiting:
            which = "it" if waiting == 1 else "one"
            note += f". {pluralize(waiting, 'run')} waiting for your answer: open {which} to see the question"
        with self._widgets.list.hold_sync():  # no page shows runs beside an earlier count of them
            self._widgets.list.html, self._widgets.list.note = run_list_html(summaries), note

    def _state(self) -> object:
        return self._session.store.ids()[-MAX_LISTED_RUNS:], [live.run_id for live in self._session.running()]

    def _open(self, message: Message) -> None:
        run_id = str(message.get("run"))
        run_place = self._places.get(run_id)
        if run_place is not None:
            self._show(run_place, run_id)
            return
        run = self._run(run_id)
        html = running_html(run, hint=ELSEWHERE) if is_going_on(run) else run_html(run, prompt=True)
        replay_buttons().add(run)
        self._show(RunPlace(self._area, html), run_id)
        self._watched = run_id if is_going_on(run) else ""

    def _run(self, run_id: str) -> Run:
        live = next((live for live in self._session.running() if live.run_id == run_id), None)
        return live.run if live is not None else self._session.store.load(run_id)

    def _show(self, run_place: RunPlace, run_id: str) -> None:
        self._area.show(run_place)
        self._widgets.list.selected = run_id
        self._watched = ""


def _tools(message: Message) -> list[str]:
    return [str(tool) for tool in message.get("tools") or ()]
