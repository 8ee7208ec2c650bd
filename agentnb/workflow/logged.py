"""The workflow that a run is of, from its log."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from agentnb.workflow.problems import Problems
from agentnb.workflow.reading import read_with_problems
from agentnb.workflow.spec import WorkflowSpec


def logged_workflow(settings: Mapping[str, Any]) -> WorkflowSpec | None:
    """Return the workflow in the settings of a run; None if they hold none that this version can read.

    It was checked before it ran: agents that were passed in Python are not missed here.
    """
    logged = settings.get("workflow")
    text = logged.get("text") if isinstance(logged, Mapping) else None
    return _read(text) if isinstance(text, str) and text else None


@lru_cache(maxsize=16)
def _read(text: str) -> WorkflowSpec | None:
    spec = read_with_problems(text, Problems())
    return spec if spec.steps else None
