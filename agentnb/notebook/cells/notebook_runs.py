"""Runs that a cell starts: shown below it, awaited, and stored in a variable."""

from __future__ import annotations

import builtins
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agentnb.advice import USUAL_OUT, StopRun
from agentnb.core.log.events import RunSuspended
from agentnb.core.redaction import redact
from agentnb.detect.run import Run
from agentnb.display.card.finished import answer_html
from agentnb.display.css import wrap_output
from agentnb.display.texts.labels import clean, first_line
from agentnb.display.texts.notebook_commands import is_variable
from agentnb.display.texts.states import continue_command, continue_hint
from agentnb.errors import AgentnbError, RunFailed, RunLimited, SettingsError
from agentnb.notebook.card.view import CardView
from agentnb.notebook.card.widget import OpenWidgets
from agentnb.notebook.cells.begun_cell import begun_cell
from agentnb.notebook.cells.cell_host import CellHost, tell_saved_rules
from agentnb.notebook.frontend import can_ask, view_for
from agentnb.notebook.magic_errors import in_one_line
from agentnb.notebook.views import DisplayView, TerminalView
from agentnb.rerun.expect import check_logged
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.workers.foreground import RunInterrupted
from agentnb.session.session import Session

MAX_OF_A_REASON = 200
"""Maximum characters of the reason in an error line; the card has the complete text."""
_FIRST_SENTENCE = re.compile(r".{8,}?[.?!](?=\s)")
WAITS = "the run is waiting for your answer. Its card shows what to type"
_CELL_RUNS = "_agentnb_cell_runs"


class Answer(str):
    """A string (equal to ``run.text``) displayed as text rather than as a Python literal.

    Not displayed in its run's cell, because the card there shows it.
    """

    __slots__ = ("_is_shown",)
    _is_shown: Callable[[], bool]

    @classmethod
    def shown_by(cls, text: str, is_shown: Callable[[], bool]) -> Answer:
        """Return an answer that is displayed only while ``is_shown`` is false."""
        answer = cls(text)
        answer._is_shown = is_shown
        return answer

    def __reduce__(self) -> tuple[type[str], tuple[str]]:
        return Answer, (str(self),)

    def _ipython_display_(self) -> None:
        if not getattr(self, "_is_shown", bool)():
            raise NotImplementedError  # IPython then tries the representations below

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(clean(str(self)))

    def _repr_html_(self) -> str:
        return wrap_output(answer_html(self))


