"""``%agent stop``: ends live runs and experiments, and names the remaining live ones."""

from __future__ import annotations

from collections.abc import Sequence

from IPython.core.interactiveshell import InteractiveShell

from agentnb.display.texts.labels import clean, first_line
from agentnb.display.texts.notebook_commands import NOTEBOOK
from agentnb.display.texts.states import continue_hint
from agentnb.errors import SettingsError
from agentnb.experiments.running.control import Control
from agentnb.runtime.host.live_run import LiveRun
from agentnb.session.session import Session
from agentnb.store.store import bare_id

PATIENCE = 5.0
"""Seconds that ``%agent stop`` waits for runs to end, so that the next cell can continue them."""
ALL = "--all"
MAX_PROMPT = 40
"""Maximum characters of the prompt shown with a live run's id."""
MAX_LIVE = 10
"""Maximum live runs named; any others are counted."""


def stop_command(session: Session, shell: InteractiveShell, rest: str) -> None:
    """[ID | --all]: stop the newest run or experiment, the given one, or all, and keep their results"""
    chosen: list[LiveRun | Control] = (
        [*session.experiments(), *session.running()] if rest == ALL else [find_live(session, rest)]
    )
    if not chosen:
        raise SettingsError("Nothing is running", "%agent history lists past runs")
    experiments = [item for item in chosen if isinstance(item, Control)]
    for control in experiments:
        control.stop()
    runs = [item for item in chosen if isinstance(item, LiveRun)]
    warning_counts = [len(live.run.warned) for live in runs]
    session.stop(runs, PATIENCE)
    lines = [f"Stopping experiment {control.id}. Run its cell again to complete the missing runs" for control in experiments]
    lines += [line for live, count in zip(runs, warning_counts, strict=True) for line in _stop_lines(live, count)]
    print("\n".join([*lines, *_still_live(session, chosen)]))


def find_live(session: Session, part_of_id: str) -> LiveRun | Control:
    """Return the newest live run or experiment, or the one whose id contains ``part_of_id``."""
    if not part_of_id:
        return session.newest()
    experiments = [control for control in session.experiments() if bare_id(part_of_id) in control.id]
    if len(experiments) == 1:
        return experiments[0]
    matches = [live for live in session.running() if bare_id(part_of_id) in live.run_id]
    if len(matches) != 1:
        ids = ", ".join(live.run_id for live in session.running())
        raise SettingsError(
            f"{'Several' if matches else 'No'} live runs match {part_of_id!r}",
            f"Live: {ids}" if ids else "Nothing is running; %agent history lists past runs",
        )
    return matches[0]


def _stop_lines(live: LiveRun, count: int) -> list[str]:
    """Return lines about the run's end, and its warnings after the first ``count``: those about tools that did not stop at
    once.
    """
    ended = f"Run {live.run_id} is stopped. {continue_hint(live.run)}"
    line = ended if live.done else f"Stopping run {live.run_id}. See %agent status"
    return [line, *(clean(note.text_for(NOTEBOOK)) for note in live.run.warned[count:])]


def _still_live(session: Session, stopped: Sequence[LiveRun | Control]) -> list[str]:
    """Return a line naming the runs and experiments still in progress."""
    live: list[LiveRun | Control] = [*session.experiments(), *session.running()]
    others = [item for item in live if not any(item is ended for ended in stopped)]
    if not others:
        return []
    names = [_name(item) for item in others[: -MAX_LIVE - 1 : -1]]
    more = [f"{len(others) - MAX_LIVE:,} more"] if len(others) > MAX_LIVE else []
    return [f"Still live: {', '.join(names + more)}. To stop all: %agent stop {ALL}"]


def _name(live: LiveRun | Control) -> str:
    if isinstance(live, Control):
        return f"experiment {live.id}"
    prompt = first_line(live.run.prompt, MAX_PROMPT)
    return f"{live.run_id} ({prompt})" if prompt else live.run_id
