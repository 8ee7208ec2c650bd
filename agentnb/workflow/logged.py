"""The workflow that a run is of, from its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.core.run import RunFacts
from agentnb.workflow.declared_graph import Declared
from agentnb.workflow.node_states import step_records
from agentnb.workflow.problems import Problems
from agentnb.workflow.reading import read_with_problems
from agentnb.workflow.spec import Step, WorkflowSpec
from agentnb.workflow.step_tree import with_branches
from agentnb.workflow.tasks.reading import is_task_file, read_tasks_with_problems
from agentnb.workflow.tasks.spec import TaskFile

MAX_KEPT = 16
"""Workflows that are kept, so that a run that is shown, or many runs of one workflow, do not read it again."""
ENDED_WELL = ("completed", "skipped")
_kept: dict[str, Declared] = {}


def keep_workflow(spec: Declared) -> None:
    """Keep a workflow that was read, for the runs of it: to read thousands of steps takes seconds."""
    _kept.pop(spec.text, None)
    _kept[spec.text] = spec
    while len(_kept) > MAX_KEPT:
        _kept.pop(next(iter(_kept)), None)


def step_to_rerun(run: RunFacts) -> str:
    """Return the id of the first top-level step that did not end well, or has such a branch; empty if there is none."""
    declared = logged_workflow(run.settings) if run.kind == "workflow" else None
    records = step_records(run)

    def did_not_end_well(step: Step) -> bool:
        record = records.get(step.id)  # what failed within it may have been made up for
        return record is not None and record.status not in ENDED_WELL

    steps = declared.steps if isinstance(declared, WorkflowSpec) else ()  # a task file cannot be begun in its middle
    return next((top.id for top in steps if any(map(did_not_end_well, with_branches(top)))), "")


def logged_workflow(settings: Mapping[str, Any]) -> Declared | None:
    """Return the workflow in the settings of a run; None if they hold none that this version can read.

    It was checked before it ran: agents that were passed in Python are not missed here.
    """
    logged = settings.get("workflow")
    text = logged.get("text") if isinstance(logged, Mapping) else None
    if not isinstance(text, str) or not text:
        return None
    spec = _kept.get(text)
    if spec is None:
        spec = _read(text)
        keep_workflow(spec)
    has_steps = spec.tasks if isinstance(spec, TaskFile) else spec.steps
    return spec if has_steps else None


def _read(text: str) -> Declared:
    if not is_task_file(text):
        return read_with_problems(text, Problems())
    return read_tasks_with_problems(text, Problems())
