"""Runs gepa's engine, on its own thread, with our proposals, cells and acceptance test.

Gepa requests scores and proposals through plain functions, which run on the event loop of the search. Gepa gets no folder,
because its state is a pickle; a search resumes from cells and proposals instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import Any, TypeVar

import msgspec

from agentnb.core.log.run_tags import task_means
from agentnb.errors import SettingsError
from agentnb.experiments.results.comparison import Comparison
from agentnb.experiments.search.acceptance import find_regressions, look_at
from agentnb.experiments.search.candidates import Proposal, apply_proposal, candidate_of
from agentnb.experiments.search.proposals import ProposalRequest, Proposals, Proposed, Trial, examples_of
from agentnb.experiments.search.search_budget import BudgetReached
from agentnb.experiments.search.search_cells import SearchCells
from agentnb.experiments.search.split import Split
from agentnb.experiments.statistics.extras import load_extra
from agentnb.guidance.sets import GuidanceSet

T = TypeVar("T")


def load_gepa() -> Any:
    """Import gepa. If it is missing, raises a `SettingsError` that names the extra."""
    return load_extra("gepa", "optimise", "Searching")


@dataclass(slots=True)
class CandidateSearch:
    """Tries proposals in order. ``best`` is the last candidate that was shown to be better than its predecessor."""

    cells: SearchCells
    split: Split
    proposals: Proposals
    limit: int
    """Number of proposals to try."""
    is_binary: bool
    best: GuidanceSet
    trials: list[Trial] = field(default_factory=list)
    is_cut: bool = False
    """True if the budget ended the search before the last proposal."""
    _seen: set[str] = field(default_factory=set)
    _pending: tuple[Proposal, GuidanceSet] | None = None
    """The current proposal and its candidate."""
    _accepted: Trial | None = None
    """The trial of the candidate that gepa is about to accept."""

    @property
    def looks(self) -> list[tuple[int, ...]]:
        """The tasks of each look at the next candidate, starting with the fold after the last candidate's."""
        return self.split.looks(len(self.trials) % len(self.split.folds))

    async def run(self) -> None:
        """Run gepa until the last proposal, a perfect score, or the end of the budget. Raises errors from its parts."""
        self._seen.add(self.best.version)
        engine = _GepaThread(self, asyncio.get_running_loop())
        try:
            await engine.run()
        except BudgetReached:
            self.is_cut = True

    async def scores(self, guidance: GuidanceSet, places: Sequence[int]) -> list[float]:
        """Return the mean of each task. A task without a value gets the mean of the others, which is neutral."""
        rows = await self.cells.rows(guidance, places)
        means = task_means(rows, self.cells.plan.primary)
        default = fmean(means.values()) if means else 0.0
        return [means.get(self.cells.plan.tasks[position].id, default) for position in places]

    async def propose(self, guidance: GuidanceSet) -> GuidanceSet | None:
        """Return the next candidate; if there is none, add a trial with the reason and return None."""
        rows = await self.cells.rows(guidance, self.looks[0])
        plan = self.cells.plan

        def request() -> ProposalRequest:
            prompts = {task.id: str(task.row.get("prompt", "")) for task in plan.tasks}
            examples = examples_of(rows, plan.primary, prompts, self.cells.records)
            return ProposalRequest(guidance, examples, tuple(self.trials))

        before = self.proposals.cost
        proposed = await self.proposals.get(len(self.trials), request, guidance.version, self.cells.ledger.available)
        self.cells.ledger.other_costs += self.proposals.cost - before
        candidate, why = self._candidate(guidance, proposed)
        if candidate is None or proposed.proposal is None:
            self.trials.append(Trial(proposed.proposal, accepted=False, why=why))
            return None
        self._seen.add(candidate.version)
        self._pending = proposed.proposal, candidate
        return candidate

    def _candidate(self, guidance: GuidanceSet, proposed: Proposed) -> tuple[GuidanceSet | None, str]:
        """Return the candidate that a proposal makes, or the reason why there is none."""
        if proposed.proposal is None:
            return None, proposed.why
        try:
            candidate = apply_proposal(guidance, proposed.proposal)
        except SettingsError as error:
            return None, error.what
        return (None, "its set was already tried") if candidate.version in self._seen else (candidate, "")

    async def judge(self, guidance: GuidanceSet) -> bool:
        """Decide, look by look, whether the current candidate replaces ``guidance``, the best so far."""
        assert self._pending is not None, "a candidate was proposed"
        proposal, candidate = self._pending
        looks, plan = self.looks, self.cells.plan
        keep = [plan.tasks[position].id for position in self.split.keep]
        for number, places in enumerate(looks, 1):
            new, old = await self.cells.rows(candidate, places), await self.cells.rows(guidance, places)
            if worse := find_regressions(new, old, plan.primary, keep):
                why, accepted, difference = f"it is worse on {', '.join(worse)}, listed in keep=", False, None
                break
            comparison = Comparison(candidate.name, guidance.name, plan.primary, new, old)
            look = look_at(comparison, len(looks), is_last=number == len(looks))
            if look.accepted is not None:
                verdict = "shown to be better" if look.accepted else "not shown to be better"
                why, accepted, difference = f"{verdict} at look {number} of {len(looks)}", look.accepted, look.difference
                break
        trial = Trial(proposal, accepted, why, candidate.name, difference)
        if accepted:
            self._accepted = trial  # counts once all tasks of the search have run
        else:
            self.trials.append(trial)
        return accepted

    def take_over(self, *, is_ahead: bool) -> None:
        """Make the accepted candidate the best one if it is ahead over all tasks, which have all been run."""
        assert self._accepted is not None and self._pending is not None, "it was accepted"
        trial, self._accepted = self._accepted, None
        if is_ahead:
            self.best = self._pending[1]
        else:
            trial = msgspec.structs.replace(trial, accepted=False, why=f"{trial.why}, but not ahead over all tasks")
        self.trials.append(trial)

    def is_over(self, tried: int, scores: Sequence[float]) -> bool:
        """True if the search is done after this many proposals. ``scores``: means of gepa's candidates."""
        return tried >= self.limit or (self.is_binary and max(scores) >= 1)


