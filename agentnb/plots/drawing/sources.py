"""Sources of plots, and the names of runs in them."""

from __future__ import annotations

from collections.abc import Sequence

from agentnb.core.messages import pluralize
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.interchange.files import RunSource, load_traces
from agentnb.plots.drawing.plot_style import clean, short


def one_run(source: RunSource, plot: str) -> Run:
    """Return the run in the source. Raises `SettingsError` unless there is exactly one."""
    runs = load_traces(source)
    if len(runs) != 1:
        raise SettingsError(
            f"plots.{plot} draws one run, got {len(runs):,}", f"Give one of them: plots.{plot}(load_traces(...)[0])"
        )
    return runs[0]


def check_columns(table: object, columns: set[str], what: str, advice: str) -> None:
    """Raise `SettingsError` if a table lacks these columns. ``what``: its expected source, such as a survey."""
    if missing := columns - {*getattr(table, "columns", ())}:
        raise SettingsError(f"The table is not from a {what}: it lacks the columns {', '.join(sorted(missing))}", advice)


def name_of(run: Run) -> str:
    """Return a short name for a run: the end of its id, as commands accept it, and its model."""
    run_id = clean(run.id)
    run_id = run_id if len(run_id) <= 12 else f"…{run_id[-8:]}"
    return f"{run_id} ({short(run.model.partition('?')[0], 34)})"  # without the model's options


def about(runs: Sequence[Run], *more: str) -> str:
    """Return the subtitle of a plot: the name of the run or the number of runs, and further facts."""
    subject = f"Run {name_of(runs[0])}" if len(runs) == 1 else f"n = {pluralize(len(runs), 'run')}"
    return ": ".join(filter(None, [subject, ", ".join(more)]))
