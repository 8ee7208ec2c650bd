"""Runs that were cut off because their process died or was stopped, to be recovered or made again."""

from __future__ import annotations

from agentnb.agent.agent import Agent
from agentnb.core.log.run_tags import find_tag
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError
from agentnb.experiments.planning.experiment_tasks import ExperimentTask
from agentnb.experiments.planning.schedule import Cell
from agentnb.experiments.planning.variants import Variant
from agentnb.experiments.results.experiment_folder import ExperimentFolder, Records
from agentnb.experiments.running.cell_work import CELL_TAG, POOL_TAG, Job, Resumable, Work
from agentnb.store.store import load_file

ENDED = ("completed", "limited", "stopped", "failed")
"""States of runs that ended by themselves; a cancelled run, in contrast, was cut off by the end of the experiment."""


def cell_of(records: ExperimentFolder, run_id: str) -> str | None:
    """Return the cell of a run in the folder, or None for nested and foreign runs."""
    try:
        summary = records.store.summary(run_id)
    except AgentnbError:
        return None
    if summary.parent_id is not None:
        return None
    return find_tag(summary.tags, CELL_TAG) or None


def resumable_run(records: ExperimentFolder, work: Work, cell: Cell, run_id: str) -> Resumable | None:
    """Return a cell's run if it can be recovered or lacks only its row; otherwise move its log away and return None."""
    run = load_file(records.store.path(run_id))
    task, variant = work.tasks[cell.task], work.variants[cell.variant]
    if not work.has_folders(task.row):  # its files are gone, also for checks
        if run.status in ENDED:
            return Resumable(run_id, is_over=True)
        if run.status == "interrupted" and can_recover(run, task, variant):
            return Resumable(run_id, is_over=False)
    records.put_aside([run_id])
    return None


def can_recover(run: Run, task: ExperimentTask, variant: Variant) -> bool:
    """True if a run that was cut off can be recovered without the interruption having any effect on it.

    An active call may already have had its effect, and the model would be told about the interruption, so such a run is made
    again. So are workflows, forks, and runs in a pool, which may have progressed beyond their last known event.
    """
    if task.run is not None or POOL_TAG in run.tags or not isinstance(variant.work, Agent) or not run.rounds:
        return False
    current = run.open_round
    return current is None or all(record.result is not None for record in current.records)


def continue_job(records: Records, work: Work, job: Job) -> Job:
    """Return the job of a cell whose process died, with what remains of its run."""
    begun = None
    if isinstance(records, ExperimentFolder):
        for run_id in reversed(records.store.ids()):
            if cell_of(records, run_id) == job.cell.key:
                begun = resumable_run(records, work, job.cell, run_id)
                break
    return job._replace(begun=begun, redone=begun is None)
