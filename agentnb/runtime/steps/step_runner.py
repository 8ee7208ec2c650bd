"""Runs steps: each is logged, retried according to its settings, and not repeated when the run is recovered.

Every start, attempt and end is logged before anything depends on it. Workflows, task files and custom orchestrators
use a `StepRunner`, and decide the order of steps themselves.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from datetime import UTC
from functools import partial
from time import perf_counter
from typing import Any, Literal
from weakref import WeakMethod

from agentnb.core.log import work_events as w
from agentnb.core.log.event import RoundStatus
from agentnb.core.messages import encodable
from agentnb.core.schema.json_schema import plain_data
from agentnb.core.step_retry import Retry
from agentnb.detect.run import Run
from agentnb.errors import StoreError
from agentnb.runtime.calls.tool_calls import ToolCalls
from agentnb.runtime.event_log import now
from agentnb.runtime.failure_place import open_calls
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.questions.elicitation import Elicitation
from agentnb.runtime.run_end import Suspended
from agentnb.runtime.runs.launch import new_run_id
from agentnb.runtime.runs.lifecycle import Lifecycle
from agentnb.runtime.steps.attempt import Attempt, Place, StepTerms
from agentnb.runtime.steps.nested_runs import NestedRuns, Runnable
from agentnb.runtime.steps.side_by_side import NOT_NEEDED, SIBLING_FAILED, SideBySide
from agentnb.runtime.steps.step_failures import FailedStep, StepEndedBadly, StepFailure, failure_of_logged, of_error, of_run
from agentnb.runtime.steps.step_journal import StepJournal
from agentnb.tools.tool_errors import cancelled

MAX_HOLD_SECONDS = 0.02
"""Maximum seconds that consecutive steps may hold the event loop, so that stops, time limits and other runs get their turn."""
JITTER = 0.1
"""Maximum relative increase of a retry wait, so that runs that failed together do not retry together."""
StepStatus = Literal["completed", "failed", "cancelled"]
Work = Callable[[Attempt], Coroutine[Any, Any, Any]]
"""Runs an attempt and returns its output."""


class NothingLeft(Exception):
    """The budget is exhausted, so no further step begins, and the run ends at its limit."""


class StepRunner:
    """Runs the steps of one run."""

    def __init__(self, lifecycle: Lifecycle, elicitation: Elicitation) -> None:
        """``elicitation``: asks the person the questions of steps and nested runs."""
        self.log = lifecycle.log
        self.budget = lifecycle.budget
        self.elicitation = elicitation
        self.is_cancelled = lifecycle.is_cancelled
        self.settle = lifecycle.settle
        self.context = lifecycle.context
        self.nested = NestedRuns(self.context)
        self.journal = StepJournal(self.log.run.events)
        self.side_by_side = SideBySide(WeakMethod(self._note_left))
        self.calls: ToolCalls | None = None
        """Tool calls of the steps, if any."""
        self.on_end: Callable[[w.StepFinished], None] = _nothing
        """Called with each end of a step, including ends taken from the journal."""
        self.cancelled_before: Callable[[], BaseException] = partial(Suspended, "nobody_here")
        """Creates the error of a step that was cancelled, in the process that died, because a sibling had ended. By
        default, the step waits until that sibling has ended again.
        """
        self._lifecycle = lifecycle
        self._open: dict[str, float] = {}
        """Start times of the open steps."""
        self._iterations: dict[str, int] = {}
        self._main: asyncio.Task[Any] | None = None
        """The task of the run; concurrent steps have their own."""
        self._gate = asyncio.Lock()
        self._may_run_out = True
        self._turn_began = perf_counter()

    def begin(self) -> None:
        """Allow steps to run from now on, in the running task."""
        self._main, self._may_run_out = asyncio.current_task(), self.budget.may_run_out()
        self.nested.count_spent(self.budget)

    async def attempts(
        self,
        step: StepTerms,
        place: Place,
        work: Work,
        *,
        agent: str = "",
        title: str = "",
        inputs: Any = None,
        nests: bool = False,
    ) -> Any:
        """Try a step until it completes or is given up, and return its output. If the step has already ended, return the logged
        output.

        ``agent``: name of the agent or tool that does the work; ``nests``: whether a nested run does it. Raises
        `FailedStep` if the step fails.
        """
        path, attempt = place.path, 1
        self._check_wanted()
        self.count_begun(path)
        await self._wait_to_begin(path)
        while True:
            started, is_new = self._started_attempt(
                step.kind, place, attempt, agent=agent, title=title, inputs=inputs, nests=nests
            )
            ended = None if is_new else self._logged_end(path)
            if isinstance(ended, w.StepFinished):
                if ended.status != "cancelled" or ended.reason:  # else the process died before the run had ended
                    return self._as_logged(ended)
                continue
            if ended is not None:
                attempt = ended.attempt + 1
                continue
            current = Attempt(place, None if step.timeout is None else asyncio.timeout(step.timeout), started.nested, is_new)
            failure, output = await self._try(step, current, work)
            if failure is None:
                self._finish(path, "completed", output=output, attempts=attempt, sets=current.sets)
                return output
            if attempt > step.retry.max_attempts or not failure.is_retried(step.retry.on):
                return self._give_up(step, current, failure, attempt)
            await self._wait_to_retry(step.retry, path, attempt, failure)
            attempt += 1

    async def nested_run(
        self,
        step: StepTerms,
        place: Place,
        runnable: Runnable,
        prompt: str,
        options: RunOptions | None = None,
        *,
        title: str = "",
    ) -> Run:
        """Run a nested run as a step and return it, however it ended. The step's output is its answer.

        A nested run started by a process that died is resumed; one that has ended is loaded. Raises `FailedStep` if the
        run cannot begin.
        """
        ended: list[Run] = []

        async def work(attempt: Attempt) -> Any:
            run = await self.nested.run(attempt, runnable, prompt, options)
            ended.append(run)
            if run.status != "completed":
                raise StepEndedBadly(of_run(run))
            return run.text if run.output is None else run.output

        failure: FailedStep | None = None
        name, inputs = str(getattr(runnable, "name", "")), {"prompt": encodable(prompt)}
        try:
            await self.attempts(step, place, work, agent=name, title=title, inputs=inputs, nests=True)
        except FailedStep as error:
            failure = error
        run = ended[-1] if ended else self.nested.load_ended(self.log.run.step_records[place.path])
        if run is None:
            assert failure is not None, "a step that has completed had a run"
            raise failure
        return run

    def record(self, kind: Any, step: str, **fields: Any) -> Any:
        """Log an event of a step, unless the journal of a recovered run already has it; return it."""
        return self.journal.take(kind, step) or self.log.emit(kind, step=step, **fields)

    def skip(self, path: str, reason: str) -> None:
        """Log that a step is skipped, and why."""
        self.record(w.StepSkipped, path, reason=reason)

    def count_begun(self, step: str, times: int = 1) -> None:
        """Increase a step's count of starts by those made by another run or a dead process."""
        self._iterations[step] = self._iterations.get(step, 0) + times

    async def give_turn(self) -> None:
        """Yield to the event loop if this run has held it for long, since steps that await nothing could spin forever."""
        if perf_counter() - self._turn_began > MAX_HOLD_SECONDS:
            await asyncio.sleep(0)
            self._turn_began = perf_counter()

    def close_open(self, status: RoundStatus) -> None:
        """Finish all open steps."""
        for step in [*self._open]:
            self._finish(step, "failed" if status == "error" else "cancelled")

    def close_suspended(self, block: str = "", reason: str = "") -> None:
        """Log the end of steps, in a failed block or in the whole run, that wait for the person, since the answers are no
        longer needed.
        """
        for path in reversed([*self._open]):
            if not block or path.startswith(f"{block}/"):
                for question in [question for question in self.log.run.waiting if question.call_id == path]:
                    self.elicitation.withdraw(question.id)
                    self.elicitation.book.withdraw(question.id)  # of an earlier process, or of a nested run
                self._finish(path, "cancelled", reason=reason)

    def cancel(self, path: str, **fields: Any) -> None:
        """Log the end of a step whose task is being cancelled, and why."""
        self._finish(path, "cancelled", reason=self.side_by_side.reason, **fields)

    def _note_left(self) -> None:
        """Warn about abandoned tools."""
        names = ", ".join(dict.fromkeys(record.call.name for record in open_calls(self.log.run)))
        self.log.warn_once(f"{names or 'A step'} did not stop when cancelled and may still be running")

    # One step

    async def _wait_to_begin(self, step: str) -> None:
        """Wait while the run is paused. Raises `NothingLeft` if the budget is exhausted."""
        if self._gate.locked() or self._lifecycle.inbox.unread:
            async with self._gate:  # concurrent steps would each read only some of the commands
                await self._lifecycle.read_inbox()
        await self.give_turn()
        self._lifecycle.check_stop()
        if self._may_run_out and (spent := self.budget.exhausted()) is not None:
            reason = f"the {spent.name.replace('_', ' ')} is used up"
            self.log.emit(w.StepSkipped, step=step, reason=reason)
            raise NothingLeft(reason)

    def _check_wanted(self) -> None:
        """Raise an error in a step whose sibling has failed: nothing may follow work that swallowed its cancellation."""
        task = asyncio.current_task()
        if task is not None and task is not self._main and task.cancelling():
            raise asyncio.CancelledError

    async def _wait_to_retry(self, retry: Retry, path: str, attempt: int, failure: StepFailure) -> None:
        try:
            self._check_wanted()
            wait = retry.wait_before(attempt)
            self.record(w.StepAttempted, path, attempt=attempt, error=failure.text, wait=wait)
            await asyncio.sleep(wait * (1 + random.random() * JITTER))
        except asyncio.CancelledError:
            self.cancel(path, attempts=attempt)
            raise

    def _started_attempt(
        self, kind: str, place: Place, attempt: int, *, agent: str, title: str, inputs: Any, nests: bool
    ) -> tuple[w.StepStarted, bool]:
        """Return the start of this attempt, and whether it is new (not in the log of a recovered run)."""
        path = place.path
        self._open[path] = perf_counter()
        if self.journal.left and (logged := self.journal.take_start(path)) is not None:
            return logged, False
        log = self.log
        started = w.StepStarted(
            log.seq,
            now(UTC),
            log.id,
            log.parent_id,
            step=path,
            step_kind=kind,
            title=encodable(title) if title else "",
            parent=place.parent,
            iteration=self._iterations[path],
            inputs=inputs,
            nested=new_run_id() if nests else "",
            agent=agent,
            attempt=attempt,
        )
        return log.append(started), True

    def _logged_end(self, path: str) -> w.StepFinished | w.StepAttempted | None:
        """Return the end of an attempt in the dead process, if it was logged, and consume the events within it."""
        tried = self.journal.take(w.StepAttempted, path)
        ended = self.journal.take(w.StepFinished, path) or tried  # cancelled before the next attempt, if both
        if ended is not None:
            for inner, count in self.journal.pass_over(path, ended.seq).items():
                self.count_begun(inner, count)
        return ended

    async def _try(self, step: StepTerms, attempt: Attempt, work: Work) -> tuple[StepFailure | None, Any]:
        """Make one attempt; return its failure, or None, and the output."""
        path, limit = attempt.place.path, attempt.limit
        try:
            output = await (work(attempt) if limit is None else self.side_by_side.within(limit, work(attempt)))
            return None, output if attempt.is_plain else plain_data(output)
        except (StoreError, Suspended, NothingLeft):
            raise
        except FailedStep as error:
            self.close_suspended(path, SIBLING_FAILED)
            return error.failure, None
        except Exception as error:
            self.close_suspended(path)
            self._close_call(path)  # of an abandoned tool
            own = step.timeout if isinstance(error, TimeoutError) and limit is not None and limit.expired() else None
            return of_error(error, own), None
        except BaseException:
            self.cancel(path)
            raise

    def _give_up(self, step: StepTerms, attempt: Attempt, failure: StepFailure, attempts: int) -> Any:
        """Return the output with which the step continues; raises `FailedStep` if it cannot continue."""
        path = attempt.place.path
        if step.instead:
            self._finish(path, "completed", output=step.instead[0], error=failure.text, attempts=attempts)
            return step.instead[0]
        words = failure.logged_words
        self._finish(path, "failed", error=failure.text, attempts=attempts, words=words, sets=attempt.sets)
        raise FailedStep(path, failure)

    def _as_logged(self, event: w.StepFinished) -> Any:
        """Return the logged output of a step, or raise its logged failure, as the dead process did."""
        self._open.pop(event.step, None)
        self.on_end(event)
        if event.status == "completed":
            return event.output
        if event.status == "cancelled":
            raise self.cancelled_before()
        raise FailedStep(event.step, failure_of_logged(event.error, event.words))

    def _finish(
        self,
        step: str,
        status: StepStatus,
        *,
        output: Any = None,
        error: str = "",
        attempts: int = 1,
        sets: Any = None,
        words: tuple[str, ...] = (),
        reason: str = "",
    ) -> None:
        began = self._open.pop(step, None)
        if began is None:
            return
        if step in self.journal.within:
            self._close_left(step)
        self._close_call(step)
        log = self.log
        finished = w.StepFinished(
            log.seq,
            now(UTC),
            log.id,
            log.parent_id,
            step=step,
            status=status,
            output=output,
            error=error,
            attempts=attempts,
            seconds=perf_counter() - began,
            sets=sets or {},
            words=words,
            reason=reason,
        )
        self.on_end(log.append(finished))

    def _close_left(self, block: str) -> None:
        """Log the end of a block's steps that a process had started before it died and that this one has not restarted."""
        for path in reversed(self.journal.within[block]):
            if path not in self._open and self.log.run.step_records[path].status == "running":
                self._close_call(path)
                self.log.emit(w.StepFinished, step=path, status="cancelled", seconds=None, reason=NOT_NEEDED)

    def _close_call(self, step: str) -> None:
        """Log a result for the open call of a step that is ending: its tool was abandoned, or never began."""
        if self.calls is not None and self.log.run.open_step_call(step) is not None:
            self.calls.close(step, cancelled())


def _nothing(event: w.StepFinished) -> None:
    """Ignore the end of a step."""
