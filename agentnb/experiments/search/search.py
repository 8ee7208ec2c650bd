"""Searches for better guidance, claiming a gain only on the basis of tasks that the search never saw."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from agentnb.agent.agent import Agent
from agentnb.display.texts.labels import pluralize
from agentnb.errors import AgentnbError, ExperimentProblems, SettingsError
from agentnb.experiments.defaults import AT_A_TIME
from agentnb.experiments.design import design_of
from agentnb.experiments.experiment import Experiment
from agentnb.experiments.planning.content_hash import changed_names, content_hash, source_of
from agentnb.experiments.planning.experiment_checks import MEASURES, Check, read_checks
from agentnb.experiments.planning.experiment_tasks import ExperimentTask, read_tasks
from agentnb.experiments.planning.plan_problems import are_free, check_models
from agentnb.experiments.planning.schedule import Seeds
from agentnb.experiments.planning.variants import Variant, is_persona, name_of, read_models, read_variants, unseeded_models
from agentnb.experiments.results.comparison import Comparison, compare
from agentnb.experiments.results.experiment_folder import ExperimentFolder, Memory, Note, Plan, Records, add_note
from agentnb.experiments.running.control import ProgressWatcher
from agentnb.experiments.running.live_experiment import LiveExperiment, watch_experiment
from agentnb.experiments.search.candidates import added_lines, without_line
from agentnb.experiments.search.gepa_engine import CandidateSearch, load_gepa
from agentnb.experiments.search.proposals import FILE, ProposalRequest, Proposals, by_function, by_model, proposer_agent
from agentnb.experiments.search.search_budget import BudgetReached, Ledger, SearchControl, Stopped
from agentnb.experiments.search.search_cells import CellPlan, SearchCells
from agentnb.experiments.search.search_design import SearchDesign
from agentnb.experiments.search.search_result import EXPLORATORY, Ablation, SearchResult
from agentnb.experiments.search.split import Split, split_tasks
from agentnb.guidance.sets import GuidanceSet, find_set
from agentnb.models.model import Model
from agentnb.runtime.host.host import host_here
from agentnb.runtime.questions.answerers import Approve
from agentnb.runtime.threads import LoopThread
from agentnb.store.store import Store

FOLDER = Path(".agentnb") / "searches"
"""Default parent folder of searches, relative to the folder in which they are started."""
ENDED = "searched"
"""Kind of the note that the trials have ended and no more will be made; its keys are the candidates."""
LEAST = 1e-9
"""A budget in US dollars that is too small for any run."""


@dataclass(frozen=True, eq=False)
class Search:
    """Searches for guidance that is better than ``guidance``, a set or the name of one, on tasks like those in ``tasks``.

    A share of the tasks (``held_out``, by default half), drawn in advance, judges the best candidate once and determines the
    gain. On the other tasks, in ``folds``, each proposal changes a line of the best set so far; the result replaces that set if
    a paired test shows that it is better. ``keep``: ids of tasks that no candidate may make worse. Finally, each new line is
    ablated.

    ``tasks``, ``agent``, ``primary``, ``repeats``, ``seed``, ``seeds``, ``places``, ``approve`` and ``check_seconds`` are as in
    an `Experiment`; a higher primary is better. ``model``: one or several models that do the tasks. ``proposer``: the language
    model that makes proposals, by default the first of those models; ``propose``: a plain or async function to use instead,
    which takes a `ProposalRequest` (``guidance``, ``examples``, ``tried``) and returns ``{"part": ..., "line": ..., "replaces":
    ...}``. ``proposals``: the maximum number to try. ``budget``: US dollars for the entire search; a cell starts only if the
    budget covers it. ``folder``: where cells and proposals are stored, by default ``.agentnb/searches/ID``; False to keep them
    in memory only.

    `design` shows the maximum runs and costs. `run` asks before it starts, unless the design is passed as consent.
    """

    guidance: str | GuidanceSet
    tasks: Any
    model: Iterable[str | Model] | str | Model | None = None
    budget: float | None = None
    proposals: int = 10
    proposer: str | Model | None = None
    propose: Callable[[ProposalRequest], Any] | None = None
    agent: Agent | Mapping[str, Any] | None = None
    primary: Any = "answered"
    repeats: int = 1
    keep: Sequence[str] = ()
    held_out: float = 0.5
    folds: int = 3
    seed: int = 0
    seeds: Seeds = "shared"
    folder: str | Path | Literal[False] | None = None
    places: int | None = None
    approve: Approve | str = "never"
    check_seconds: float = 60.0
    _judges: dict[str, Experiment] = field(default_factory=dict, init=False, repr=False)
    """Judgements by version of the best set, each made only once."""

    # Before anything runs

    def check(self) -> None:
        """Raise `ExperimentProblems` with every problem. Calls no model and runs no tool."""
        problems = [*self._read.problems]
        if not problems:
            try:
                self._experiment(self._read.tasks, {"start": self._read.start}, False, self.budget).check()
            except ExperimentProblems as error:
                problems += error.problems
        if not problems:
            problems += self._proposer_problems()
        if problems:
            raise ExperimentProblems.of(problems)
        load_gepa()

    def design(self) -> SearchDesign:
        """Return the maximum runs and costs of proposals, candidates, the judgement and ablations."""
        self.check()
        return self._design

    # Running

    async def run(
        self, design: SearchDesign | None = None, *, watch: ProgressWatcher | None = None, show: bool = True
    ) -> SearchResult:
        """Search on the running event loop, judge the best set once, and return the result.

        ``design``: the return value of `design`, as consent; if omitted, you are asked. If the search is interrupted, killed or
        stopped, run it again to continue; no cell or proposal is paid for twice.
        """
        return await self._run(self._begin_control(design), watch, show)

    def run_sync(
        self, design: SearchDesign | None = None, *, watch: ProgressWatcher | None = None, show: bool = True
    ) -> SearchResult:
        """Like `run`, for scripts and for code that cannot await. An interrupt stops it; call it again to continue."""
        control, thread = self._begin_control(design), LoopThread()
        future = thread.submit(lambda: self._run(control, watch, show))
        future.add_done_callback(lambda _: thread.close())
        return cast(SearchResult, LiveExperiment(control, cast(Any, future)).wait())

    def _begin_control(self, design: SearchDesign | None) -> SearchControl:
        """Return the control of the search once the user has consented. Raises `SettingsError` without consent."""
        planned = self.design()
        if design is None:
            ask = host_here().ask
            if ask is None:
                raise SettingsError(
                    f"The search was not started: this environment cannot ask for confirmation\n{planned}",
                    "Review search.design(), then run: await search.run(search.design())",
                )
            if ask(f"{planned}\nStart? [y/N] ").strip().lower() not in ("y", "yes"):
                raise SettingsError("The search was not started", "To start it: await search.run()")
        elif design != planned:
            raise SettingsError("The design belongs to another search", "See search.design()")
        return SearchControl(self.id, planned.search_cells + planned.ablation_cells, planned.cost, self.budget)

    @property
    def id(self) -> str:
        """Name of the search: a hash of its frozen plan."""
        return self._frozen_hash[:12]

    async def _run(self, control: SearchControl, watch: ProgressWatcher | None, show: bool) -> SearchResult:
        records = self._records
        with records.hold_lock():
            plan, proposals = self._freeze(), self._proposals
            ledger = Ledger(self.budget, records.attempts(), proposals.cost, self._design.judgement.cells)
            cells = SearchCells(self._cell_plan, records, ledger, control, self.places or AT_A_TIME)
            ended = next((note for note in plan.notes if note.kind == ENDED), None)
            limit = self.proposals if ended is None else len(ended.keys)
            search = CandidateSearch(cells, self._read.split, proposals, limit, self._primary.is_binary, self._read.start)
            outcome = _Outcome(search, cells)
            with watch_experiment(control, watch, show=show):
                try:
                    control.take(records.rows().values())
                    await search.run()
                    await self._conclude(outcome, plan, ended, show)
                except Stopped:
                    outcome.notes.append("stopped: run it again to continue")
                finally:
                    control.close()
                    await cells.close()
        return self._result(outcome)

    async def _conclude(self, outcome: _Outcome, plan: Plan, ended: Note | None, show: bool) -> None:
        """Judge and ablate the best set, unless it is the initial one."""
        search = outcome.search
        if search.best.version == self._read.start.version:
            outcome.notes += [self._cut_note(search)] if search.is_cut else []
            return
        ended = ended or self._end(plan, search)
        outcome.notes += [ended.text] if ended.text else []
        await self._judge(outcome, show)
        await self._ablate(outcome)

    def _end(self, plan: Plan, search: CandidateSearch) -> Note:
        """Record the end of the trials, after which the best set is final."""
        reason = self._cut_note(search) if search.is_cut else ""
        plan = add_note(plan, ENDED, reason, tuple([trial.candidate for trial in search.trials]))
        self._records.keep_plan(plan)
        return plan.notes[-1]

    def _cut_note(self, search: CandidateSearch) -> str:
        tried = f"{len(search.trials)} of {pluralize(self.proposals, 'proposal')}"
        return f"the budget of ${self.budget:g} ended the search after {tried}"

    async def _judge(self, outcome: _Outcome, show: bool) -> None:
        """Judge the best set once, on tasks that the search never saw."""
        ledger, control, best = outcome.cells.ledger, outcome.cells.control, outcome.search.best
        # A complete judgement runs nothing, so that any remaining budget will do.
        remaining = None if ledger.limit is None else max(ledger.limit - ledger.spent, LEAST)
        folder = self._path / "judgement" if self._path else False
        tasks = [self._read.tasks[position] for position in self._read.split.held_out]
        variants = {"start": self._read.start, "best": best}
        experiment = self._judges.setdefault(best.version, self._experiment(tasks, variants, folder, remaining))
        running = asyncio.ensure_future(experiment.run(show=show))

        def stop() -> None:
            running.cancel()

        control.begin([], stop)
        try:
            results = await running
        except asyncio.CancelledError:
            if control.is_stopping:
                raise Stopped from None
            raise
        outcome.runs += len(results.rows)
        assert results.records is not None, "results of an experiment have records"
        ledger.other_costs += sum(row.known_cost for row in results.records.attempts())
        if results.missing:
            outcome.notes.append(f"not judged: {pluralize(results.missing, 'run')} of the judgement are missing")
        else:
            outcome.judgement = compare(results, "best", "start")

    async def _ablate(self, outcome: _Outcome) -> None:
        """Try the best set without each of its new lines in turn, as far as the budget allows."""
        cells, best, places = outcome.cells, outcome.search.best, self._read.split.searched
        cells.ledger.reserved = 0
        rows = await cells.rows(best, places)
        for line in added_lines(self._read.start, best):
            comparison = None
            try:
                others = await cells.rows(without_line(best, line), places)
                comparison = Comparison("best", "without it", self._read.primary, rows, others, (EXPLORATORY,))
            except BudgetReached:
                pass
            outcome.ablations.append(Ablation(line, comparison))

    def _result(self, outcome: _Outcome) -> SearchResult:
        search, cells = outcome.search, outcome.cells
        return SearchResult(
            self.id,
            self._read.start,
            search.best,
            tuple(search.trials),
            outcome.judgement,
            tuple(outcome.ablations),
            cells.run_count + outcome.runs,
            cells.ledger.spent,
            tuple(outcome.notes),
        )

    # Parts, read once

    @cached_property
    def _read(self) -> _Parts:
        problems = [*_settings_problems(self)]
        tasks = read_tasks(self.tasks, problems)
        checks, primary = read_checks((), self.primary, problems)
        if primary in MEASURES:
            problems.append(
                f"primary={primary!r}: a search needs a check for which higher is better. Give a function of the run"
            )
        start, split = GuidanceSet("off", {}), Split((), (), ())
        try:
            start = find_set(self.guidance, host_here().sets)
            if not problems:
                split = split_tasks(tasks, tuple(map(str, self.keep)), self.held_out, self.folds, self.seed)
        except SettingsError as error:
            problems.append(str(error))
        return _Parts(tasks, checks, primary, start, split, tuple(problems))

    @property
    def _primary(self) -> Check:
        return next(check for check in self._read.checks if check.name == self._read.primary)

    @cached_property
    def _models(self) -> tuple[str | Model, ...]:
        return read_models(self.model)

    @cached_property
    def _cell_plan(self) -> CellPlan:
        read = self._read
        return CellPlan(
            self.id,
            read.tasks,
            self._models,
            self.agent,
            read.checks,
            read.primary,
            self.repeats,
            self.seed,
            self.seeds,
            self.approve,
            float(self.check_seconds),
            read.start,
        )

    @cached_property
    def _start(self) -> Variant:
        (variant,) = read_variants({"start": self._read.start}, self.agent, self._models, [])
        return variant

    @cached_property
    def _design(self) -> SearchDesign:
        read, split, runs = self._read, self._read.split, self.repeats * max(1, len(self._models))
        searched, held_out = len(split.searched), len(split.held_out)
        free = are_free([self._start], self._models, read.checks)
        judgement = design_of(
            tasks=[read.tasks[position] for position in split.held_out],
            variants=("start", "best"),
            models=tuple(map(name_of, self._models)),
            repeats=self.repeats,
            cells=2 * held_out * runs,
            primary=self._primary,
            places=self.places or AT_A_TIME,
            is_free=free,
            unseeded=unseeded_models([self._start], self._models),
            pilot=None,
        )
        tried, ablated = (1 + self.proposals) * searched * runs, self.proposals * searched * runs
        cost = 0.0 if free and self.propose is not None else None
        return SearchDesign(self.proposals, searched, len(split.folds), tried, judgement, ablated, self.budget, cost)

    def _experiment(
        self, tasks: Sequence[ExperimentTask], variants: Mapping[str, GuidanceSet], folder: Any, budget: float | None
    ) -> Experiment:
        return Experiment(
            tasks,
            variants,
            self._models or None,
            self.repeats,
            self.seed,
            self.primary,
            folder=folder,
            agent=self.agent,
            seeds=self.seeds,
            places=self.places,
            budget=budget,
            approve=self.approve,
            check_seconds=self.check_seconds,
        )

    # Storage

    @cached_property
    def _frozen(self) -> dict[str, Any]:
        read, split = self._read, self._read.split
        ids = [task.id for task in read.tasks]
        return {
            "start": [self._start.content, self._start.tools],
            "tasks": content_hash([(task.id, task.content) for task in read.tasks]),
            "keep": [ids[position] for position in split.keep],
            "folds": [[ids[position] for position in fold] for fold in split.folds],
            "held out": [ids[position] for position in split.held_out],
            "primary": [read.primary, self._primary.content],
            "models": [*map(name_of, self._models)],
            "repeats": self.repeats,
            "seed": [self.seed, self.seeds],
            "approve": self.approve if isinstance(self.approve, str) else source_of(self.approve),
        }

    @cached_property
    def _frozen_hash(self) -> str:
        return content_hash(self._frozen)

    @cached_property
    def _path(self) -> Path | None:
        if self.folder is False:
            return None
        return Path(self.folder or FOLDER / self.id).expanduser().absolute()

    @cached_property
    def _records(self) -> Records:
        return Memory() if self._path is None else ExperimentFolder(self._path / "cells")

    @cached_property
    def _proposals(self) -> Proposals:
        if self.propose is not None:
            return Proposals(self._path and self._path / FILE, by_function(self.propose))
        store = None if self._path is None else Store(self._path / "proposals")
        assert self._proposer is not None, "it is checked"
        return Proposals(self._path and self._path / FILE, by_model(self._proposer, store, [f"search:{self.id}"]))

    @property
    def _proposer(self) -> str | Model | None:
        return self.proposer if self.proposer is not None else next(iter(self._models), self._start.model)

    def _proposer_problems(self) -> Iterable[str]:
        """Yield the problems of the model that makes proposals."""
        if self.propose is not None:
            return
        model = self._proposer
        if model is None or is_persona(model):
            named = "No model" if model is None else name_of(model)
            yield f"{named} cannot propose changes. Set proposer= to a language model, or propose= to a function"
            return
        try:
            yield from check_models([Variant("proposer", proposer_agent(model))], (), self.budget)
        except AgentnbError as error:
            yield str(error)

    def _freeze(self) -> Plan:
        """Freeze the search when it first runs. Raises `SettingsError` if its folder holds another search."""
        records = self._records
        plan = records.plan()
        if plan is None:
            plan = Plan(self.id, self._frozen_hash, self._frozen, datetime.now(UTC))
            records.keep_plan(plan)
        if plan.hash != self._frozen_hash:
            raise SettingsError(
                f"The search has changed since it began in {records!r}: {changed_names(plan.frozen, self._frozen)}",
                "Give it another folder or undo the change",
            )
        return plan


optimise = Search
"""`Search` under a verb's name: ``optimise("matrix", tasks, model="...", budget=5)``."""


class _Parts(NamedTuple):
    """The parts of a search, with their problems."""

    tasks: tuple[ExperimentTask, ...]
    checks: tuple[Check, ...]
    primary: str
    start: GuidanceSet
    split: Split
    problems: tuple[str, ...]


@dataclass(slots=True)
class _Outcome:
    """The outcome of a search so far."""

    search: CandidateSearch
    cells: SearchCells
    judgement: Comparison | None = None
    ablations: list[Ablation] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    runs: int = 0
    """Number of runs in the judgement."""


def _settings_problems(search: Search) -> Iterable[str]:
    for name in ("proposals", "folds"):
        value = getattr(search, name)
        if type(value) is not int or value < 1:
            yield f"{name}={value!r}: give a whole number of at least 1"
    if not isinstance(search.held_out, float) or not 0 < search.held_out < 1:
        yield f"held_out={search.held_out!r}: give the share of held-out tasks, between 0 and 1"
    if search.propose is not None and (not callable(search.propose) or search.proposer is not None):
        yield "propose= is a function of the request, in place of proposer="
    if isinstance(search.keep, str) or not isinstance(search.keep, Sequence):
        yield f"keep={search.keep!r}: give a list of task ids"
