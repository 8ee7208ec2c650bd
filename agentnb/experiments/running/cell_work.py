"""The run of one cell, in any process: started, forked or recovered, with a row whatever the outcome."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import msgspec.structs

from agentnb.agent.agent import Agent
from agentnb.core.log.run_tags import TASK_TAG, VARIANT_TAG
from agentnb.core.redaction import redact
from agentnb.core.run.approvals import AUTO, NEVER
from agentnb.detect.run import Run
from agentnb.errors import StoreError
from agentnb.experiments.planning.check_time import run_checks
from agentnb.experiments.planning.experiment_checks import Check
from agentnb.experiments.planning.experiment_tasks import ExperimentTask, prompt_of
from agentnb.experiments.planning.run_folders import WORK_DIR, names_folder, runs_external_agent
from agentnb.experiments.planning.schedule import Cell
from agentnb.experiments.planning.variants import Variant
from agentnb.experiments.results.rows import Redone, Row, row_of
from agentnb.experiments.running.cell_folders import CellFolders, cell_folders
from agentnb.models.model import Model
from agentnb.models.seeds import with_seed
from agentnb.models.transport.connections import CallLimits
from agentnb.policies.run_limits import LIMITS
from agentnb.rerun.fork import fork
from agentnb.runtime.budget import Spending
from agentnb.runtime.host.host import Host, use_host
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.questions.answerers import Approve
from agentnb.runtime.runs.launch import new_run_id
from agentnb.runtime.servers.servers import Servers
from agentnb.store.store import Store, load_file

CELL_TAG = "cell:"
"""Prefix of the tag that names a run's cell."""
POOL_TAG = "executor:pool"
"""Tag of a run in a pool, whose log arrives with a delay."""


@dataclass(frozen=True, slots=True)
class Work:
    """The data that every process needs to run cells of an experiment."""

    id: str
    tasks: Sequence[ExperimentTask]
    variants: Sequence[Variant]
    models: Sequence[str | Model | None]
    """Models of the experiment; None means the variants' own model."""
    checks: Sequence[Check]
    primary: str
    approve: Approve | str | None = None
    check_seconds: float = 60.0
    outside_sandbox: bool = False

    def approve_of(self, variant: Variant) -> Approve | str:
        """Return the approver of a variant's calls. For an external agent, the sandbox replaces approval."""
        return self.approve or (AUTO if runs_external_agent(variant.work) else NEVER)

    def has_folders(self, row: Mapping[str, Any]) -> bool:
        """True if the run has its own folders, as it always does if a variant is an external agent."""
        return names_folder(row) or any(runs_external_agent(variant.work) for variant in self.variants)

    def fields_of(self, cell: Cell, model_name: str) -> dict[str, Any]:
        """Return the fields of a row that identify the cell."""
        task = self.tasks[cell.task]
        return {
            "key": cell.key,
            "task": task.id,
            "variant": self.variants[cell.variant].name,
            "model": model_name,
            "repeat": cell.repeat,
            "seed": cell.seed,
            "cluster": task.cluster,
            "primary": self.primary,
        }

    def group_of(self, job: Job) -> tuple[str, str]:
        """Return the variant and the model of a cell."""
        return self.variants[job.cell.variant].name, job.model_name

    def tags_of(self, cell: Cell) -> tuple[str, ...]:
        """Return the tags of the cell's run."""
        task, variant = self.tasks[cell.task], self.variants[cell.variant]
        return f"experiment:{self.id}", f"{TASK_TAG}{task.id}", f"{VARIANT_TAG}{variant.name}", f"{CELL_TAG}{cell.key}"


class Resumable(NamedTuple):
    """The log of a cell whose run was cut off or ended without a row."""

    run_id: str
    is_over: bool
    """True if the run has ended and only its row is missing."""


class Job(NamedTuple):
    """A cell to run, with the log of an earlier attempt, if any."""

    cell: Cell
    model_name: str
    attempt: int = 1
    begun: Resumable | None = None
    redone: bool = False
    """True if its run was cut off and is being made again."""
    run_id: str = ""
    """Id of its run in a pool; if empty, a new id is used."""

    @property
    def way(self) -> Redone:
        """The way in which a run that was cut off is repeated, for its row."""
        if self.redone:
            return "again"
        return "" if self.begun is None or self.begun.is_over else "recovered"


class CellRun(NamedTuple):
    """A finished cell."""

    row: Row
    run: Run | None


