"""Runs that begin at a later step, with what the earlier steps gave in another run."""

from __future__ import annotations

from typing import Any

from agentnb.core.log import work_events as w
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, near
from agentnb.workflow.declared import WorkflowDefinition
from agentnb.workflow.form.step_tree import with_branches
from agentnb.workflow.tasks.spec import TaskFile

KEPT = (w.StepStarted, w.StepAttempted, w.StepSkipped, w.StepFinished)


def earlier_events(declared: WorkflowDefinition, first: str | None, of: Run | None) -> tuple[w.StepStarted | Any, ...]:
    """Return the events of a run that say what the steps before this one gave; none if the workflow begins at its first."""
    if first is None:
        return ()
    if isinstance(declared, TaskFile):
        raise SettingsError("rerun_from has no meaning for a task file", "Pass its variables: inputs={...}")
    ids = [step.id for step in declared.steps]
    if first not in ids:
        raise SettingsError(f"There is no step {first!r} in the top-level list", near(first, ids))
    if of is None:
        raise SettingsError(f"rerun_from={first!r} needs the run with the earlier outputs", "Give it: of=run")
    if of.kind == "agent":
        raise SettingsError(f"Run {of.id} is of an agent and has no steps", "Give a run of this workflow: of=run")
    before = declared.steps[: ids.index(first)]
    missing = [step.id for step in before if step.kind not in ("goto", "condition") and step.id not in of.steps]
    if missing and first not in of.step_records:  # a run that came so far may have gone past some
        raise SettingsError(f"Run {of.id} has no output of {missing[0]}", f"Begin there: rerun_from={missing[0]!r}")
    roots = {step.id for one in before for step in with_branches(one)}
    return tuple([one for one in of.events if isinstance(one, KEPT) and one.step.partition("/")[0] in roots])


def rerun_of(run: Run) -> tuple[str | None, tuple[Any, ...]]:
    """Return the step that a run began at and the events that it took from another; None and no events if at the first."""
    rerun = run.settings.get("rerun")
    if not isinstance(rerun, dict):
        return None, ()
    earlier = tuple([event for event in run.events if isinstance(event, KEPT)][: rerun["events"]])
    if len(earlier) < rerun["events"]:
        hint = f"Begin it again: wf.run(rerun_from={rerun['step']!r}, of=run)"
        raise SettingsError(f"The process of run {run.id} died before it had the outputs of run {rerun['of']}", hint)
    return rerun["step"], earlier
