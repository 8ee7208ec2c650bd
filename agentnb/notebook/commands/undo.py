"""``%agent undo``: restores the files that a run changed with ``write_file`` and ``edit_file``."""

from __future__ import annotations

from functools import partial

from IPython.core.interactiveshell import InteractiveShell

from agentnb.advice import StopRun
from agentnb.display.lists.undo_text import undo_text
from agentnb.errors import SettingsError, StoreError
from agentnb.notebook.commands.history_command import families_known_here
from agentnb.rerun.undo.undoing import has_file_changes, last_change, undo_run
from agentnb.session.session import Session


def undo_command(session: Session, shell: InteractiveShell, rest: str) -> None:
    """[ID]: restore the files that the newest run with such changes, or the given one, changed with write_file and edit_file"""
    run_id = session.store.find(rest) if rest else _newest(session)
    if run_id in [live.run_id for live in session.running()]:
        raise StoreError(f"Run {run_id} is running", StopRun(run_id, lead="Stop it first"))
    print(undo_text(undo_run(session.store, run_id)))


def undoable(session: Session) -> list[str]:
    """Return the ids of the runs that changed files, newest first."""
    return [run_id for run_id in session.store.ids()[::-1] if has_file_changes(session.store, run_id)]


def _newest(session: Session) -> str:
    """Return the id of the run in this notebook that last changed a file, directly or through nested runs.

    It may have started before others, if it waited for an answer.
    """
    changed = set(undoable(session))
    families = families_known_here(session) if changed else ()
    of_notebook = [[run.id for run in family] for family in families if family[0].notebook in ("", session.notebook)]
    if candidates := [run_ids for run_ids in of_notebook if not changed.isdisjoint(run_ids)]:
        return max(candidates, key=partial(last_change, session.store))[0]
    problem = "No run in this notebook changed a file with write_file or edit_file"
    raise SettingsError(problem, "For a run from another notebook: %agent undo ID; %agent history lists the runs")