async def run_cell(
    work: Work,
    job: Job,
    *,
    store: Store | None,
    spending: Spending | None,
    limits: CallLimits | None = None,
    servers: Servers | None = None,
) -> CellRun:
    """Run a cell to its end and return its row. Any failure becomes a row that states the reason.

    ``limits``: rate limiters of the calls, by default those of the process; ``servers``: the MCP servers shared by cells.
    Raises cancellations, and `StoreError` if a log cannot be written; the cell then has no row.
    """
    cell, begun = job.cell, job.begun
    columns: Mapping[str, Any] = {}
    run_id = (job.run_id or new_run_id()) if begun is None else begun.run_id
    named = work.fields_of(cell, job.model_name) | {"attempt": job.attempt, "redone": job.way}
    variant = work.variants[cell.variant]
    tags, approve = (*work.tags_of(cell), *((POOL_TAG,) if job.run_id else ())), work.approve_of(variant)
    options = RunOptions(store=store, show=False, tags=tags, approve=approve, can_ask=False, budget=spending, run_id=run_id)
    run: Run | None = None
    error: Exception | None = None
    with ExitStack() as stack:
        try:
            task, folders = work.tasks[cell.task], None
            columns = task.row_for(cell.seed)
            if work.has_folders(columns):
                originals = _originals(columns, store)
                is_in_sandbox = not work.outside_sandbox
                around = cell_folders(is_in_sandbox=is_in_sandbox, originals=originals, hosts=variant.hosts)
                folders = stack.enter_context(around)
                columns = await asyncio.to_thread(folders.fill, columns, variant.home, task.files)
                options = replace(options, work_dir=folders.work)
            with use_host(Host(store=store, limits=limits, servers=servers)):
                run = await _run(work, cell, columns, options, begun, folders)
        except StoreError:  # the next cell would fail as well, and a full disk must not count against a variant
            raise
        except Exception as problem:  # including errors of the user's model or tool: the experiment continues
            error, kept = problem, getattr(problem, "run", None)
            run = kept if isinstance(kept, Run) else None
        if run is None and error is not None and store is not None and store.has(run_id):
            run = load_file(store.path(run_id))
        return CellRun(redact(await _row(run, error, work, columns, named)), run)


def _originals(columns: Mapping[str, Any], store: Store | None) -> list[Path]:
    task = [Path(columns[WORK_DIR])] if names_folder(columns) else []
    return task if store is None else [*task, store.folder]


async def _row(run: Run | None, error: Exception | None, work: Work, columns: Mapping[str, Any], named: dict[str, Any]) -> Row:
    """Return the row of a run, or of the error that prevented the run."""
    if run is None:
        return Row(**named, run_id="", stop_reason="error", error=error_line(error), at=datetime.now(UTC))
    row = row_of(run, await run_checks(work.checks, run, columns, work.check_seconds), columns, **named)
    return msgspec.structs.replace(row, at=datetime.now(UTC), error=row.error or error_line(error))


async def _run(
    work: Work,
    cell: Cell,
    columns: Mapping[str, Any],
    options: RunOptions,
    begun: Resumable | None,
    folders: CellFolders | None,
) -> Run:
    task, variant = work.tasks[cell.task], work.variants[cell.variant]
    model = work.models[cell.model]
    if begun is not None and options.store is not None:
        store: Any = options.store
        if begun.is_over:
            return load_file(store.path(begun.run_id))
        writer, run = store.reopen(begun.run_id)
        resumed = replace(options, run_id=None, tags=())
        return await variant.agent(model, cell.seed).resume_here(run, writer, resumed)
    if task.run is not None:
        return await fork(
            task.run, task.at_round, model=_fork_model(variant, model, cell.seed), options=options, **_changes(variant)
        )
    prompt = prompt_of(columns, variant.template)
    if isinstance(variant.work, Agent):
        agent = variant.agent(model, cell.seed)
        if agent.acp and folders is not None:
            agent = folders.confine(agent)
        return await agent.run(prompt, options)
    return await variant.work.run(prompt, options, model=None if model is None else with_seed(model, cell.seed))


def _changes(variant: Variant) -> dict[str, Any]:
    """Return the keyword arguments of `fork` for a variant; settings that it does not change stay as recorded."""
    assert isinstance(variant.work, Agent), "a workflow is not forked"
    changes = dict(variant.changes or {})
    if not changes:  # an Agent changes all settings
        agent = variant.work
        tools = agent.tools or "recorded"
        changes = {"guidance": agent.guidance, "policy": agent.used_policy, "tools": tools, "gates": agent.gates}
    limits = {name: changes.pop(name) for name in [*changes] if name in LIMITS}
    changes.pop("model", None)
    return {**changes, **({"limits": limits} if limits else {})}


def _fork_model(variant: Variant, model: str | Model | None, seed: int) -> str | Model | None:
    own = (variant.changes or {"model": variant.model}).get("model") if model is None else model
    return None if own is None else with_seed(own, seed)


def row_of_death(work: Work, job: Job, why: str) -> Row:
    """Return the row for a cell whose process died."""
    named = work.fields_of(job.cell, job.model_name)
    return Row(**named, attempt=job.attempt, stop_reason="process_died", error=why)


def error_line(error: BaseException | None) -> str:
    """Return the type of an error and the first line of its message; empty if there is no error."""
    # Redact before truncating: a partial key would not be recognized.
    return redact(f"{type(error).__name__}: {error}").partition("\n")[0][:300] if error is not None else ""