class CellRuns:
    """The runs of all cells in a kernel."""

    def __init__(self, shell: Any, session: Session) -> None:
        self._shell = shell
        self.session = session
        self.open_widgets = OpenWidgets()
        self._run_of: dict[str, str] = {}
        """Run ids by the variable that the run's cell assigned."""
        self._in_background: dict[tuple[str, str], tuple[LiveRun, CellHost, CardView | DisplayView | TerminalView]] = {}
        """The last background run for each cell and variable, with the host of the execution that started it, and its view."""

    @property
    def cell(self) -> CellHost:
        """The host of the running cell."""
        return begun_cell(self._shell).shown

    def new_cell(self) -> CellHost:
        """Return the host for a new cell execution."""
        return CellHost(self._shell, self.session, self.open_widgets)

    def run(self, start: Callable[[RunOptions], LiveRun], out: str, options: RunOptions, *, on_stop: str = "") -> Answer | None:
        """Start a run and show it; if it runs in the foreground, wait for it and return its answer, if any.

        ``start`` is `Session.start` or `Session.recover`, with all arguments before the options already bound. The run is
        stored in the variable ``out``.

        Raises an error with the next command if the run failed, or reached a limit with ``on_limit="raise"``. If the person
        stopped it or postponed its question, raises an error like an interrupt, so that no later cell uses partial results,
        unless ``on_stop`` (by default from `%agent defaults`) is ``continue``. Raises `ExpectationFailed` if the run violates
        ``--expect``, and `SettingsError` if this cell's earlier background run is still live.
        """
        blocks = options.foreground is not None
        if not blocks:
            self._check_not_live(out)
        view = view_for(self._shell, self.open_widgets, blocks=blocks, variable=out)
        live = start(replace(options, watch=view, can_ask=can_ask(self._shell, blocks=blocks), suspend=True))
        self._shell.user_ns[out] = live.run
        self._run_of[out] = live.run_id
        tell_saved_rules(self.session)
        view.show(live)
        if not blocks:
            self._in_background[begun_cell(self._shell).source, out] = (live, self.cell, view)
            if isinstance(view, TerminalView):  # a card shows that it runs, and then that it is done
                print(f"Run {live.run_id} started in the background. See %agent status")
            return None
        try:
            run = self._wait_for(live, out)
        except AgentnbError as error:
            raise _shorten_below_card(view, error, live.run) from None
        if (on_stop or self.session.defaults["on-stop"]) == "raise":
            _raise_if_put_off(run)
        check_logged(run, out)
        cell = self.cell
        return Answer.shown_by(run.text, lambda: self.cell is cell) if run.is_answered else None

    def variable_of(self, run: Run) -> str:
        """Return the variable of this run's cell if it still holds the run or, in a new kernel, is unused; otherwise
        ``run``.
        """
        variables = self._shell.user_ns
        for name, run_id in self._run_of.items():
            value = variables.get(name)
            if run_id == run.id and isinstance(value, Run) and value.id == run.id:
                return name
        invocation = run.invocation
        if invocation is None or invocation.surface != "notebook" or not is_variable(invocation.out):
            return USUAL_OUT
        is_free = invocation.out not in variables or isinstance(variables[invocation.out], Run)
        return invocation.out if is_free and not hasattr(builtins, invocation.out) else USUAL_OUT

    def _check_not_live(self, out: str) -> None:
        """Raise `SettingsError` if a background run from an earlier execution of this cell is still live, and show its card
        again.
        """
        live, cell, view = self._in_background.get((begun_cell(self._shell).source, out), (None, None, None))
        is_live = live is not None and not live.done and live.run.should_continue  # its end comes before its log is closed
        if live is not None and is_live and cell is not self.cell:
            if isinstance(view, CardView | DisplayView):
                view.show_again()
            problem = f"Run {live.run_id} from this cell is still running, so no new run was started"
            raise SettingsError(problem, StopRun(live.run_id, lead="To stop it"))

    def _wait_for(self, live: LiveRun, out: str) -> Run:
        try:
            run = live.wait_in_foreground()
        except RunLimited as limited:
            raise RunLimited(limited.what, _what_next(out, live.run), run=limited.run) from None
        except RunInterrupted as interrupt:
            if not interrupt.closed:
                self.session.leave_foreground()
            raise _with_continue_hint(interrupt, live.run) from None
        if run.status == "failed":
            why = str(run.error) if run.error else "no reason given"
            location = f" in round {len(run.rounds)}" if run.rounds else ""
            raise RunFailed(f"The run failed{location}: {why}", _what_next(out, run), run=run)
        return run


def cell_runs(shell: Any, session: Session) -> CellRuns:
    """Return the kernel's `CellRuns`; all cells share its open widgets."""
    runs: CellRuns | None = getattr(shell, _CELL_RUNS, None)
    if runs is None or runs.session is not session:
        runs = CellRuns(shell, session)
        setattr(shell, _CELL_RUNS, runs)
    return runs


def _shorten_below_card(view: object, error: AgentnbError, run: Run) -> AgentnbError:
    """Return the error of a failed run as one line; below a card, keep only the first sentence of the reason.

    nbconvert and papermill show only this line.
    """
    if run.status == "failed" and run.error and not isinstance(view, TerminalView):
        return in_one_line(error, f"{type(error).__name__}: {_first_sentence(run.error.message)}. See the card for details")
    return error


def _first_sentence(reason: str) -> str:
    """Return the first sentence of a reason on one line, without its full stop."""
    line = first_line(redact(reason), MAX_OF_A_REASON)
    match = _FIRST_SENTENCE.match(line)
    return (match.group() if match else line).rstrip(".")


def _raise_if_put_off(run: Run) -> None:
    """Raise if the person stopped the run, or suspended it to answer later."""
    if run.status == "cancelled":
        raise _with_continue_hint(RunInterrupted(closed=True), run)
    last = run.events[-1] if run.is_suspended else None
    if isinstance(last, RunSuspended) and last.why == "asked":
        raise in_one_line(RunInterrupted(closed=True), f"KeyboardInterrupt: {WAITS}")


def _with_continue_hint(interrupt: RunInterrupted, run: Run) -> RunInterrupted:
    """Return the interrupt with added advice on how to continue the run."""
    if not interrupt.closed:
        return interrupt
    return in_one_line(interrupt, f"KeyboardInterrupt: the run was stopped and its log closed. {continue_hint(run)}")


def _what_next(out: str, run: Run) -> str:
    command = continue_command(run)
    return f"Its results so far are in {out}. {f'Continue it with {command}' if command else 'Run its cell again'}"
