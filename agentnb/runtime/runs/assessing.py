"""Assessments of a run, made at its end from its expectations."""

from __future__ import annotations

import logging
import sys

from agentnb.core.log.events import RunFinished
from agentnb.core.log.outcome import Assessment
from agentnb.detect.run import Run


def assessments_at(run: Run, end: RunFinished) -> list[Assessment]:
    """Return the assessments of a run against the expectations in its logged settings."""
    if not run.settings.get("extensions"):
        return []
    try:
        return [*sys.modules["agentnb"].assess_by_expectations(run, end)]  # of a higher room, which only the package may load
    except Exception:  # the end of the run must be logged, even with damaged settings
        logging.getLogger("agentnb").exception("The outcome of run %s could not be assessed", run.id)
        return []