class _GepaThread:
    """Gepa's engine on a thread, with callbacks that run on the event loop of the search."""

    propose_new_texts = None

    def __init__(self, search: CandidateSearch, loop: asyncio.AbstractEventLoop) -> None:
        self.search = search
        self._gepa = load_gepa()
        self._loop = loop
        self._error: BaseException | None = None
        self._stopped = False
        self._task: asyncio.Task[Any] | None = None

    async def run(self) -> None:
        """Run the engine until it ends; if cancelled, end the engine first."""
        thread = asyncio.ensure_future(asyncio.to_thread(self._optimize))
        try:
            await asyncio.shield(thread)
        except asyncio.CancelledError:
            self._stopped = True
            if self._task is not None:
                self._task.cancel()
            await asyncio.gather(thread, return_exceptions=True)
            raise
        if self._error is not None:
            raise self._error

    def _optimize(self) -> None:
        places = [*self.search.split.searched]
        self._gepa.optimize(
            seed_candidate=dict(self.search.best.parts),
            trainset=places,
            valset=places,
            adapter=self,
            custom_candidate_proposer=self._propose,
            candidate_selection_strategy="current_best",
            batch_sampler=self,
            acceptance_criterion=self,
            module_selector="all",
            skip_perfect_score=False,
            stop_callbacks=self._is_over,
            callbacks=[self],
            logger=self,
            track_best_outputs=False,
            raise_on_exception=True,
        )

    def _wait(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the event loop of the search, and wait for it on gepa's thread."""

        async def kept() -> T:
            self._task = asyncio.current_task()
            if self._stopped:
                coroutine.close()
                raise asyncio.CancelledError
            return await coroutine

        return asyncio.run_coroutine_threadsafe(kept(), self._loop).result()

    # Interface for gepa: adapter, sampler, proposer, criterion, stopper, callback and logger

    def evaluate(self, batch: list[int], candidate: dict[str, str], capture_traces: bool = False) -> Any:
        """Return a candidate's scores for a batch of tasks, identified by their positions among the searched tasks."""
        scores = self._wait(self.search.scores(candidate_of(candidate), batch))
        return self._gepa.EvaluationBatch(outputs=[None] * len(batch), scores=scores, trajectories=[*batch])

    def make_reflective_dataset(self, candidate: Any, batch: Any, components: list[str]) -> dict[str, list[Any]]:
        """Return empty lists, since the proposer reads rows and logs instead."""
        return {name: [] for name in components}

    def next_minibatch_ids(self, loader: Any, state: Any) -> list[int]:
        """Return the ids of the tasks in the first look at the next candidate."""
        order = {position: number for number, position in enumerate(self.search.split.searched)}
        return [order[position] for position in self.search.looks[0]]

    def _propose(self, candidate: dict[str, str], dataset: Any, components: list[str]) -> Mapping[str, str]:
        """Return the parts of the next candidate, if there is one. Errors are raised later, because gepa would call again."""
        try:
            proposed = self._wait(self.search.propose(candidate_of(candidate)))
        except BaseException as error:
            self._error = error
            return {}
        return {} if proposed is None else dict(proposed.parts)

    def should_accept(self, proposal: Any, state: Any) -> bool:
        """True if a candidate replaces its parent, the best so far."""
        return self._wait(self.search.judge(candidate_of(state.program_candidates[proposal.parent_program_ids[0]])))

    def _is_over(self, state: Any) -> bool:
        is_over = self.search.is_over(state.i + 1, state.program_full_scores_val_set)
        return self._error is not None or self._stopped or is_over

    def on_valset_evaluated(self, event: Any) -> None:
        """Accept a candidate whose tasks have all been run. The first event concerns the initial set."""
        if event["parent_ids"]:
            self.search.take_over(is_ahead=event["is_best_program"])

    def log(self, message: str) -> None:
        """Ignore messages, which gepa would otherwise print."""
