"""Near outcomes: short-term effects of guidance, measured within a few rounds."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from agentnb.detect.run import Run
from agentnb.errors import SettingsError, suggest_names
from agentnb.tables.loops_table import LOOP, find_loops

FOLLOWED, CALL_WORKED, NO_LOOP = "followed", "call_worked", "no_loop_within_3"
NEAR_OUTCOMES = (FOLLOWED, CALL_WORKED, NO_LOOP)
"""Names of the near outcomes; the last accepts any number of rounds."""
_NO_LOOP = re.compile(r"no_loop_within_([1-9]\d{0,2})")

NearValue: TypeAlias = Callable[[int, "bool | None"], "bool | None"]
"""Takes the index of a round, and whether its reply followed the guidance; returns the outcome of the guidance, or None if
unknown.
"""
NearOutcome: TypeAlias = Callable[[Run], NearValue]


def find_near_outcome(name: str) -> NearOutcome:
    """Return the outcome with this name: ``followed``, ``call_worked`` or ``no_loop_within_3``. Raises `SettingsError`."""
    if name == FOLLOWED:
        return lambda run: lambda index, followed: followed
    if name == CALL_WORKED:
        return _call_worked
    if isinstance(name, str) and (rounds := _NO_LOOP.fullmatch(name)):
        return lambda run: _no_loop(run, int(rounds[1]))
    raise SettingsError(f"There is no near outcome {name!r}", suggest_names(str(name), NEAR_OUTCOMES))


def _call_worked(run: Run) -> NearValue:
    """Return a function that is True if a work tool ran in the round and reported success."""

    def value(index: int, followed: bool | None) -> bool | None:
        round_ = run.rounds[index]
        if round_.reply is None:
            return None
        return any(record.is_work and record.success is True for record in round_.records)

    return value


def _no_loop(run: Run, rounds: int) -> NearValue:
    """Return a function that is True if no loop was found within this many rounds, or None if the run ended earlier."""
    last_rounds = {row.last for row in find_loops(run) if row.family == LOOP}

    def value(index: int, followed: bool | None) -> bool | None:
        if run.rounds[index].reply is None:
            return None
        if not last_rounds.isdisjoint(range(index, index + rounds)):
            return False
        return True if index + rounds <= len(run.rounds) or run.status == "completed" else None

    return value
