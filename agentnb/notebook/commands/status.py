"""The lines of ``%agent status`` and ``%agent defaults`` about the session."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from agentnb.core.redaction import redact
from agentnb.display.card.text import run_text
from agentnb.display.texts.labels import clean, pluralize
from agentnb.display.texts.question_labels import suspended_lines
from agentnb.errors import SettingsError
from agentnb.notebook.commands.history_command import families_known_here
from agentnb.notebook.commands.todos_command import todo_text
from agentnb.session.option_defaults import SESSION_BUDGET, may_be_empty
from agentnb.session.session import Session
from agentnb.store.summaries import RunSummary

NOTHING = "Nothing has run yet. Write a task in a cell that begins with %%agent"

ONLY_PYTHON = "No %%agent cell has run yet. The runs started from Python have ended; your code has the results"


def status_lines(session: Session) -> list[str]:
    """Return lines about experiments, what is running or how the last run ended, suspended runs, and the remaining budget."""
    runs = [live.run for live in session.running()]
    if not runs and session.has_run and not session.experiments():
        runs = [session.last_run()]
    lines = []
    if experiments := session.all_experiments():
        from agentnb.experiments.views.progress_view import progress_text

        lines = [progress_text(experiment.progress) for experiment in experiments]
    lines += [f"{run.id}  {run_text(run)}" for run in runs]
    lines += _changed_todos(session)
    stored = list(families_known_here(session))
    newest_first = [family[0] for family in stored]
    lines = lines or _left_behind(session, newest_first) or [ONLY_PYTHON if session.has_hosted else NOTHING]
    waiting = [run.id for run in newest_first if run.can_be_answered]
    listed = {run.id for run in runs}
    lines += suspended_lines([name for name in waiting if name not in listed], session.store.load)
    if waiting:
        lines.append(f"To discard a waiting run: %agent delete {waiting[0] if len(waiting) == 1 else 'ID'}")
    lines += _costs(session, stored)
    if session.budget.limit is not None:
        lines.append(f"Budget of the session: {_spent(session)}")
    return lines


def _changed_todos(session: Session) -> list[str]:
    """Return the `%agent todos` list if the person has changed it and the run has not received the change yet."""
    try:
        board, running = session.board(), session.running()
        run = next((live.run for live in running if live.board is board), None if running else session.last_run())
    except SettingsError:  # no run with a list
        return []
    is_changed = run is not None and redact(tuple(board.read())) != run.conversation_todos
    return [f"Its todos, as you changed them: {todo_text(board)}"] if is_changed else []


def _costs(session: Session, stored: Iterable[list[RunSummary]]) -> list[str]:
    """Return a line with the cost of today's runs, this notebook's and the folder's; empty if there are no runs."""
    today, notebook_cost, folder, unknown = 0.0, 0.0, 0.0, 0
    date = datetime.now().astimezone().date()
    for top, *nested in stored:
        if top.foreign:
            continue
        # The run that started others counts them too, unless the price of one is unknown.
        cost = max(top.cost or 0.0, sum(run.own_cost or 0.0 for run in (top, *nested)))
        unknown += top.cost is None and top.tokens is not None
        folder += cost
        notebook_cost += cost if top.notebook == session.notebook else 0.0
        today += cost if top.started_at is not None and top.started_at.astimezone().date() == date else 0.0
    if not session.store.ids():
        return []
    notebook = f"{_money(notebook_cost)} in {clean(session.notebook)}" if session.notebook else ""
    costs = ", ".join(filter(None, [f"{_money(today)} today", notebook, f"{_money(folder)} in {session.store.shown_folder}"]))
    return [f"Cost: {costs}" + (f" ({pluralize(unknown, 'run')} without a known price)" if unknown else "")]


def default_lines(session: Session, keys: Collection[str]) -> list[str]:
    """Return the current values of these defaults; for the session's budget, also the amount spent."""
    return [f"{key}={value}{_explain_setting(session, key, value)}" for key, value in session.defaults.items() if key in keys]


def _left_behind(session: Session, newest_first: Sequence[RunSummary]) -> list[str]:
    """Return a line about the newest run in the store if its kernel died during the run."""
    run = next(iter(newest_first), None)
    if run is None or not run.can_be_recovered:
        return []
    elsewhere = f", started in {run.notebook}," if run.notebook not in ("", session.notebook) else ""
    return [clean(f"Run {run.id}{elsewhere} was interrupted. To resume it: %agent recover {run.id}")]


def _explain_setting(session: Session, key: str, value: str) -> str:
    if key == SESSION_BUDGET:
        return f" ({_spent(session)})" if value or session.budget.spent else " (none)"
    if value:
        return ""
    return " (none)" if may_be_empty(key) else " (AGENTNB_MODEL, else the simulated model)"


def _spent(session: Session) -> str:
    budget = session.budget
    if budget.limit is None:
        return f"none; {_money(budget.spent)} spent so far"
    return f"{_money(budget.spent)} of ${budget.limit:g} spent, {_money(max(0.0, budget.limit - budget.spent))} left"


def _money(amount: float) -> str:
    return f"${amount:.4f}" if amount else "$0"
