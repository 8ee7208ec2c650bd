"""The workflow that a run is of, from its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.core.run.facts import RunFacts
from agentnb.workflow.files.declared_files import WorkflowDefinition
from agentnb.workflow.files.workflow_reader import nested_files, read_with_problems
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.spec import Step, WorkflowSpec
from agentnb.workflow.form.step_tree import with_branches
from agentnb.workflow.tasks.spec import TaskFile

MAX_KEPT = 16
"""Workflows that are kept, so that a run that is shown, or many runs of one workflow, do not read it again."""
ENDED_WELL = ("completed", "skipped")
_kept: dict[tuple[str, ...], WorkflowDefinition] = {}


def keep_workflow(spec: WorkflowDefinition) -> None:
    """Keep a workflow that was read, for the runs of it: to read thousands of steps takes seconds."""
    key = _key(spec.text, getattr(spec, "files", {}))
    _kept.pop(key, None)
    _kept[key] = spec
    while len(_kept) > MAX_KEPT:
        _kept.pop(next(iter(_kept)), None)


def step_to_rerun(run: RunFacts) -> str:
    """Return the id of the first top-level step that did not end well, or has such a branch; empty if there is none."""
    declared = logged_workflow(run.settings) if run.kind == "workflow" else None
    records = run.step_records

    def did_not_end_well(step: Step) -> bool:
        record = records.get(step.id)  # what failed within it may have been made up for
        return record is not None and record.status not in ENDED_WELL

    steps = declared.steps if isinstance(declared, WorkflowSpec) else ()  # a task file cannot be begun in its middle
    return next((top.id for top in steps if any(map(did_not_end_well, with_branches(top)))), "")


def logged_workflow(settings: Mapping[str, Any]) -> WorkflowDefinition | None:
    """Return the workflow in the settings of a run; None if they hold none that this version can read.

    It was checked before it ran: agents that were passed in Python are not missed here.
    """
    logged = settings.get("workflow")
    if not isinstance(logged, Mapping) or not isinstance(text := logged.get("text"), str) or not text:
        return None
    files = logged_files(settings)
    spec = _kept.get(_key(text, files or {}))
    if spec is None:
        source = str(logged.get("source") or "")
        spec = read_with_problems(text, Problems(source), files=None if files is None else nested_files(source, files))
        keep_workflow(spec)
    has_steps = spec.tasks if isinstance(spec, TaskFile) else spec.steps
    return spec if has_steps else None


def logged_files(settings: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the texts of the files that a run's workflow runs, by path; None if an earlier version wrote the log."""
    logged = settings.get("workflow")
    files = logged.get("files") if isinstance(logged, Mapping) else None
    if not isinstance(files, Mapping):
        return None
    return {name: text for name, text in files.items() if isinstance(text, str)}


def _key(text: str, files: Mapping[str, str]) -> tuple[str, ...]:
    return (text, *(part for item in sorted(files.items()) for part in item))
