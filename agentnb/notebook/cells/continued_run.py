"""The run that ``--continue`` continues: the one it names, the one in the variable of ``-o``, or the last."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.advice import ListRuns
from agentnb.detect.run import Run
from agentnb.display.texts.labels import clean, first_line, short_id
from agentnb.errors import SettingsError, StoreError, nearest
from agentnb.notebook.names import run_names, unquoted
from agentnb.session.session import Session

MAX_PROMPT = 60
"""Characters of the prompt in the line that says which run is continued."""


def continued_run(session: Session, variables: Mapping[str, Any], name: str, out: str) -> tuple[Run, str]:
    """Return the run to continue, and a line that says which; the line is empty for a run that was named.

    ``name``: a variable that holds a run, the id of a run or a part of it, or empty; ``out``: the variable of ``-o``, or empty.
    Raises `SettingsError` if there is no such run, or if it has no conversation or has not ended.
    """
    name = unquoted(name)
    if name:
        return session.conversation(_named(session, variables, name)), ""
    held = variables.get(out)
    is_held = isinstance(held, Run) and held.started_at is not None
    run = session.conversation(held if is_held else None)
    where = f"in {out}" if is_held else "the last"
    prompt = first_line(clean(run.prompt), MAX_PROMPT)
    return run, f"Continuing run {clean(short_id(run.id))} ({where}): {prompt}"


def _named(session: Session, variables: Mapping[str, Any], name: str) -> Run:
    """Return the run of a variable or of an id."""
    held = variables.get(name)
    if isinstance(held, Run):
        return held
    hint = nearest(name, run_names(variables)) or ListRuns(rest=" lists the runs")
    if name in variables:
        raise SettingsError(f"--continue {name}: the variable holds a {type(held).__name__}, not a run", hint)
    try:
        return session.stored(name)
    except StoreError as error:
        what = f"--continue {name}: there is neither a variable with a run nor a run of this name or id"
        raise SettingsError(what, hint) from error
