"""Runs the tasks of a task file: one after the other, in the background, or many at once.

The order within a task is: ``dependsOn``, ``when``, the action, ``post``, ``goto``. What was decided is in the log, so that a
recovered run takes the same way: a task that was skipped, a goto that was taken or not, and what ``post`` has set.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from agentnb.core.log import work_events as w
from agentnb.errors import ExpressionError, StepFailed
from agentnb.policies.verdict import Stop
from agentnb.runtime.questions.elicitation import Elicitation
from agentnb.runtime.run_end import Suspended
from agentnb.runtime.runs.lifecycle import Lifecycle
from agentnb.runtime.steps.attempt import Attempt, Place
from agentnb.runtime.steps.side_by_side import Running
from agentnb.runtime.steps.step_failures import FailedStep, StepEndedBadly, StepFailure
from agentnb.runtime.steps.step_orchestrator import StepOrchestrator
from agentnb.runtime.steps.step_runner import Work
from agentnb.workflow.form.spec import AT_ONCE, END
from agentnb.workflow.running.loops import LoopCounters
from agentnb.workflow.running.outcome import verdict_of
from agentnb.workflow.tasks.actions import ActionTable
from agentnb.workflow.tasks.calls import Calls
from agentnb.workflow.tasks.execution import ABORTED, MAX_PLAN_ITERATIONS, Aborted, Execution, PlansLimitReached
from agentnb.workflow.tasks.spec import Await, AwaitStep, EmitStep, TaskFile, TaskStep
from agentnb.workflow.tasks.variables import Variables, parsed
from agentnb.workflow.tasks.waiting import has_ended, result_of, wait_for


@dataclass(frozen=True, slots=True)
class TaskStart:
    """The tasks of a run, and the values that it begins with."""

    file: TaskFile
    table: ActionTable
    values: Mapping[str, Any]
    """Of the variables."""
    settings: Mapping[str, Any]
    """What actions are told about models."""


class TaskEngine(StepOrchestrator):
    """Runs one task file."""

    where = "task file"

    def __init__(self, lifecycle: Lifecycle, elicitation: Elicitation, start: TaskStart) -> None:
        super().__init__(lifecycle, elicitation)
        file = start.file
        self.steps.on_end = self._note_end
        self.steps.cancelled_before = asyncio.CancelledError
        self.variables = Variables(file, start.values)
        self._file = file
        self._loops = LoopCounters(file.max_loop_iterations)
        self._targets = {**{name: span.start for name, span in file.blocks.items()}}
        self._targets |= {task.id: place for place, task in enumerate(file.tasks)}
        self._targets.setdefault(END, len(file.tasks))
        self._calls = Calls(self.steps, start.table, file.approval, start.settings, self.handle, file.max_plan_iterations)
        self._label = start.table.label
        self._background: dict[str, Running] = {}
        """The tasks in the background that nothing has awaited, by name."""
        self._awaited: list[Running] = []
        self._ended_at: dict[str, int] = {}
        """By path, the number of the event with which a task ended last."""

    async def orchestrate(self) -> Stop:
        """Do the tasks; return how the run ends."""
        self.variables.ask(self.log.run.prompt)
        try:
            return await verdict_of(self._take_tasks(), self.steps)
        except PlansLimitReached:
            limit = self._file.max_plan_iterations
            return Stop(MAX_PLAN_ITERATIONS, "limited", limit=limit)
        except Aborted as error:
            return Stop("error", "failed", problem=error.failure.text, hint=error.failure.advice)

    # The way through the tasks

    async def _take_tasks(self) -> None:
        tasks, place = self._file.tasks, 0
        try:
            while place < len(tasks):
                target = await self._next(tasks[place], place)
                place = place + 1 if target is None else target
            await wait_for(self._background.values(), "all", self.steps.side_by_side)
        except Suspended:  # what the others do would be lost
            await asyncio.gather(*self._background.values(), return_exceptions=True)
            raise
        finally:
            await self.steps.side_by_side.cancel([*self._background.values(), *self._awaited], "")

    async def _next(self, task: TaskStep, at: int) -> int | None:
        """Do a task, or begin it in the background; return the place to continue at, if not the next."""
        for name in task.depends_on:
            await self._wait_until_ended(name)
        await self._wait_until_ended(task.id)  # a goto may come to one that is still running
        place = Place(task.path, task.path.rpartition("/")[0])
        execution = Execution(task, place)
        if not self._holds(execution):
            return None
        if task.in_background:
            self._background[task.id] = asyncio.ensure_future(self.execute_task(execution))
            return None
        await self.execute_task(execution)
        return None if execution.has_failed else self._goto(task, at)

    async def _wait_until_ended(self, name: str) -> None:
        span = self._file.blocks.get(name)
        names = [name] if span is None else [task.id for task in self._file.tasks[span.start : span.stop]]
        running = [self._background[one] for one in names if one in self._background]
        if running:
            await asyncio.wait(running)
        for one in running:
            if not one.cancelled() and (error := one.exception()) is not None:
                raise error

    def _holds(self, execution: Execution) -> bool:
        """Return whether a task is done; log it if it is skipped."""
        path, when = execution.place.path, execution.task.when
        if when is None or self.steps.journal.is_next(w.StepStarted, path):
            return True
        if self.steps.journal.take(w.StepSkipped, path) is not None:
            return False
        try:
            holds = self.variables.holds(when, execution.extra)
        except ExpressionError as error:
            execution.problem = error  # it begins, and fails with that
            return True
        if not holds:
            self.steps.record(w.StepSkipped, path, reason=when)
        return holds

    def _goto(self, task: TaskStep, at: int) -> int | None:
        """Return the place of the goto that is taken; log also that none was, which a recovered run could find otherwise."""
        if not task.goto:
            return None
        if (logged := self.steps.journal.take(w.BranchTaken, task.path)) is not None:
            self._count_back(task, at, logged.to)
            return self._targets[logged.to]
        for goto in task.goto:
            try:
                holds = goto.when is None or self.variables.holds(goto.when)
            except ExpressionError as error:
                raise StepFailed(f"step {task.path}: goto: {error.what}", error.advice) from error
            if holds:
                count = self._count_back(task, at, goto.task)
                self.log.emit(w.BranchTaken, step=task.path, to=goto.task, reason=goto.when or "", count=count)
                return self._targets[goto.task]
        onward = self._file.tasks[at + 1].id if at + 1 < len(self._file.tasks) else END
        self.log.emit(w.BranchTaken, step=task.path, to=onward, reason="no goto holds")
        return None

    def _count_back(self, task: TaskStep, at: int, name: str) -> int:
        target = self._targets[name]
        return self._loops.go_back(at, target, task.id, name) if target <= at else 0

    # One task

    async def execute_task(self, execution: Execution) -> Any:
        """Do a task with all its attempts, and what ``onError`` says if it fails; return its result."""
        task, place, given = execution.task, execution.place, None
        if isinstance(task, TaskStep) and task.action is not None and execution.problem is None:
            try:
                given = self.variables.filled(dict(task.input), execution.extra)
            except ExpressionError as error:
                execution.problem = error
        try:
            result = await self.steps.attempts(task, place, self._work(execution, given), agent=self._agent(task), inputs=given)
        except FailedStep as error:
            execution.has_failed = True
            if error.failure.words & ABORTED:
                raise Aborted(error.failure) from error
            if MAX_PLAN_ITERATIONS in error.failure.words:
                raise PlansLimitReached from error
            await self.handle(execution, task.id, error.failure.text)
            if execution.handler_failure is not None:
                raise execution.handler_failure from error
            if task.abort:
                raise Aborted(error.failure) from error
            if task.handler is None:
                raise
            self._awaited_by(task)
            return None
        except asyncio.CancelledError:
            self.steps.cancel(place.path)  # also between two attempts
            raise
        self._awaited_by(task)
        return result

    def _work(self, execution: Execution, given: Any) -> Work:
        async def work(attempt: Attempt) -> Any:
            if execution.problem is not None:
                if isinstance(execution.task, AwaitStep):  # one that fails has awaited, whatever it failed for
                    await self._await(execution.task)
                raise execution.problem
            result = parsed(await self._result(execution, given, attempt))
            attempt.is_plain = type(execution.task) is TaskStep  # `Calls.act` has made it so
            attempt.sets = self.variables.after(execution.task.post, result)
            if execution.aborts_with:
                raise StepEndedBadly(StepFailure(execution.aborts_with, ABORTED, is_final=True))
            return result

        return work

    async def _result(self, execution: Execution, given: Any, attempt: Attempt) -> Any:
        task = execution.task
        if isinstance(task, EmitStep):
            return await self._emit(task, attempt)
        if isinstance(task, AwaitStep):
            return await self._await(task)
        if task.action is None:
            return None
        return await self._calls.act(task.action, given, attempt, execution)

    def _agent(self, task: TaskStep) -> str:
        action = task.task.action if isinstance(task, EmitStep) else task.action
        return "" if action is None else self._label(action)

    async def handle(self, execution: Execution, failed: str, error: str) -> None:
        """Do what ``onError`` of a task says, once for each execution. ``failed`` is the name of what has failed."""
        handler = execution.task.handler
        if handler is None or execution.is_handled:
            return
        execution.is_handled = True
        path = f"{execution.place.path}.onError"
        place = Place(path, execution.place.parent)
        extra = {**execution.extra, "step": {"name": failed}, "error": error}
        try:
            given = self.variables.filled(dict(handler.input), extra)
            work = partial(self._calls.act, handler.action, given)
            await self.steps.attempts(handler, place, work, agent=self._label(handler.action), inputs=given)
        except (FailedStep, ExpressionError) as trouble:
            if not execution.task.abort:  # else the first failure says more
                why = trouble.failure.text if isinstance(trouble, FailedStep) else trouble.what
                execution.handler_failure = StepFailed(f"step {path}: {why}", trouble.advice)
                raise execution.handler_failure from trouble

    # Several at once

    async def _emit(self, task: EmitStep, attempt: Attempt) -> Any:
        path, free = attempt.place.path, asyncio.Semaphore(AT_ONCE)

        async def in_turn(execution: Execution) -> Any:
            async with free:
                return await self.execute_task(execution)

        running: dict[str, Running] = {}
        for index, item in enumerate(self._items(task)):
            place = Place(f"{path}/{index}", path)
            execution = Execution(task.task, place, {task.item_name: item})
            if self._holds(execution):
                running[place.path] = asyncio.ensure_future(in_turn(execution))
        await wait_for(running.values(), task.wait.mode, self.steps.side_by_side)
        return self._merged(running, task.wait)

    def _items(self, task: EmitStep) -> list[Any]:
        items = parsed(self.variables.filled(task.each))
        if not isinstance(items, list | None):
            what = f"emit: forEach is not a list: {str(task.each)[:100]}"
            raise ExpressionError(what, "Let it read a list, such as ${results}")
        return items or []

    async def _await(self, task: AwaitStep) -> Any:
        names = task.wait.on or tuple(self._background)
        running = {self._path_of(name): self._background[name] for name in names if name in self._background}
        await wait_for(running.values(), task.wait.mode, self.steps.side_by_side)
        return self._merged(running, task.wait)

    def _awaited_by(self, task: TaskStep) -> None:
        """Count no longer as in the background what a task has awaited, also one that failed and was handled.

        It has seen their failures, which do not count again when the run ends.
        """
        if isinstance(task, AwaitStep):
            for name in task.wait.on or tuple(self._background):
                if name in self._background:
                    self._awaited.append(self._background.pop(name))

    def _path_of(self, name: str) -> str:
        return self._file.tasks[self._targets[name]].path

    def _merged(self, running: Mapping[str, Running], wait: Await) -> Any:
        """Return the results of tasks together; ``first`` has one at most, and none if that one failed."""
        ended = [path for path, task in running.items() if has_ended(task)]
        by_age = sorted(ended, key=lambda path: self._ended_at.get(path, -1))
        if wait.mode == "first":
            ended = by_age = by_age[:1]
        if wait.merge == "replace":
            return result_of(running[by_age[-1]]) if by_age else None
        return [result_of(running[path]) for path in ended if running[path].exception() is None]

    def _note_end(self, event: w.StepFinished) -> None:
        """Take from the end of a task, new or logged, what it sets; its handler is over too."""
        self._ended_at[event.step] = event.seq
        self.variables.set(event.sets)
        if event.status == "completed":
            handler = f"{event.step}.onError"
            self.steps.count_begun(handler, self.steps.journal.pass_over_step(handler, event.seq))
