"""The workflow that a run is of, from its log."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from agentnb.errors import AgentnbError
from agentnb.workflow.reading import read_workflow
from agentnb.workflow.spec import WorkflowSpec


def logged_workflow(settings: Mapping[str, Any]) -> WorkflowSpec | None:
    """Return the workflow in the settings of a run; None if they hold none, or one that this version cannot read."""
    logged = settings.get("workflow")
    if not isinstance(logged, Mapping) or not isinstance(text := logged.get("text"), str) or not text:
        return None
    names = logged.get("agents")
    known = tuple(names) if isinstance(names, list) and all(isinstance(one, str) for one in names) else ()
    return _read(text, known)


@lru_cache(maxsize=16)
def _read(text: str, agents: tuple[str, ...]) -> WorkflowSpec | None:
    try:
        return read_workflow(text, agents=agents).spec
    except AgentnbError:
        return None
