"""Nested runs of one run's steps: starting, resuming and loading them, and passing their questions to its person."""

from __future__ import annotations

from collections.abc import Awaitable
from contextlib import nullcontext
from dataclasses import replace
from typing import Protocol

from agentnb.core.log import work_events as w
from agentnb.core.log.events import RunRecovered
from agentnb.core.log.stores import ReopeningStore, Writer
from agentnb.core.run.approvals import answerable_later
from agentnb.core.run.work_records import StepRecord
from agentnb.core.usage import COST_DIGITS, NestedUsage
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, SettingsError, StoreError
from agentnb.runtime.budget import Budget
from agentnb.runtime.calls.run_context import RunContext
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.questions.elicitation import CallElicitor
from agentnb.runtime.run_end import Suspended
from agentnb.runtime.steps.attempt import Attempt


class Runnable(Protocol):
    """An agent or an orchestration, which can run as a nested run."""

    async def run(self, prompt: str, options: RunOptions | None = None) -> Run:
        """Run to the end, on the running event loop."""

    async def resume_here(self, run: Run, writer: Writer | None = None, options: RunOptions | None = None) -> Run:
        """Resume an interrupted run to its end, on the running event loop."""


class NestedRuns:
    """Starts, resumes and loads the nested runs of one run."""

    def __init__(self, context: RunContext) -> None:
        self._log = context.log
        self._elicitation = context.elicitation
        self._work_dir = context.options.work_dir
        """Default working folder of nested runs."""

    async def run(
        self,
        attempt: Attempt,
        runnable: Runnable,
        prompt: str,
        options: RunOptions | None = None,
        before: Run | None = None,
        *,
        in_call: bool = False,
    ) -> Run:
        """Return the nested run of an attempt, however it ended; if it is suspended, so is this run.

        ``options``: those of the nested run, such as its watcher or folder; its log, id and person are set here.
        ``before``: the nested run as left by a process that died, if the caller has loaded it. ``in_call``: whether a
        tool runs it during its call, which then asks the nested run's questions and is not suspended.
        """
        elicitation = self._elicitation
        if self._work_dir is not None and (options is None or options.work_dir is None):
            options = replace(options or RunOptions(), work_dir=self._work_dir)
        if elicitation.suspends and not in_call:
            options = replace(options, suspend=True) if options else RunOptions(suspend=True)
        if before is None and not attempt.is_new:
            before = self.load(attempt.run_id)
        if before is not None:
            waiting = answerable_later(before)
            suspends = elicitation.suspends or before.is_suspended or bool(waiting)
            answers = elicitation.book.answers_for(waiting) or None
            options = replace(options or RunOptions(), suspend=suspends and not in_call, answers=answers)
        with nullcontext() if in_call else self.asker(attempt):
            run = await self._run(attempt.run_id, runnable, prompt, options, before)
        if run.is_suspended or self._log.run.waiting:
            elicitation.book.share(run, attempt.place.path)
        if run.is_suspended:
            raise Suspended("nobody_here")
        return run

    def asker(self, attempt: Attempt) -> CallElicitor:
        """Return the elicitor for the run's person; it suspends the step's time limit while a question is open."""
        asker = CallElicitor(self._elicitation, attempt.place.path)
        asker.limit = attempt.limit
        asker.asked_by = attempt.place.path
        asker.names = f"{self._elicitation.book.ids.prefix}{attempt.place.path}/"
        return asker

    def load(self, run_id: str) -> Run | None:
        """Return a nested run as left by a process that died, or None if it has no log."""
        return self._store_for(run_id).load(run_id) if self._has_log(run_id) else None

    def load_ended(self, record: StepRecord) -> Run | None:
        """Return the nested run of a step that has ended, or None if the step failed before that run began."""
        if record.status == "failed" and (not record.nested or not self._has_log(record.nested)):
            return None
        run: Run = self._store_for(record.nested).load(record.nested)
        return run

    def count_spent(self, budget: Budget) -> None:
        """Charge the budget for nested runs' spending that a process had not yet logged here when it died."""
        store = self._log.store
        ids = [event.nested for event in self._log.run.events if isinstance(event, w.StepStarted) and event.nested]
        if ids and isinstance(store, ReopeningStore):  # in this order: the check of a protocol is slow
            stored: list[Run] = [store.load(run_id) for run_id in dict.fromkeys(ids) if store.has(run_id)]
            own = [run for run in stored if run.parent_id == self._log.id]  # not those of a run that this one continues
            logged = self._log.run.nested_usage
            if "" in logged:  # by a version that logged the sum of all dollars
                missing = round(sum(run.spent for run in own) - self._log.run.counters.spent_inside, COST_DIGITS)
                if missing > 0:
                    budget.pay(missing)
                return
            for run in own:
                for run_id, nested in {run.id: NestedUsage(run.own_spent, run.own_usage), **run.nested_usage}.items():
                    budget.take(run_id, nested.since(logged.get(run_id)))

    async def _run(self, run_id: str, runnable: Runnable, prompt: str, options: RunOptions | None, before: Run | None) -> Run:
        """Run or resume a nested run to its end; a run that has ended is returned as it is."""
        if before is None:
            # A single construction if there are no others: this is a tenth of the cost of a step.
            new = replace(options, parent=self._log, run_id=run_id) if options else RunOptions(parent=self._log, run_id=run_id)
            return await _ended_run(runnable.run(prompt, new))
        if not before.should_continue and before.status != "interrupted":
            return before
        store = self._store_for(run_id)
        writer, run = store.reopen(run_id)
        options = replace(options or RunOptions(), store=store, trust_log=self._trusts(run, run_id))
        if not options.trust_log:
            options = replace(options, answers=None)  # to questions that are asked again
        try:
            return await _ended_run(runnable.resume_here(run, writer, options))
        finally:
            writer.close()  # also if it was refused: nobody else could resume it

    def _trusts(self, nested: Run, run_id: str) -> bool:
        """Return whether a nested run's log counts: it does if it is the person's own, or came with this run's trusted log."""
        run = self._log.run
        consents = (event.consent for event in reversed(run.events) if isinstance(event, RunRecovered))
        if next(consents, "") == "taken":  # by this process: earlier, the person may have seen another nested log
            return True
        return nested.gives_consent and (nested.id, nested.parent_id) == (run_id, run.id)

    def _has_log(self, run_id: str) -> bool:
        store = self._log.store
        return isinstance(store, ReopeningStore) and store.has(run_id)

    def _store_for(self, run_id: str) -> ReopeningStore:
        """Return the store that holds a nested run's log; raises `SettingsError` if there is no store."""
        store = self._log.store
        if not isinstance(store, ReopeningStore):
            problem = f"The log of the nested run {run_id} cannot be found without a store"
            raise SettingsError(problem, "Pass it: RunOptions(store=Store(...))")
        return store


async def _ended_run(run: Awaitable[Run]) -> Run:
    """Return the run, even if it raised an error after it had begun."""
    try:
        return await run
    except AgentnbError as error:
        if isinstance(error, StoreError) or not isinstance(error.run, Run) or error.run.should_continue:
            raise
        return error.run
