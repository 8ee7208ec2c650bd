"""The workflow of a run, reconstructed from its log."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentnb.core.run.facts import RunFacts
from agentnb.workflow.files.declared_files import WorkflowDefinition
from agentnb.workflow.files.workflow_reader import nested_files, read_with_problems
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.step_tree import with_branches
from agentnb.workflow.form.workflow_spec import Step, WorkflowSpec
from agentnb.workflow.tasks.task_spec import TaskFile

MAX_KEPT = 16
"""Maximum number of cached workflows. The cache saves parsing a workflow again whenever one of its runs is displayed."""
ENDED_WELL = ("completed", "skipped")
_kept: dict[tuple[str, ...], WorkflowDefinition] = {}


def keep_workflow(spec: WorkflowDefinition) -> None:
    """Cache a parsed workflow for its runs, since parsing thousands of steps takes seconds."""
    key = _key(spec.text, getattr(spec, "files", {}))
    _kept.pop(key, None)
    _kept[key] = spec
    while len(_kept) > MAX_KEPT:
        _kept.pop(next(iter(_kept)), None)


def step_to_rerun(run: RunFacts) -> str:
    """Return the id of the first top-level step that did not succeed or has a failure in one of its branches; empty if there is
    none.
    """
    declared = logged_workflow(run.settings) if run.kind == "workflow" else None
    records = run.step_records

    def did_not_end_well(step: Step) -> bool:
        record = records.get(step.id)  # failures nested in it may have been handled
        return record is not None and record.status not in ENDED_WELL

    steps = declared.steps if isinstance(declared, WorkflowSpec) else ()  # a task file cannot be started midway
    return next((top.id for top in steps if any(map(did_not_end_well, with_branches(top)))), "")


def logged_workflow(settings: Mapping[str, Any]) -> WorkflowDefinition | None:
    """Return the workflow in a run's settings, or None if it is missing or this version cannot parse it.

    Missing Python agents are not reported, since the workflow was checked before its run.
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
    """Return the texts of a workflow's nested files by path, or None for a log written by an earlier version."""
    logged = settings.get("workflow")
    files = logged.get("files") if isinstance(logged, Mapping) else None
    if not isinstance(files, Mapping):
        return None
    return {name: text for name, text in files.items() if isinstance(text, str)}


def _key(text: str, files: Mapping[str, str]) -> tuple[str, ...]:
    return (text, *(part for item in sorted(files.items()) for part in item))
