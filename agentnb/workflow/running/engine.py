"""The engine: takes the steps of a workflow in their order, branches and goes back.

Every start, attempt, branch and end is an event, written before anything follows from it; what the steps gave is a fold over
these events (`agentnb.core.run.step_outputs`).
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from agentnb.core.log import work_events as w
from agentnb.errors import ExpressionError
from agentnb.policies.verdict import Stop
from agentnb.runtime.questions.elicitation import Elicitation
from agentnb.runtime.runs.lifecycle import Lifecycle
from agentnb.runtime.steps.attempt import Attempt, Place
from agentnb.runtime.steps.step_failures import FailedStep
from agentnb.runtime.steps.step_orchestrator import StepOrchestrator
from agentnb.runtime.steps.step_runner import StepRunner, Work
from agentnb.workflow.form import spec as s
from agentnb.workflow.form.step_tree import children_of, with_branches
from agentnb.workflow.running.loops import LoopCounters
from agentnb.workflow.running.outcome import verdict_of
from agentnb.workflow.running.result import log_result
from agentnb.workflow.templates.branch_outputs import BranchOutputs
from agentnb.workflow.templates.json_in_text import json_values
from agentnb.workflow.templates.templates import Scope, rendered, truth

NESTING = frozenset({"agent", "workflow"})
"""The kinds of steps whose work a nested run does."""


class Jump(NamedTuple):
    """Where to continue, other than with the next step."""

    target: str | int
    source: str
    """The id of the step that says so."""


StepWork = Mapping[str, Callable[[Any, Attempt], Coroutine[Any, Any, Any]]]
"""By the kind of a step, what does the work of an attempt and returns its output as plain data."""


@dataclass(frozen=True, slots=True)
class WorkflowStart:
    """The steps of a run, and the values that it begins with."""

    workflow: s.WorkflowSpec
    work: Callable[[StepRunner], StepWork]
    """Returns what does the work of the steps of one run."""
    inputs: Mapping[str, Any]
    deferred: Mapping[str, int]
    """By the path of a condition, how many of the steps after it in its list run before it."""
    first: str | None = None
    """The id of the step that it begins at."""
    earlier: tuple[Any, ...] = ()
    """Events of another run, whose outputs it begins with."""


class WorkflowEngine(StepOrchestrator):
    """Runs one workflow."""

    where = "workflow"

    def __init__(self, lifecycle: Lifecycle, elicitation: Elicitation, start: WorkflowStart) -> None:
        super().__init__(lifecycle, elicitation)
        self._start = start
        self._workflow = start.workflow
        self._work = start.work(self.steps)
        self._scope = Scope(inputs=start.inputs)
        self._places = {step.id: place for place, step in enumerate(start.workflow.steps)}
        self._loops = LoopCounters(start.workflow.max_loop_iterations)

    async def orchestrate(self) -> Stop:
        """Take the steps; return how the run ends."""
        self._scope = replace(self._scope, steps=self.log.run.steps, prompt=self.log.run.prompt)
        return await verdict_of(self._take_steps(), self.steps)

    async def _take_steps(self) -> None:
        self._take_over()
        await self._top_level()
        log_result(self._workflow.output, self._scope, self.log)

    # The way through the steps

    def _take_over(self) -> None:
        """Log what steps of another run gave, so that this one continues with it."""
        for event in self._start.earlier:
            if (again := self.steps.journal.take(type(event), event.step)) is None:
                fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in _HEAD}
                self.log.emit(type(event), **fields)
            if isinstance(again or event, w.StepStarted) and event.attempt == 1:
                self.steps.count_begun(event.step)

    async def _top_level(self) -> None:
        steps, place = self._workflow.steps, 0 if self._start.first is None else self._places[self._start.first]
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
            await self.steps.give_turn()  # gotos alone may go in a circle
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
        early = self._start.deferred.get(steps[place].path, 0)
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
        self.steps.record(w.BranchTaken, jump.source, to=target_id, count=count)

    async def execute(self, step: s.Step, parent: str, scope: Scope) -> Jump | None:
        """Run one step to its end, with all its attempts; return where to continue, if not with the next."""
        if isinstance(step, s.GotoStep):
            return Jump(step.target, step.id)
        place = Place(f"{parent}/{step.id}" if parent else step.id, parent, scope)
        if isinstance(step, s.ConditionStep):
            jump = await self._condition(step, place)
        elif isinstance(step, s.ParallelStep):
            _, jump = await self._attempts(step, place, self._parallel(step), inputs={"order": [*children_of(step)]})
        elif isinstance(step, s.MapStep):
            _, jump = await self._attempts(step, place, self._map(step))
        else:
            work = partial(self._work[step.kind], step)
            _, jump = await self._attempts(step, place, work, agent=_name(step), nests=step.kind in NESTING)
        return jump or (Jump(s.END, step.id) if step.end else None)

    async def _attempts(self, step: s.StepSpec, place: Place, work: Work, **described: Any) -> tuple[Any, Jump | None]:
        """Try a step until it completes or is given up; return its output, and where ``on_error`` continues, if it jumps."""
        try:
            return await self.steps.attempts(step, place, work, **described), None
        except FailedStep:
            if step.on_error.goto is None:
                raise
            return None, Jump(step.on_error.goto, step.id)

    async def _condition(self, step: s.ConditionStep, place: Place) -> Jump | None:
        async def work(attempt: Attempt) -> bool:
            return truth(step.condition, place.scope)

        holds, jump = await self._attempts(step, place, work)
        if jump is not None:
            return jump
        word, branch = ("true", step.true_) if holds else ("false", step.false_)
        self.steps.record(w.BranchTaken, place.path, to=word, reason=step.condition)
        jump = await self._branch(branch, place.parent, place.scope)
        return None if jump is None else jump._replace(source=step.id)

    # Steps with children

    def _parallel(self, step: s.ParallelStep) -> Work:
        async def work(attempt: Attempt) -> None:
            path, scope = attempt.place.path, attempt.place.scope
            children = [self.execute(child, path, self._in_branch(child, path, scope)) for child in step.steps]
            await self.steps.side_by_side.all_or_none(children, step.max_concurrency)

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
            await self.steps.side_by_side.all_or_none(children, step.max_concurrency)

        return work


_HEAD = frozenset({"seq", "at", "run_id", "parent_id"})


def _name(step: Any) -> str:
    return str(getattr(step, "agent", None) or getattr(step, "tool", None) or getattr(step, "file", None) or "")


def items_of(step: s.MapStep, scope: Scope) -> Sequence[Any]:
    """Return the list that a map goes over; a text may hold it as JSON."""
    value = rendered(step.over, scope)
    if isinstance(value, str):
        value = next((one for one in json_values(value) if isinstance(one, list)), value)
    if not isinstance(value, list | tuple):
        what = f"map {step.id}: over is not a list: {str(step.over)[:100]}"
        raise ExpressionError(what, "Let it read a list, such as {{ $steps.ID.output.items }}")
    return value
