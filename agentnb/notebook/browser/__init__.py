"""``agentnb.browse``: a searchable, filterable list of runs next to the open run."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import cached_property, partial
from typing import Any

from IPython.core.getipython import get_ipython

from agentnb.detect.run import Run
from agentnb.display.defaults import RUNS_IN_A_PAGE
from agentnb.display.lists import browser as shown
from agentnb.display.lists.run_rows import RunRow, Wanted, choices, matching, row_of, with_words
from agentnb.display.markup import NOTHING
from agentnb.errors import SettingsError
from agentnb.interchange.files import Runs, RunSource
from agentnb.notebook.browser.browser_widget import make_widget
from agentnb.notebook.browser.trace_loading import read_runs
from agentnb.notebook.card.replay_button import replay_buttons
from agentnb.notebook.frontend import is_attended
from agentnb.notebook.lookup.dotted_names import public_variables
from agentnb.notebook.widget_tools import close, error_words, has_kernel
from agentnb.notebook.worker_thread import worker

MAX_OPEN = 8
"""Maximum number of interactive browsers in a kernel; any others show their saved form."""
_open: deque[Browser] = deque()
Message = dict[str, Any]


def browse(source: RunSource, *, strict: bool = False) -> Browser:
    """Return a browser of runs, displayed as a cell's result: search, filter, open a run, step through its rounds.

    ``source``: runs, a file in any format, a folder, a glob, a store, or the name of an example. Unreadable parts are skipped
    and listed in ``browser.runs.problems``; ``strict=True`` raises an error, as `load_traces` does. Without widgets, the list
    and the first run are shown as HTML or text.
    """
    return Browser(source if isinstance(source, Runs) else read_runs(source, get_ipython(), strict=strict))


class Browser:
    """Shows many runs: ``runs`` holds all of them, ``run`` is the open one, or None if no run matches the search."""

    def __init__(self, runs: Runs) -> None:
        self.runs = runs
        self.run: Run | None = runs[0] if runs else None
        self._place: int | None = 0 if runs else None
        """Index of the open run, or None if no run matches the search."""
        self._chosen = 0
        """Index of the run that the person last opened."""
        self._wanted = Wanted()
        self._first = 0
        self._widget: Any = None

    def __repr__(self) -> str:
        rows = self._rows_of_first_page
        return shown.browser_text(rows, len(self.runs), self._title) if rows else self._title

    def close(self) -> None:
        """Keep only the saved form, and free the browser's objects in the kernel."""
        if self._widget is not None:
            widget, self._widget = self._widget, None
            close(widget)

    def _repr_mimebundle_(self, **_include_and_exclude: Any) -> dict[str, Any]:
        if not self.runs:
            return {"text/plain": self._title}
        if not has_kernel(get_ipython()):
            return {"text/plain": repr(self)}
        if self._widget is None and is_attended(get_ipython()):
            self._widget = make_widget()
            self.__dict__.pop("_frame", None)  # it names the widget
            self._widget.on_msg(self._hear)
            _open.append(self)
            while len(_open) > MAX_OPEN:
                _open.popleft().close()
        return {"text/plain": repr(self), "text/html": shown.saved_html(self._frame, self._opened)}

    # What is shown

    @cached_property
    def _rows(self) -> list[RunRow]:
        return [row_of(index, run) for index, run in enumerate(self.runs)]

    @cached_property
    def _rows_of_first_page(self) -> list[RunRow]:
        return [row_of(index, run) for index, run in enumerate(self.runs[:RUNS_IN_A_PAGE])]

    @cached_property
    def _title(self) -> str:
        if not self.runs:
            return "0 runs"
        summary = shown.runs_title(run.origin.format if run.origin else "agentnb" for run in self.runs)
        return f"{summary} ({len(self.runs.problems):,} left out: see .problems)" if self.runs.problems else summary

    @cached_property
    def _frame(self) -> str:
        key = "" if self._widget is None else self._widget.key
        return shown.saved_frame(self._rows_of_first_page, len(self.runs), self._title, key)

    @property
    def _variable(self) -> str:
        """Return an expression for the open run, using the notebook's name for the list or the browser."""
        if self._place is None:
            return ""
        variables: dict[str, Any] = getattr(get_ipython(), "user_ns", {})
        for name, value in public_variables(variables):
            if value is self.runs or value is self:
                return f"{name}[{self._place}]" if value is self.runs else f"{name}.runs[{self._place}]"
        return f"runs[{self._place}]"

    @property
    def _opened(self) -> Any:
        return NOTHING if self.run is None else shown.opened_html(self.run, self._variable)

    # Messages from the page: received on a separate thread while a cell runs, which must not be held up

    def _hear(self, widget: Any, message: Any, buffers: Any) -> None:
        actions: dict[str, Callable[[Message], None]] = {"hello": self._hello, "list": self._list, "open": self._open}
        action = actions.get(str(message.get("do"))) if isinstance(message, dict) else None
        if action is not None:
            worker("agentnb-browser").do(partial(self._do, action, message))

    def _do(self, action: Callable[[Message], None], message: Message) -> None:
        error = ""
        try:
            action(message)
        except Exception as broken:  # including messages from other senders, and traces that cannot be drawn
            error = error_words(broken, "An action in the trace browser")
        self._tell({"kind": "heard", "id": message.get("id"), "error": error})

    def _tell(self, message: Message) -> None:
        widget = self._widget  # read once: it may be closed concurrently
        if widget is not None:
            widget.send(message)

    def _hello(self, message: Message) -> None:
        self._tell({"kind": "frame", "html": self._frame, "text": repr(self)})
        self._send_list()
        self._send_opened()

    def _list(self, message: Message) -> None:
        wanted = message.get("wanted")
        filters = wanted if isinstance(wanted, dict) else {}
        self._wanted = Wanted(**{name: str(filters.get(name, ""))[:1_000] for name in Wanted._fields})
        self._first = max(0, int(message.get("first", 0)))
        indexes = [row.place for row in self._send_list()]
        if self._place not in indexes:
            self._show(self._chosen if self._chosen in indexes else indexes[0] if indexes else None)

    def _send_list(self) -> list[RunRow]:
        """Send the current page of the list, and return all matching rows."""
        hits, others = with_words(self._rows, self._wanted.find), self._wanted._replace(find="")
        fitting = matching(hits, others)
        first = self._first if self._first < len(fitting) else 0
        page = fitting[first : first + RUNS_IN_A_PAGE]
        self._tell(
            {
                "kind": "list",
                "html": shown.rows_html(page) if page else shown.no_hit_html(self._wanted.find),
                "told": shown.page_words(first, len(page), len(fitting), len(self.runs)),
                "first": first,
                "total": len(self.runs),
                "before": max(0, first - RUNS_IN_A_PAGE) if first else None,
                "after": first + RUNS_IN_A_PAGE if first + RUNS_IN_A_PAGE < len(fitting) else None,
                "wanted": self._wanted._asdict(),
                "choices": {name: [*map(list, filter_choices)] for name, filter_choices in choices(hits, others).items()},
            }
        )
        return fitting

    def _open(self, message: Message) -> None:
        index = int(message["place"])
        if not 0 <= index < len(self.runs):
            raise SettingsError(f"There is no run {index}")
        self._chosen = index
        self._show(index)

    def _show(self, index: int | None) -> None:
        self._place, self.run = index, None if index is None else self.runs[index]
        self._send_opened()

    def _send_opened(self) -> None:
        if self.run is not None:
            replay_buttons().add(self.run)
        fields = {"place": self._place, "variable": self._variable, "rounds": 0 if self.run is None else len(self.run.rounds)}
        self._tell({"kind": "opened", **fields, "html": self._opened})
