"""The engine: takes the steps of a workflow in their order, branches, goes back, and tries again.

Every start, attempt, branch and end is an event, written before anything follows from it; what the steps gave is a fold over
these events (`agentnb.core.step_outputs`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from agentnb.core import work_events as w
from agentnb.core.json_schema import plain_data
from agentnb.errors import ExpressionError, StepFailed, StoreError
from agentnb.policies.verdict import Stop
from agentnb.runtime.elicitation import Elicitation
from agentnb.runtime.launch import new_run_id
from agentnb.runtime.lifecycle import Lifecycle
from agentnb.runtime.run_end import Suspended
from agentnb.runtime.steps import NothingLeft, StepOrchestrator
from agentnb.workflow import spec as s
from agentnb.workflow.branch_outputs import BranchOutputs
from agentnb.workflow.course import RecordedSteps
from agentnb.workflow.json_in_text import json_values
from agentnb.workflow.loops import LoopCounters, LoopLimitReached
from agentnb.workflow.result import log_result
from agentnb.workflow.side_by_side import SIBLING_FAILED, SideBySide
from agentnb.workflow.step_failures import FailedStep, StepFailure, failure_of_logged, of_error
from agentnb.workflow.step_tree import children_of, with_branches
from agentnb.workflow.templates import Scope, rendered, truth

JITTER = 0.1
"""By how much a wait before another attempt may be longer, so that runs that failed together do not return together."""


NESTING = frozenset({"agent", "workflow"})
"""The kinds of steps whose work a nested run does."""


class Jump(NamedTuple):
    """Where to continue, other than with the next step."""

    target: str | int
    source: str
    """The id of the step that says so."""


class Place(NamedTuple):
    """Where a step stands in the run: its path, that of the block around it, and what its templates may read."""

    path: str
    parent: str
    scope: Scope


class Attempt(NamedTuple):
    """One attempt at a step."""

    place: Place
    limit: asyncio.Timeout | None = None
    """Its time limit, if it has one, which stands still while the person is asked."""
    run_id: str = ""
    """Id of the nested run that does the work, if one does."""
    is_new: bool = True
    """Whether no process has begun that run."""


Work = Callable[[Attempt], Coroutine[Any, Any, Any]]
"""Does the work of an attempt and returns its output."""
Performers = Callable[["WorkflowEngine"], Mapping[str, Callable[[Any, Attempt], Coroutine[Any, Any, Any]]]]
"""Returns for one run what does the work of each kind of step, and gives its output as plain data."""


class WorkflowEngine(StepOrchestrator):
    """Runs one workflow."""

    where = "workflow"

    def __init__(
        self,
        lifecycle: Lifecycle,
        elicitation: Elicitation,
        workflow: s.WorkflowSpec,
        performers: Performers,
        inputs: Mapping[str, Any],
        deferred: Mapping[str, int],
        first: str | None = None,
        earlier: tuple[Any, ...] = (),
    ) -> None:
        """``performers``: what does the work; ``deferred``: by the path of a condition, how many of the steps after it in its
        list run before it; ``first``: the id of the step that it begins at; ``earlier``: events of another run, whose outputs
        it begins with.
        """
        super().__init__(lifecycle, elicitation)
        self.elicitation = elicitation
        self._workflow = workflow
        self._perform = performers(self)
        self._scope = Scope(inputs=inputs)
        self._deferred = deferred
        self._earlier = earlier
        self._first = first
        self._places = {step.id: place for place, step in enumerate(workflow.steps)}
        self._loops = LoopCounters(workflow.max_loop_iterations)
        self._recorded = RecordedSteps(self.log.run.events)
        self._iterations: dict[str, int] = {}
        self._side_by_side = SideBySide()
        self._main: asyncio.Task[Any] | None = None
        """The task of the run; those of the children of blocks are others."""

    async def orchestrate(self) -> Stop:
        """Take the steps; return how the run ends."""
        self._scope = replace(self._scope, steps=self.log.run.steps, prompt=self.log.run.prompt)
        self._main = asyncio.current_task()
        try:
            self._take_over()
            await self._top_level()
            log_result(self._workflow.output, self._scope, self.log)
        except LoopLimitReached as error:
            self._close_suspended()
            return Stop("max_loop_iterations", "failed", problem=error.what, hint=error.advice)
        except StepFailed as error:
            self._close_suspended()
            spent = self._lifecycle.budget.exhausted()
            if spent is not None:
                return Stop(spent.name, "limited", limit=spent.limit)
            return Stop("step_failed", "failed", problem=error.what, hint=error.advice)
        return Stop("completed")

    # The way through the steps

    def _take_over(self) -> None:
        """Log what steps of another run gave, so that this one continues with it."""
        for event in self._earlier:
            if (again := self._recorded.take(type(event), event.step)) is None:
                fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in _HEAD}
                self.log.emit(type(event), **fields)
            if isinstance(again or event, w.StepStarted) and event.attempt == 1:
                self._iterations[event.step] = self._iterations.get(event.step, 0) + 1

    async def _top_level(self) -> None:
        steps, place = self._workflow.steps, 0 if self._first is None else self._places[self._first]
        ran_early: set[int] = set()
        while place < len(steps):
            at, jump = await self._next_in(steps, place, ran_early)
            if jump is None:
                place += 1
                continue
            if jump.target == s.END:
                return
            target = jump.target if isinstance(jump.target, int) else self._places[jump.target]
            self._log_jump(jump, at, target)
            await self._give_turn()  # gotos alone may go in a circle
            ran_early = {one for one in ran_early if one < target}
            place = target

    async def _branch(self, steps: tuple[s.Step, ...], parent: str, scope: Scope) -> Jump | None:
        ran_early: set[int] = set()
        for place in range(len(steps)):
            _, jump = await self._next_in(steps, place, ran_early, parent, scope)
            if jump is not None:
                return jump
        return None

    async def _next_in(
        self, steps: tuple[s.Step, ...], place: int, ran_early: set[int], parent: str = "", scope: Scope | None = None
    ) -> tuple[int, Jump | None]:
        """Run the step at this place, unless it ran early, and before it what it waits for; return where a jump came from."""
        early = self._deferred.get(steps[place].path, 0)
        for one in (*range(place + 1, place + 1 + early), place) if early else (place,):
            if one in ran_early:
                continue
            if one != place:
                ran_early.add(one)
            jump = await self.execute(steps[one], parent, scope or self._scope)
            if jump is not None:
                return one, jump
        return place, None

    def _log_jump(self, jump: Jump, at: int, target: int) -> None:
        target_id, count = self._workflow.steps[target].id, 0
        if target <= at:
            count = self._loops.go_back(at, target, jump.source, target_id)
        self.record(w.BranchTaken, jump.source, to=target_id, count=count)

    async def execute(self, step: s.Step, parent: str, scope: Scope) -> Jump | None:
        """Run one step to its end, with all its attempts; return where to continue, if not with the next."""
        if isinstance(step, s.GotoStep):
            return Jump(step.target, step.id)
        place = Place(f"{parent}/{step.id}" if parent else step.id, parent, scope)
        if isinstance(step, s.ConditionStep):
            jump = await self._condition(step, place)
        elif isinstance(step, s.ParallelStep):
            jump = await self.attempts(step, place, self._parallel(step), inputs={"order": [*children_of(step)]})
        elif isinstance(step, s.MapStep):
            jump = await self.attempts(step, place, self._map(step))
        else:
            work = partial(self._perform[step.kind], step)
            jump = await self.attempts(step, place, work, agent=_name(step), nests=step.kind in NESTING)
        return jump or (Jump(s.END, step.id) if step.end else None)

    async def _condition(self, step: s.ConditionStep, place: Place) -> Jump | None:
        held: list[bool] = []

        async def work(attempt: Attempt) -> bool:
            return truth(step.condition, place.scope)

        jump = await self.attempts(step, place, work, done=held.append)
        if jump is not None:
            return jump
        word = "true" if held[0] else "false"
        branch = step.true_ if held[0] else step.false_
        self.record(w.BranchTaken, place.path, to=word, reason=step.condition)
        jump = await self._branch(branch, place.parent, place.scope)
        return None if jump is None else jump._replace(source=step.id)

    # Steps with children

    def _parallel(self, step: s.ParallelStep) -> Work:
        async def work(attempt: Attempt) -> None:
            path, scope = attempt.place.path, attempt.place.scope
            children = [self.execute(child, path, self._in_branch(child, path, scope)) for child in step.steps]
            await self._side_by_side.all_or_none(children, step.max_concurrency)

        return work

    def _in_branch(self, child: s.Step, block: str, scope: Scope) -> Scope:
        """Return what the steps of a child of a block may read: if they follow one another, also each other."""
        if not isinstance(child, s.ConditionStep):
            return scope
        ids = frozenset(one.id for one in with_branches(child))
        return replace(scope, steps=BranchOutputs(scope.steps, self.log.run, block, ids))

    def _map(self, step: s.MapStep) -> Work:
        async def work(attempt: Attempt) -> None:
            scope, path = attempt.place.scope, attempt.place.path
            children = [
                self.execute(replace(step.step, id=str(index)), path, replace(scope, item=item, index=index))
                for index, item in enumerate(items_of(step, scope))
            ]
            await self._side_by_side.all_or_none(children, step.max_concurrency)

        return work

    # One step

    async def attempts(
        self,
        step: s.StepSpec,
        place: Place,
        work: Work,
        *,
        agent: str = "",
        inputs: Any = None,
        nests: bool = False,
        done: Callable[[Any], Any] = lambda output: None,
    ) -> Jump | None:
        """Try a step until it completes or is given up; return where ``on_error`` continues, if it jumps.

        ``done`` takes the output. Raises `StepFailed` if nothing continues.
        """
        path, attempt = place.path, 1
        self._check_wanted()
        self._iterations[path] = self._iterations.get(path, 0) + 1
        await self._begin(path)
        while True:
            started, is_new = self._started_attempt(step, place, attempt, agent=agent, inputs=inputs, nests=nests)
            ended = None if is_new else self._logged_end(path)
            if isinstance(ended, w.StepFinished):
                if ended.status != "cancelled" or ended.reason:  # else the process died before the run had ended
                    return await self._as_finished(step, ended, done)
                continue
            if ended is not None:
                attempt = ended.attempt + 1
                continue
            failure, output = await self._try(step, place, work, started.nested, is_new=is_new)
            if failure is None:
                self._finish(path, "completed", output=output, attempts=attempt)
                done(output)
                return None
            if attempt > step.retry.max_attempts or not failure.is_retried(step.retry.on):
                return self._give_up(step, path, failure, attempt, done)
            await self._wait_to_retry(step.retry, path, attempt, failure)
            attempt += 1

    def _check_wanted(self) -> None:
        """Raise in the child of a block that has failed: nothing may follow work that swallowed its cancellation."""
        task = asyncio.current_task()
        if task is not None and task is not self._main and task.cancelling():
            raise asyncio.CancelledError

    async def _wait_to_retry(self, retry: s.Retry, path: str, attempt: int, failure: StepFailure) -> None:
        try:
            self._check_wanted()
            wait = _wait(retry, attempt)
            self.record(w.StepAttempted, path, attempt=attempt, error=failure.text, wait=wait)
            await asyncio.sleep(wait * (1 + random.random() * JITTER))
        except asyncio.CancelledError:
            self._finish_cancelled(path, attempts=attempt)
            raise

    def _started_attempt(
        self, step: s.StepSpec, place: Place, attempt: int, *, agent: str, inputs: Any, nests: bool
    ) -> tuple[w.StepStarted, bool]:
        """Return the start of this attempt, and whether it is new: not in the log of a recovered run."""
        path = place.path
        self._started[path] = perf_counter()
        if (logged := self._recorded.take(w.StepStarted, path)) is not None:
            return logged, False
        started = w.StepStarted(
            *self.log.head(),
            step=path,
            step_kind=step.kind,
            parent=place.parent,
            iteration=self._iterations[path],
            inputs=inputs,
            nested=new_run_id() if nests else "",
            agent=agent,
            attempt=attempt,
        )
        return self.log.append(started), True

    def _logged_end(self, path: str) -> w.StepFinished | w.StepAttempted | None:
        """Return how an attempt ended in the process that died, if it did; what went on within it is over too."""
        tried = self._recorded.take(w.StepAttempted, path)
        ended = self._recorded.take(w.StepFinished, path) or tried  # cancelled before the next attempt, if both
        if ended is not None:
            for inner, count in self._recorded.pass_over(path, ended.seq).items():
                self._iterations[inner] = self._iterations.get(inner, 0) + count
        return ended

    async def _try(
        self, step: s.StepSpec, place: Place, work: Work, nested: str, *, is_new: bool
    ) -> tuple[StepFailure | None, Any]:
        """Make one attempt; return why it failed, or None, and the output."""
        limit = None if step.timeout is None else asyncio.timeout(step.timeout)
        attempt = Attempt(place, limit, nested, is_new)
        try:
            return None, plain_data(await (work(attempt) if limit is None else self._side_by_side.within(limit, work(attempt))))
        except (StoreError, Suspended, NothingLeft, LoopLimitReached):
            raise
        except FailedStep as error:
            self._close_suspended(place.path, SIBLING_FAILED)
            return error.failure, None
        except Exception as error:
            self._close_suspended(place.path)
            self._close_call(place.path)  # of a tool that was left behind
            own = step.timeout if isinstance(error, TimeoutError) and limit is not None and limit.expired() else None
            return of_error(error, own), None
        except BaseException:
            self._finish_cancelled(place.path)
            raise

    def _close_suspended(self, block: str = "", reason: str = "") -> None:
        """Log the end of steps that wait for the person, within a block that failed or all: no answer is needed any more."""
        for path in reversed([*self._started]):
            if not block or path.startswith(f"{block}/"):
                for question in [one for one in self.log.run.waiting if one.call_id == path]:
                    self.elicitation.withdraw(question.id)
                    self.elicitation.book.withdraw(question.id)  # of an earlier process, or of a nested run
                self._finish(path, "cancelled", reason=reason)

    def _give_up(
        self, step: s.StepSpec, path: str, failure: StepFailure, attempts: int, done: Callable[[Any], Any]
    ) -> Jump | None:
        handling = step.on_error
        if handling.continues:
            self._finish(path, "completed", output=handling.continue_with, error=failure.text, attempts=attempts)
            done(handling.continue_with)
            return None
        self._finish(path, "failed", error=failure.text, attempts=attempts, words=failure.logged_words)
        if handling.goto is not None:
            return Jump(handling.goto, step.id)
        raise FailedStep(path, failure)

    async def _as_finished(self, step: s.StepSpec, event: w.StepFinished, done: Callable[[Any], Any]) -> Jump | None:
        """Do with the logged end of a step what was done with it in the process that died."""
        self._started.pop(event.step, None)
        if event.status == "completed":
            done(event.output)
            return None
        if event.status == "cancelled":  # a sibling failed, which says so next, once this has made room for it
            raise Suspended("nobody_here")
        if step.on_error.goto is not None:
            return Jump(step.on_error.goto, step.id)
        raise FailedStep(event.step, failure_of_logged(event.error, event.words))

    def _finish_cancelled(self, path: str, **fields: Any) -> None:
        """Log the end of a step whose task is being cancelled, and why."""
        self._finish(path, "cancelled", reason=self._side_by_side.reason, **fields)

    def record(self, kind: Any, step: str, **fields: Any) -> Any:
        """Log an event of a step, unless the log of a recovered run has it already; return it."""
        return self._recorded.take(kind, step) or self.log.emit(kind, step=step, **fields)


_HEAD = frozenset({"seq", "at", "run_id", "parent_id"})


def _name(step: Any) -> str:
    return str(getattr(step, "agent", None) or getattr(step, "tool", None) or getattr(step, "file", None) or "")


def _wait(retry: s.Retry, attempt: int) -> float:
    factor = retry.multiplier ** (attempt - 1) if retry.backoff == "exponential" else 1.0
    wait = retry.initial_delay_seconds * factor
    return wait if retry.max_delay_seconds is None else min(wait, retry.max_delay_seconds)


def items_of(step: s.MapStep, scope: Scope) -> Sequence[Any]:
    """Return the list that a map goes over; a text may hold it as JSON."""
    value = rendered(step.over, scope)
    if isinstance(value, str):
        value = next((one for one in json_values(value) if isinstance(one, list)), value)
    if not isinstance(value, list | tuple):
        what = f"map {step.id}: over is not a list: {str(step.over)[:100]}"
        raise ExpressionError(what, "Let it read a list, such as {{ $steps.ID.output.items }}")
    return value
