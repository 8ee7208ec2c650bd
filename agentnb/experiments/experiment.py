"""Experiments, which compare variants on the same tasks, in random order, to find out which works."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from random import Random
from typing import Any, Literal

from agentnb.agent.agent import Agent
from agentnb.core.run.approvals import AUTO, NEVER
from agentnb.display.texts.labels import pluralize
from agentnb.errors import ExperimentProblems, SettingsError, StoreError
from agentnb.experiments.defaults import AT_A_TIME
from agentnb.experiments.design import Design, design_of, expected_cost, size_problems
from agentnb.experiments.pilot import Pilot, pilot_of
from agentnb.experiments.planning.assignment import Assignment
from agentnb.experiments.planning.content_hash import changed_names, content_hash, source_of
from agentnb.experiments.planning.experiment_checks import Check, read_checks
from agentnb.experiments.planning.experiment_tasks import ExperimentTask, read_tasks
from agentnb.experiments.planning.looks import Look, look_problems, looks_of, read_looks, stages_of
from agentnb.experiments.planning.plan_problems import (
    are_free,
    check_models,
    example_problems,
    judge_problems,
    plan_problems,
    settings_problems,
)
from agentnb.experiments.planning.run_folders import folder_problems, left_out_of, sandboxes
from agentnb.experiments.planning.schedule import Schedule, Seeds
from agentnb.experiments.planning.variants import Variant, model_names_of, name_of, read_models, unseeded_models
from agentnb.experiments.report.setup import Setup
from agentnb.experiments.report.versions import versions_here
from agentnb.experiments.report.write import write_report
from agentnb.experiments.results.experiment_folder import (
    FOLDER,
    LOOK,
    PLANNED,
    ExperimentFolder,
    Memory,
    Plan,
    Records,
    add_note,
)
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.results.rows import NOT_RUN, Row
from agentnb.experiments.running.cell_work import Work
from agentnb.experiments.running.control import Control, ProgressWatcher
from agentnb.experiments.running.cut_runs import continue_job
from agentnb.experiments.running.engine import Engine, Executor, InKernel
from agentnb.experiments.running.live_experiment import LiveExperiment, watch_experiment
from agentnb.experiments.running.pools import InPool, Pool, threads_of
from agentnb.experiments.running.processes import InProcesses, cores
from agentnb.experiments.running.spending import CellSpending, Group, find_maximum, known_bounds
from agentnb.guidance.draws import Assign
from agentnb.models.model import Model
from agentnb.runtime.questions.answerers import Approve
from agentnb.runtime.threads import LoopThread
from agentnb.workflow.workflow import Workflow

EXCLUSIONS = ("runs that did not complete: not passed in the first analysis, left out of the second",)
"""Names the rules for incomplete runs, which a report states in full. Part of the hash of every plan, so never reworded."""
SETTINGS = ("repeats", "places", "seed", "seeds", "executor", "budget", "check_seconds")
"""Settings that are checked individually."""


@dataclass(frozen=True, eq=False, repr=False)
class Experiment:
    """Compares variants on the same tasks: every task runs under every variant, in random order, whether or not runs fail.

    ``tasks``: a data frame or a list of rows with ``id``, ``prompt`` and further columns (for ``{{ column }}`` in prompts, for
    checks, ``cluster`` for related tasks, and ``work_dir``, a folder that is copied for each run), functions that return such a
    row for a seed, or ``{"traces": SOURCE, "at_round": K}`` to fork recorded runs. ``variants``, by name: a guidance set or its
    name, a policy, a mapping of `Agent` settings (plus ``prompt``, a template around ``{{ prompt }}``; with ``acp``, also
    ``home``, the folder with its initial settings, and ``hosts``, which replace those in its entry), an Agent, or a Workflow.
    ``agent``: the Agent (or its settings) that variants change. ``models``: names or objects that every variant runs with; by
    default each variant has its own model.
    ``repeats``: runs of a task per variant and model. ``seed`` determines order and draws. Each task and repeat has its own
    seed, which all variants share unless ``seeds="independent"``, and which is passed to models that take one. ``primary``: the
    check that decides the comparison; ``checks``: further checks. A check is a name (`answered`, `passed`, `score`,
    `todos_closed`, `no_loops`), ``within(...)``, a function of the run or of the run and the task's row, an expectation, or a
    `Judge`. ``folder``: where rows and logs are stored, by default ``.agentnb/experiments/ID``; False to keep them in memory
    only.

    ``executor``: ``kernel``, ``processes``, an executor of `concurrent.futures` or any object with its `submit`, or a Dask
    client, with ``places`` concurrent runs. ``budget``: US dollars for all runs; no run starts while the active ones may
    use it up. ``approve``: decides about calls that need permission; by default ``never``, or ``auto`` for external agents,
    which run inside bubblewrap unless ``outside_sandbox`` is set. ``aa``: allow variants with equal content, to measure the
    effect of chance. ``check_seconds``: time limit for each check of a run; if it is exceeded, the check's value is unknown.
    ``looks``: the number of planned looks, or the shares of the tasks after which they happen, such as ``[0.5, 1.0]``. `run`
    ends at each look, and continues when called again. Intervals are valid across all looks, so you may stop at a look that
    shows a difference.

    ``assign``: ``run`` gives each run one variant. ``round`` draws new guidance for each round: the variants are guidance sets,
    drawn with these ``propensities`` by name (equal by default), each task meets all sets within one run, and `lift` compares
    each set with the first by the ``near_outcome``: ``followed``, ``call_worked`` or ``no_loop_within_3``.

    Nothing is checked or run before `design`, `pilot` or `run`, which raise `ExperimentProblems` with every problem.
    """

    tasks: Any
    variants: Any
    models: Iterable[str | Model] | str | None = None
    repeats: int = 1
    seed: int = 0
    primary: Any = "answered"
    checks: Iterable[Any] = ()
    folder: str | Path | Literal[False] | None = None
    agent: Agent | Mapping[str, Any] | None = None
    seeds: Seeds = "shared"
    executor: Literal["kernel", "processes"] | Pool = "kernel"
    places: int | None = None
    budget: float | None = None
    approve: Approve | str | None = None
    outside_sandbox: bool = False
    aa: bool = False
    check_seconds: float = 60.0
    assign: Assign = "run"
    propensities: Mapping[str, float] | None = None
    near_outcome: str | None = None
    looks: int | Sequence[float] | None = None
    _original: Experiment | None = None
    """The experiment that this object extends."""
    _more: tuple[tuple[tuple[ExperimentTask, ...], int], ...] = ()
    """The extensions of the original, each with its additional tasks and repeats."""
    _source: str = ""
    """The YAML source; empty for an experiment written in Python."""

    def __post_init__(self) -> None:
        for name in ("tasks", "variants", "models", "checks"):
            if isinstance(value := getattr(self, name), Iterator):  # read more than once
                object.__setattr__(self, name, tuple(value))
        if self.folder is not None and self.folder is not False and not isinstance(self.folder, str | Path):
            raise SettingsError(f"folder={self.folder!r} is not a folder", "Give a path, or False for memory only")

    def __repr__(self) -> str:
        if problems := self._read.problems:
            detail = problems[0] if len(problems) == 1 else "check() lists them"
            return f"Experiment with {pluralize(len(problems), 'problem')}: {detail}"
        plan, rows = self._plan, self._own_rows()
        marked = len(_find_retries(plan, rows)) if plan else 0
        again = f". {pluralize(marked, 'run')} to repeat: run it again" if marked else ""
        return f"Experiment {self.id}: {len(rows):,} of {pluralize(sum(map(len, self._schedules)), 'run')} made{again}"

    # Before anything runs

    def check(self) -> None:
        """Raise `ExperimentProblems` with every problem. Calls no model and runs no tool."""
        problems = [*self._read.problems]
        if not problems:
            plain = [check for check in self._read.checks if not check.is_asked]
            have_folders = bool(self._sandboxes)
            problems += example_problems(plain, self._read.tasks, self.check_seconds, have_folders=have_folders)
            problems += check_models(self._read.variants, self._models, self.budget)
            problems += judge_problems(self._judges, self.budget)
            rows = [task.row for task in self._read.tasks]
            records = self._records.path if isinstance(self._records, ExperimentFolder) else None
            options = {"outside_sandbox": self.outside_sandbox, "executor": self.executor}
            confined = [variant.name for variant in self._read.variants if variant.hosts]
            problems += folder_problems(self._works, rows, confined, records=records, **options)
            problems += size_problems(self._read.tasks, self._assignment.count_compared(self._read.variants))
            problems += look_problems((self._original or self)._read.tasks, self._read.looks, self.seed)
        if not problems and self._plan is not None and self._plan.hash != self._frozen_hash:
            problems.append(
                f"The experiment has changed since it began in {self._records!r}:"
                f" {changed_names(self._plan.frozen, self._frozen)}."
                " Give it another folder or undo the change. To add tasks or repeats: extend(...)"
            )
        if problems:
            raise ExperimentProblems.of(problems)

    def design(self, *, pass_rate: float | None = None) -> Design:
        """Return the cells, the expected cost and time, and the smallest effect that can be detected. Runs nothing.

        ``pass_rate``: the expected share of runs that pass, for estimating the effect without a pilot. Raises
        `ExperimentProblems` with every problem, such as too few tasks for a comparison.
        """
        if pass_rate is not None and not 0 < pass_rate < 1:
            raise SettingsError(
                f"pass_rate={pass_rate!r} is not a valid pass rate", "Give a number between 0 and 1, such as 0.6"
            )
        self.check()
        read = self._read
        if problems := size_problems(read.tasks, self._assignment.count_compared(read.variants), is_planned=True):
            raise ExperimentProblems.of(problems)
        design = design_of(
            tasks=read.tasks,
            variants=self._variant_names,
            models=tuple(map(name_of, self._models)),
            repeats=self.repeats + sum(extra for _, extra in self._more),
            cells=sum(map(len, self._schedules)),
            primary=next((check for check in read.checks if check.name == read.primary), None),
            places=self._places,
            is_free=self._is_free,
            unseeded=self._unseeded,
            pilot=self._pilot(),
            pass_rate=pass_rate,
            is_by_round=self._assignment.is_by_round,
            looks=tuple([look for look, _ in self._steps if look is not None]),
        )
        set_aside = find_maximum(self._bounds(()), read.variants, self._models)
        left_out = left_out_of(task.row for task in read.tasks)
        design = replace(design, made=len(self._own_rows()), sandboxes=self._sandboxes)
        return replace(design, budget=self.budget, set_aside=set_aside, left_out=left_out)

    async def pilot(self, n: int = 5, *, watch: ProgressWatcher | None = None, show: bool = True) -> Pilot:
        """Run ``n`` random tasks under all variants, with two repeats each, and estimate variance, cost and time.

        Pilot runs have their own seeds, and are never part of the result.
        """
        self.check()
        schedule, records = self._pilot_schedule(n), self._pilot_records
        control = Control(f"{self.id}-pilot", len(schedule), budget=self.budget)
        with watch_experiment(control, watch, show=show), records.hold_lock():
            await self._run_cells([schedule], records, control)
        return pilot_of(self._read.primary, self._pilot_rows(), self._variant_names)

    # Running

    async def run(self, *, watch: ProgressWatcher | None = None, show: bool = True) -> Results:
        """Run all cells without a row, up to the next planned look, on the running event loop; return the results.

        If it is interrupted, killed or stopped, call it again to continue. ``watch`` is called with the `Progress` after each
        cell; ``show=False`` displays no progress. Raises `ExperimentProblems` before anything runs.
        """
        self.check()
        control = self._control()
        with watch_experiment(control, watch, show=show):
            return await self._run(control)

    def start(self, *, watch: ProgressWatcher | None = None, show: bool = True) -> LiveExperiment:
        """Start in the background, and return a handle with ``progress``, ``pause``, ``resume``, ``stop`` and ``result``."""
        self.check()
        control, thread, views = self._control(), LoopThread(), ExitStack()
        views.enter_context(watch_experiment(control, watch, show=show))  # here, so that the next cell can steer it
        views.callback(thread.close)
        future = thread.submit(lambda: self._run(control))
        future.add_done_callback(lambda _: views.close())
        return LiveExperiment(control, future)

    def run_sync(self, *, watch: ProgressWatcher | None = None, show: bool = True) -> Results:
        """Like `run`, for scripts and for code that cannot await. An interrupt stops it; call it again to continue."""
        return self.start(watch=watch, show=show).wait()

    def extend(self, tasks: Any = None, *, repeats: int = 0) -> Experiment:
        """Return the experiment with more tasks or repeats. After the first run, every result reports this as a deviation."""
        problems: list[str] = []
        more = () if tasks is None else read_tasks(tasks, problems)
        if type(repeats) is not int or repeats < 0:
            problems.append(f"repeats={repeats!r}: give a whole number of at least 0")
        if problems:
            raise ExperimentProblems.of(problems)
        if not more and not repeats:
            raise SettingsError("extend() needs tasks or repeats", "Write extend(tasks=[...]), or extend(repeats=1)")
        return replace(self, _original=self._original or self, _more=(*self._more, (more, repeats)))

    def retry(self, reason: str) -> Experiment:
        """Mark the runs that the provider, a kill or a person ended for `run` to repeat; all results report the reason."""
        if not isinstance(reason, str) or not reason.strip():
            raise SettingsError("A retry needs a reason", 'Write retry("the server was down")')
        plan, rows = self._plan, self._own_rows()
        marked = {} if plan is None else _find_retries(plan, rows)
        failed = tuple([key for key, row in rows.items() if row.is_lost and key not in marked])
        if plan is None or not failed:
            problem = (
                "All failed runs are already marked for a retry" if marked else "The experiment has no failed runs to retry"
            )
            raise SettingsError(problem, "Run the experiment" if marked else "A run that reached a limit counts as it is")
        self._records.keep_plan(add_note(plan, "retried", f"{pluralize(len(failed), 'run')} again: {reason.strip()}", failed))
        return self

    def results(self, *, peek: bool = False) -> Results:
        """Return the results so far. Until all cells are done, the variants stay covered unless ``peek`` is set.

        A peek is recorded, and all results report it. Raises `SettingsError` before the first run.
        """
        rows, plan = [*self._own_rows().values()], self._plan
        if plan is None:
            raise SettingsError("The experiment has not started", "Run it: await EXPERIMENT.run(), or EXPERIMENT.run_sync()")
        look = self._look_at(rows)
        total = sum(map(len, self._schedules)) if look is None else len(rows)
        missing = total - len(rows)
        looks = [len(rows)] if peek else []
        if (looked_at := self._records.looked_at()) is not None:  # by tables or plots of the folder
            looks = [sum(row.at is None or row.at <= looked_at for row in rows), *looks]
        for text in [f"looked at after {count} of {total} runs" for count in looks if count < total]:
            if all(note.text != text for note in plan.notes):
                plan = add_note(plan, "looked", text)
                self._records.keep_plan(plan)
        if look is not None and all(note.text != str(look) for note in plan.notes):
            plan = add_note(plan, LOOK, str(look))
            self._records.keep_plan(plan)
        return Results(
            rows,
            plan,
            primary=self._read.primary,
            variants=self._variant_names,
            missing=missing,
            is_covered=bool(missing) and not peek,
            unseeded=self._unseeded,
            records=self._records,
            not_run=self._not_run() if missing else (),
            look=look,
            writer=self._write_report,
        )

    def _write_report(self, results: Results, path: str | Path, primary: Any) -> Path:
        read, base = self._read, self._original or self
        planned = Counter(read.variants[cell.variant].name for schedule in self._schedules for cell in schedule)
        settings = {setting.name: getattr(base, setting.name) for setting in fields(base) if not setting.name.startswith("_")}
        setup = Setup(read.tasks, read.variants, read.checks, planned, settings, base._source)
        return write_report(results, setup, path, primary)

    def _look_at(self, rows: Sequence[Row]) -> Look | None:
        """Return the planned look that these rows complete, if any."""
        keys = {row.key for row in rows}
        return next((look for look, schedules in self._steps if look and keys == _keys_of(schedules)), None)

    def _not_run(self) -> tuple[Row, ...]:
        """Return placeholder rows for cells without a row."""
        work, rows = self._work, self._records.rows()
        return tuple(
            [
                Row(**work.fields_of(cell, schedule.model_name(cell)), status=NOT_RUN)
                for schedule in self._schedules
                for cell in schedule
                if cell.key not in rows
            ]
        )

    @property
    def id(self) -> str:
        """Name of the experiment: a hash of its frozen plan."""
        return (self._original or self)._frozen_hash[:12]

    def _pilot(self) -> Pilot | None:
        rows = self._pilot_rows()
        return pilot_of(self._read.primary, rows, self._variant_names) if rows else None

    @property
    def _is_free(self) -> bool:
        return are_free(self._read.variants, self._models, self._read.checks)

    # Parts, read once

    @cached_property
    def _read(self) -> _Parts:
        base = self._original or self
        problems: list[str] = []
        tasks = read_tasks(base.tasks, problems)
        for more, _ in self._more:
            tasks += more
        variants = self._assignment.read_variants(base.variants, base.agent, self._models, problems, aa=self.aa)
        checks, primary = read_checks(base.checks, base.primary, problems)
        problems += settings_problems({name: getattr(self, name) for name in SETTINGS})
        problems += [*plan_problems(tasks, variants, aa=self.aa), *self._assignment.problems(tasks, variants)]
        looks = read_looks(self.looks, problems)
        return _Parts(tasks, variants, checks, primary, looks, tuple(dict.fromkeys(problems)))

    @property
    def _assignment(self) -> Assignment:
        return Assignment(self.assign, self.propensities, self.near_outcome)

    @property
    def _judges(self) -> list[Check]:
        return [check for check in self._read.checks if check.is_asked]

    @cached_property
    def _models(self) -> tuple[str | Model, ...]:
        return read_models(self.models)

    @property
    def _model_names(self) -> tuple[str, ...]:
        return model_names_of(self._models)

    @property
    def _works(self) -> dict[str, Agent | Workflow]:
        return {variant.name: variant.work for variant in self._read.variants}

    @property
    def _sandboxes(self) -> dict[str, str]:
        return sandboxes(self._works, outside_sandbox=self.outside_sandbox)

    @property
    def _variant_names(self) -> tuple[str, ...]:
        return tuple([variant.name for variant in self._read.variants])

    @property
    def _unseeded(self) -> tuple[str, ...]:
        return unseeded_models(self._read.variants, self._models)

    @cached_property
    def _schedules(self) -> tuple[Schedule, ...]:
        """The schedules of the planned looks, followed by those of extensions, which cover all tasks of the last look."""
        repeats = (self._original or self).repeats
        count = sum(map(len, self._stages))
        schedules = [self._schedule(places, repeats, stage=stage) for stage, places in enumerate(self._stages)]
        for more, extra in self._more:
            if more:
                schedules.append(self._schedule(range(count, count + len(more)), repeats))
                count += len(more)
            if extra:
                schedules.append(self._schedule(range(count), extra, first_repeat=repeats))
                repeats += extra
        return tuple(schedules)

    @cached_property
    def _stages(self) -> list[list[int]]:
        """The positions of the tasks that each planned look adds; without looks, all tasks before extensions."""
        read = (self._original or self)._read
        return stages_of(read.tasks, read.looks, self.seed)

    @cached_property
    def _steps(self) -> list[tuple[Look | None, tuple[Schedule, ...]]]:
        """The planned looks, each with the schedules up to it; extensions belong to the last. Without looks, all schedules."""
        looks = looks_of(self._stages) if self._read.looks else (None,)
        return [(look, self._schedules[: look.number] if look and not look.is_last else self._schedules) for look in looks]

    @property
    def _due(self) -> tuple[Schedule, ...]:
        """The schedules up to the first planned look that is not complete."""
        if not self._read.looks:
            return self._schedules
        plan, rows = self._plan, self._records.rows()
        done = rows.keys() - (_find_retries(plan, rows) if plan else {})
        return next((schedules for _, schedules in self._steps if not _keys_of(schedules) <= done), self._schedules)

    def _schedule(self, places: Sequence[int], repeats: int, **options: Any) -> Schedule:
        read = self._read
        return Schedule(read.tasks, places, read.variants, self._model_names, repeats, self.seed, self.seeds, **options)

    def _pilot_schedule(self, n: int) -> Schedule:
        if type(n) is not int or n < 1:
            raise SettingsError(f"pilot() needs a number of tasks, got {n!r}", "Write await EXPERIMENT.pilot(5)")
        count = len(self._read.tasks)
        places = Random(f"{self.seed}:pilot").sample(range(count), min(n, count))
        return self._schedule(places, 2, is_pilot=True)

    @cached_property
    def _frozen(self) -> dict[str, Any]:
        base = self._original or self
        read = base._read
        return {
            "primary": read.primary,
            "arms": {variant.name: variant.content for variant in read.variants},
            "tools": {variant.name: variant.tools for variant in read.variants},
            "checks": {check.name: check.content for check in read.checks},
            "exclusions": [*EXCLUSIONS],
            "tasks": {"count": len(read.tasks), "content": content_hash([(task.id, task.content) for task in read.tasks])},
            "models": [*base._model_names],
            "repeats": base.repeats,
            "runs": sum(map(len, base._schedules)),
            "seed": base.seed,
            "seeds": base.seeds,
            "approve": source_of(base.approve) if callable(base.approve) else base.approve or NEVER,
            **({"sandboxes": base._sandboxes} if base._sandboxes else {}),
            **({"foreign_approve": AUTO} if base._sandboxes and base.approve is None else {}),  # as Work.approve_of says
            **base._assignment.frozen,
            **({"looks": [len(places) for places in self._stages]} if base._read.looks else {}),
        }

    @cached_property
    def _frozen_hash(self) -> str:
        return content_hash(self._frozen)

    @cached_property
    def _records(self) -> Records:
        if self._original is not None:
            return self._original._records
        if self.folder is False:
            return Memory()
        return ExperimentFolder(Path(self.folder or FOLDER / self.id).expanduser().absolute())

    @cached_property
    def _pilot_records(self) -> Records:
        """The records of the pilot, stored outside the experiment's folder so that none of its tables includes them."""
        if self._original is not None:
            return self._original._pilot_records
        records = self._records
        return (
            Memory() if isinstance(records, Memory) else ExperimentFolder(records.path.with_name(f"{records.path.name}-pilot"))
        )

    @property
    def _plan(self) -> Plan | None:
        return self._records.plan()

    def _pilot_rows(self) -> list[Row]:
        return [*self._pilot_records.rows().values()]

    def _own_rows(self) -> dict[str, Row]:
        """Return the rows of this experiment's cells; its folder may also hold rows of an extension."""
        rows = self._records.rows()
        own = _keys_of(self._schedules) if rows else set()
        return {key: row for key, row in rows.items() if key in own}

    # Running

    def _control(self) -> Control:
        cells = sum(map(len, self._due))
        return Control(self.id, cells, expected_cost(cells, self._pilot(), is_free=self._is_free), self.budget)

    async def _run(self, control: Control) -> Results:
        records = self._records
        with records.hold_lock():
            records.cover(True)
            await self._run_cells(self._due, records, control, self._begin())
            if (plan := self._plan) is None:
                raise StoreError(
                    f"The folder of the experiment is gone: {records!r}", "The rows are lost. Run the experiment again"
                )
            end = control.progress
            if end.state == "budget":
                text = f"the budget of ${self.budget:g} was reached after {end.done:,} of {end.total:,} runs"
                records.keep_plan(add_note(plan, end.state, text))
            results = self.results()
            records.cover(bool(results.missing))
            return results

    def _begin(self) -> Plan:
        """Freeze the plan before the first run, and record any later extensions."""
        plan, is_new = self._plan, self._plan is None
        if plan is None:
            plan = Plan(self.id, self._frozen_hash, self._frozen, datetime.now(UTC), versions=versions_here())
            self._records.keep_plan(plan)
        for number, (more, extra) in enumerate(self._more):
            of_extension = content_hash(number, [(task.id, task.content) for task in more], extra)
            if all(of_extension not in note.keys for note in plan.notes):
                added = [*([pluralize(len(more), "task")] if more else []), *([pluralize(extra, "repeat")] if extra else [])]
                text = f"extended by {' and '.join(added)} after its first run"
                plan = add_note(plan, PLANNED if is_new else "extended", text, (of_extension,))
                self._records.keep_plan(plan)
        return plan

    async def _run_cells(
        self,
        schedules: Sequence[Schedule],
        records: Records,
        control: Control,
        plan: Plan | None = None,
    ) -> None:
        rows, work = records.rows(), self._work
        retried = {} if plan is None else _find_retries(plan, rows)
        spent = sum(row.known_cost for row in records.attempts())
        spending = CellSpending(self.budget, spent, self._bounds(rows.values()))
        executor = self._executor(work, records, spending)
        engine = Engine(schedules, work, records, control, spending, executor, retried, self._judges)
        await engine.run(rows)

    @property
    def _work(self) -> Work:
        read, models = self._read, self._models or (None,)
        checks = [check for check in read.checks if not check.is_asked]
        seconds, is_outside = float(self.check_seconds), self.outside_sandbox
        return Work(self.id, read.tasks, read.variants, models, checks, read.primary, self.approve, seconds, is_outside)

    def _bounds(self, rows: Iterable[Row]) -> dict[Group, float]:
        """Return the maximum cost of a run by variant and model, where budgets, the pilot or rows provide a bound."""
        # The cost of a judge is known only from rows.
        variants = self._read.variants if are_free((), (), self._read.checks) else ()
        return known_bounds(variants, self._models, [*self._pilot_rows(), *rows])

    @property
    def _places(self) -> int:
        """Number of concurrent runs."""
        if self.places is None and not isinstance(self.executor, str):
            return threads_of(self.executor)
        return self.places or (AT_A_TIME if self.executor == "kernel" else cores())

    def _executor(self, work: Work, records: Records, spending: CellSpending) -> Executor:
        in_kernel = InKernel(work, records, spending, self.places or AT_A_TIME)
        if self.executor == "kernel":
            return in_kernel
        if self.executor == "processes":
            return InProcesses(work, records, spending, self.places, partial(continue_job, records, work))
        return InPool(self.executor, work, records, spending, self.places, in_kernel)


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of an experiment, with their problems."""

    tasks: tuple[ExperimentTask, ...]
    variants: tuple[Variant, ...]
    checks: tuple[Check, ...]
    primary: str
    looks: tuple[float, ...]
    """Shares of the tasks after which looks are planned."""
    problems: tuple[str, ...]


def _keys_of(schedules: Iterable[Schedule]) -> set[str]:
    return {cell.key for schedule in schedules for cell in schedule}


def _find_retries(plan: Plan, rows: Mapping[str, Row]) -> dict[str, int]:
    """Return the cells that are marked for a retry and have not been run since, with the number of their next attempt."""
    marks: dict[str, int] = {}
    for note in plan.notes:
        if note.kind == "retried":
            for key in note.keys:
                marks[key] = marks.get(key, 0) + 1
    return {key: rows[key].attempt + 1 for key, count in marks.items() if key in rows and rows[key].attempt <= count}
