"""Assessments of a run as it ends, by what reads its expectations."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TypeAlias

from agentnb.core.log.events import RunFinished
from agentnb.core.log.outcome import Assessment
from agentnb.detect.run import Run

Assess: TypeAlias = Callable[[Run, RunFinished], Iterable[Assessment]]
"""Returns the assessments of a run that is about to end like this."""
_assess_with: list[Assess] = []


def assess_with(assess: Assess) -> None:
    """Have runs that end from now on assessed by this function.

    Expectations are read in a room above this one, which it may not know: that room registers what reads them.
    """
    _assess_with[:] = [assess]


def assessments_at(run: Run, end: RunFinished) -> list[Assessment]:
    """Return the assessments of a run by its expectations, which its log keeps as settings."""
    if not _assess_with or not run.settings.get("extensions"):
        return []
    try:
        return [*_assess_with[0](run, end)]
    except Exception:  # the end of the run must be logged, whatever a damaged setting raises
        logging.getLogger("agentnb").exception("The outcome of run %s could not be assessed", run.id)
        return []
