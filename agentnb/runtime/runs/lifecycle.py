"""The life of one run, whatever its orchestrator: stop, pause, time, money, abandonment, failure, and the end of its log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC
from functools import cached_property
from time import perf_counter
from typing import Any, Protocol, TypeVar

from agentnb.core.inbox import INTERRUPTED, Command, current_inbox
from agentnb.core.log import events as e
from agentnb.core.log.work_events import OutcomeGiven
from agentnb.core.messages import encodable
from agentnb.core.redaction import redact_error
from agentnb.core.run.approvals import waiting_for_approval
from agentnb.core.run.rounds import FINAL_ANSWER
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, ServerFailed, StoreError
from agentnb.policies.run_limits import OnLimit
from agentnb.policies.verdict import Stop
from agentnb.runtime.budget import current_budget, nested_levels
from agentnb.runtime.calls.dispatch import PATIENCE
from agentnb.runtime.calls.run_context import RunContext
from agentnb.runtime.clock import ignore
from agentnb.runtime.event_log import now
from agentnb.runtime.failure_place import LOOP, WORKFLOW, failure_place
from agentnb.runtime.host.process_end import process_end
from agentnb.runtime.run_end import Suspended, check_within_limits, log_stop, run_error
from agentnb.runtime.runs.assessing import assessments_at
from agentnb.runtime.threads import is_cancelling, is_running, running_loop

T = TypeVar("T")


class Orchestrator(Protocol):
    """Does the work of a run: an agent's loop, or a workflow's steps."""

    where: str
    """Source that the log states for errors raised by its work: ``model`` for an agent's loop."""

    def raises(self, error: AgentnbError) -> bool:
        """Return whether to raise this error from its work to the caller; if not, the failed run is returned."""

    async def work(self) -> Stop:
        """Work until a policy or a limit stops the run."""

    async def final_answer(self, limit: Stop) -> None:
        """Request a final answer at a limit."""

    def close_open(self, status: e.RoundStatus) -> None:
        """Close everything that is open and answer every call. No-op the second time."""

    def suspend(self, why: str) -> None:
        """Leave open whatever waits for the person: the run is suspended once its running work has ended."""


class Orchestrated(Protocol):
    """A run about to start, which creates its orchestrator once its log is open."""

    def orchestrator(self, lifecycle: Lifecycle, first: e.AnyEvent) -> Orchestrator:
        """Return the orchestrator of the run that begins with this event."""


class Lifecycle:
    """Takes a run from its first event to its last, in one task of one event loop."""

    def __init__(self, context: RunContext, *, on_limit: OnLimit = "stop") -> None:
        self.context = context
        self.log = context.log
        self.clock = context.clock
        self.budget = context.budget
        self.inbox = context.inbox
        self.end_turn: Callable[[], None] | None = None
        """Ends the turn of an external agent, so that it reads an urgent message from the person."""
        self.patience = PATIENCE
        """Seconds that a cancelled run has to clean up; longer with an external agent, whose processes end first."""
        self._on_limit = on_limit
        self._orchestrator: Orchestrator | None = None
        self._loop: asyncio.AbstractEventLoop
        self._task: asyncio.Task[None] | None = None
        """Does the work of the run, in a separate task so that the caller can abandon work that ignores cancellation."""
        self._caller: asyncio.Task[Any] | None = None
        self._cancelled_before = 0
        """Number of cancellations of the caller's task before the run began."""
        self._time_up: Stop | None = None
        """Verdict when time is up, until it is handled."""
        self._abandoning: asyncio.TimerHandle | None = None
        self._waits_for_nested = True
        """True if an abandonment waits a second time, for nested runs that are being abandoned too."""
        self._error: BaseException | None = None
        """Exception to raise to the caller of the run."""
        self._has_ended = False
        """True once the caller has received the run or its error, even if some work ignores its cancellation."""
        self._end: asyncio.Future[None] | None = None
        """Resolved when the caller may continue."""
        self._own_cancellations = 0
        self._is_interrupted = False
        """True if an interrupt stopped the run, as far as the cause of a cancellation can be determined."""
        self._log_failure: StoreError | None = None  # kept where it could not be raised
        self._over = False
        self._started = perf_counter()
        rounds = self.log.run.rounds
        self._seconds_before = sum(record.seconds or 0.0 for record in rounds) if rounds else self.clock.taken
        """Seconds that the run took in earlier processes."""

    async def run(self, pending: Orchestrated, first: e.AnyEvent) -> Run:
        """Run to completion, or resume a recovered run. Work that ignores its cancellation is abandoned.

        Returns the run, however it ended. In four cases an exception is raised instead, once the log is closed: a
        failure that the orchestrator raises, a log that cannot be written, a limit with ``on_limit="raise"``, and a
        cancellation other than the person's stop.
        """
        loop, self._caller = asyncio.get_running_loop(), asyncio.current_task()
        self._loop = loop
        self._cancelled_before = 0 if self._caller is None else self._caller.cancelling()
        self._task = loop.create_task(self._run_to_end(pending, first))
        cancelled: asyncio.CancelledError | None = None
        while not self._has_ended:
            self._end = loop.create_future()
            try:
                await self._end
            except asyncio.CancelledError as error:
                cancelled, self._is_interrupted = error, True
                asks = self.log.store and waiting_for_approval(self.log.run)
                if not (asks and await process_end.follows()):  # else it is being suspended
                    self._cancel(own=False)
            except BaseException:  # nobody waits any more, perhaps in another thread
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(self._task.cancel)
                raise
        try:
            if self._error is not None:
                raise self._error
            if cancelled is not None:
                raise cancelled
        finally:
            self._error = cancelled = None
        if self._on_limit == "raise":
            check_within_limits(self.log.run)
        return self.log.run

    async def _run_to_end(self, pending: Orchestrated, first: e.AnyEvent) -> None:
        """Run to the end and store any error, since an interrupt raised in a task would end the event loop."""
        try:
            await self._run_in_context(pending, first)
        except BaseException as error:
            if not self._has_ended:
                self._error = error
        try:
            if (own := self.budget.own_servers) is not None and own.used:
                await asyncio.to_thread(own.close)
        finally:  # also if it is cancelled here: nothing else would release the caller
            self._release_caller()

    def _release_caller(self) -> None:
        """Return the run or its error to the caller."""
        self._has_ended = True
        if self._end is None or self._end.done():
            return
        try:  # noqa: SIM105  # in every run: `suppress` would take longer
            self._end.set_result(None)
        except RuntimeError:  # garbage collected after its event loop was closed: nobody waits any more
            pass

    async def _run_in_context(self, pending: Orchestrated, first: e.AnyEvent) -> None:
        """Run to completion; code called by the run sees its budget and inbox."""
        self._started = perf_counter()
        self.inbox.on_put(self._wake)
        self.budget.on_paid_inside = self._note_paid_inside
        for event in self.log.run.events:
            self.log.tell(event)  # a watcher sees a recovered run, or a fork, from its beginning
        current_budget.set(self.budget)  # in the context of its own task, which ends with it
        nested_levels.set(nested_levels.get() + 1)
        current_inbox.set(self.inbox)
        try:
            await self._run_closed(pending, first)
        except AgentnbError as error:
            if not self.log.run.events:  # its log could not be created
                self.log.begin(first)
            is_of_the_store = isinstance(error, StoreError)
            is_of_a_server = isinstance(error, ServerFailed)
            orchestrator = self._orchestrator
            where = "agentnb" if orchestrator is None else orchestrator.where
            self._fail(error, "store" if is_of_the_store else "mcp" if is_of_a_server else where)
            if is_of_the_store or orchestrator is None or orchestrator.raises(error):
                raise
        except (Exception, SystemExit, GeneratorExit) as error:
            if not isinstance(error, GeneratorExit) or is_running(self._task):
                if not self.log.run.events:  # its orchestrator could not be created
                    self.log.begin(first)
                self._fail(error, "agentnb")
            raise
        finally:
            self._leave()
            self._let_go()

    async def _run_closed(self, pending: Orchestrated, first: e.AnyEvent) -> None:
        """Run, and end the log properly if the run is cancelled or interrupted."""
        try:
            try:
                self.check_stop()
                if (open_log := self.context.open_log) is not None:
                    self.log.keep_in(await open_log())  # it may have to wait for other runs to end
            finally:  # also if it is cancelled here: a dead process may have left calls open
                # Created only now: a thousand runs may be waiting, and each of their objects costs the garbage collector.
                orchestrator = self._orchestrator = pending.orchestrator(self, first)
            self.log.begin(first)
            for message, advice in self.context.warnings:
                self.log.warn_once(message, advice)
            await self._conclude(orchestrator, await self._verdict(orchestrator))
        except Suspended as suspended:
            self._log_late_commands()
            self.settle()
            self.log_nested_usage()
            self.log.emit(e.RunSuspended, why=suspended.why if self.log.store is not None else e.NO_STORE)
        except (asyncio.CancelledError, KeyboardInterrupt) as error:
            if not self.log.run.events:
                self.log.begin(first)
            if not await self._is_left():
                self._close("cancelled", "cancelled")
            if isinstance(error, KeyboardInterrupt) or self._cancelled_by_others():
                raise

    async def _is_left(self) -> bool:
        """Return whether the run is left unfinished, for `recover`, because the end of its process interrupted it."""
        if not (self._is_interrupted and self.log.store):
            return False
        if self._abandoning is not None:
            self._abandoning.cancel()
        return await process_end.follows()

    async def _verdict(self, orchestrator: Orchestrator) -> Stop:
        """Work until a policy or the time limit stops the run, and return that verdict."""
        self.clock.start(self._note_time_up)
        try:
            if self.context.servers is not None:
                await self.context.servers.connect()
            return await orchestrator.work()
        except asyncio.CancelledError:
            if self._time_up is None or self._over or self._cancelled_by_others(self.inbox.stop_requested):
                raise
            self._close_open("cancelled")
            return self._time_up

    async def _conclude(self, orchestrator: Orchestrator, verdict: Stop) -> None:
        self._time_up = None
        self.clock.stop()
        log_stop(self.log, verdict, self._component)
        if verdict.limit is not None and self._on_limit == FINAL_ANSWER:
            await orchestrator.final_answer(verdict)
        self._finish(verdict.status, verdict.stop_reason, verdict.round_status)

    # For the orchestrator, while it works

    async def read_inbox(self) -> None:
        """Log all commands, wait while the run is paused, and raise if it is to stop."""
        paused = False
        while True:
            self._wake_event.clear()
            while (command := self._take_command()) is not None:
                paused = {"pause": True, "resume": False}.get(command.name, paused)
            self.check_stop()
            if not paused:
                return
            with self.context.elicitation.held():
                await self._wake_event.wait()

    async def wait_while_paused(self) -> None:
        """Wait, in mid-round, until the person resumes the run; no-op if it is not paused."""
        async with self._pause:
            if self.inbox.is_paused:
                await self.read_inbox()

    async def hear_while(self, work: Coroutine[Any, Any, T]) -> T | None:
        """Await the work, logging commands meanwhile. A message from the person cancels it, and None is returned."""
        task = asyncio.ensure_future(work)
        try:
            while not task.done():
                self._wake_event.clear()
                if self.inbox.has_news:
                    await self.read_inbox()
                    if self.log.run.pending and not task.done():
                        return None
                    continue
                woken = asyncio.ensure_future(self._wake_event.wait())
                try:
                    await asyncio.wait((task, woken), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    woken.cancel()
            return task.result()
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait((task,))

    def check_stop(self) -> None:
        """Raise if the run is to stop: no further tool may follow one that has swallowed its cancellation."""
        if self._log_failure is not None:
            raise self._log_failure
        task, caller = self._task, self._caller
        # Checked first: this runs several times per round.
        is_cancelled = (task is not None and task.cancelling()) or (caller is not None and caller.cancelling())
        if self.inbox.stop_requested or self._time_up is not None or (is_cancelled and self._others_cancel):
            raise asyncio.CancelledError

    @property
    def time_is_up(self) -> bool:
        """True if the time limit is ending the run."""
        return self._time_up is not None

    def is_cancelled(self, error: BaseException) -> bool:
        """Return whether the error cancels the run; a model may raise such an error on its own, too."""
        return isinstance(error, asyncio.CancelledError) and (self.inbox.stop_requested or is_cancelling())

    def settle(self) -> None:
        """Update the budget with the run's own usage so far."""
        run = self.log.run
        self.budget.settle(run.own_spent, run.own_usage)

    def log_nested_usage(self) -> None:
        """Log nested runs' usage since the last call, unless it would not change the run's usage."""
        for run_id, nested in self.budget.take_inside().items():
            if not nested.is_nothing or (nested.usage.cost is None and self.log.run.cost is not None):
                by_run = {"nested_run": run_id, "nested": nested.usage} if run_id else {}
                self.log.emit(e.ExtraUsage, inside=nested.spent, **by_run)

    # The person, the time and the money

    @cached_property
    def _wake_event(self) -> asyncio.Event:
        """Set by each command. Created on demand, since most runs get none."""
        return asyncio.Event()

    @cached_property
    def _pause(self) -> asyncio.Lock:
        """Held by the first task that waits for the end of a pause."""
        return asyncio.Lock()

    def _wake(self, command: Command) -> None:
        """Accept a command, from any thread."""
        if command.name == "withdraw":
            self.context.elicitation.grants.withdraw(command.text)
        if not self._over:
            self._loop.call_soon_threadsafe(self._handle, command)

    def _handle(self, command: Command) -> None:
        if command.answer is not None:
            self.context.elicitation.take(command.answer)
        elif command.name == "withdraw" and not self._over:
            self.context.elicitation.grants.update()
        elif command.name == "stop" and not self._over:
            self._is_interrupted = command.text == INTERRUPTED
            self._cancel()
        elif command.now and self.end_turn is not None:
            self.end_turn()
        elif command.name == "suspend" and self._orchestrator is not None:
            self._orchestrator.suspend(command.text)
        self._wake_event.set()

    def _note_paid_inside(self) -> None:
        """Schedule logging of the nested runs' usage. Thread-safe."""
        if not self._over and running_loop() is self._loop:
            self._log_nested_usage_now()
        elif not self._over:
            self._loop.call_soon_threadsafe(self._log_nested_usage_now)

    def _cancel(self, *, own: bool = True) -> None:
        """Cancel the run, and abandon it if that does not end it. ``own``: whether the person or the clock cancels it,
        rather than other code.
        """
        assert self._task is not None, "it has begun"
        self._own_cancellations += own
        self._task.cancel()
        self._abandoning = asyncio.get_running_loop().call_later(self.patience, self._abandon)

    def _note_time_up(self) -> None:
        if not self._over and self._task is not None and not self.inbox.stop_requested:
            self._time_up = Stop("max_seconds", "limited", limit=self.clock.limit)
            self._cancel()
            if (foreground := self.context.options.foreground) is not None:
                foreground.end_tool()

    def _take_command(self) -> Command | None:
        command = self.inbox.take()
        if command is not None:
            self.log.emit(e.CommandReceived, command=command.name, text=encodable(command.text))
        return command

    def _cancelled_by_others(self, stopped: bool = False) -> bool:
        """Return whether others cancelled the run too; the person's stop and the time limit are handled elsewhere."""
        if self._abandoning is not None:
            self._abandoning.cancel()
        while self._task is not None and self._own_cancellations:
            self._own_cancellations -= 1
            self._task.uncancel()
        if self._time_up is not None:
            return stopped or self._others_cancel
        return not self.inbox.stop_requested or self._others_cancel

    @property
    def _others_cancel(self) -> bool:
        """True if others cancelled the task or its caller, rather than the person stopping it or the time running out."""
        caller, task = self._caller, self._task
        return (task is not None and task.cancelling() > self._own_cancellations) or (
            caller is not None and caller.cancelling() > self._cancelled_before
        )

    def _log_nested_usage_now(self) -> None:
        """Log the usage of nested runs before the round is over, since the process may die in the middle of it."""
        if not self._over:
            try:
                self.log_nested_usage()
            except StoreError as error:  # not to be raised in the nested run that has just paid
                self._log_failure = error

    # The end

    def _fail(self, error: BaseException, where: str) -> None:
        """Log the failure if the log can still be written to; the run in memory records it in any case."""
        if isinstance(error, AgentnbError):
            error.run = self.log.run
            redact_error(error)
        try:
            self._write_failure(error, where)
        except StoreError:
            self._write_failure(error, where)  # after the first failure the log is in memory only

    def _write_failure(self, error: BaseException, where: str) -> None:
        run = self.log.run
        if run.events and run.error is None and run.should_continue:
            failed_at = failure_place(run, where if where in ("store", "mcp") else self._component)
            self.log.emit(e.ErrorRaised, error=run_error(error), where=where, **failed_at)
        self._close("failed", "error", "error")

    @property
    def _component(self) -> str:
        """The part of the run that does the work: loop or workflow."""
        is_loop = self._orchestrator is not None and self._orchestrator.where == "model"
        return LOOP if is_loop else WORKFLOW

    def _close(self, status: e.Status, stop_reason: str, round_status: e.RoundStatus = "cancelled") -> None:
        """End the run at any point. No-op the second time."""
        run = self.log.run
        if not run.events or not run.should_continue:
            return
        self._close_open(round_status)
        self._finish(status, stop_reason)

    def _close_open(self, status: e.RoundStatus) -> None:
        """Withdraw open questions and close everything else still open."""
        self.context.elicitation.close()
        if self._orchestrator is not None:
            self._orchestrator.close_open(status)

    def _abandon(self) -> None:
        """End a cancelled run even though some of its work ignores the cancellation; nested runs first."""
        if self._over:
            return
        if self._waits_for_nested and self.inbox.has_nested:
            self._waits_for_nested = False
            self._abandoning = asyncio.get_running_loop().call_later(self.patience, self._abandon)
            return
        try:
            if self._time_up is not None and self._orchestrator is not None:
                self._close_open("cancelled")
                log_stop(self.log, self._time_up)
                if self._on_limit == FINAL_ANSWER:
                    self.log.emit(e.Warned, message="No final answer: a tool could not be stopped")
                self._finish("limited", "max_seconds")
            self._close("cancelled", "cancelled")
        except StoreError as error:
            self._fail(error, "store")
        self._leave()
        self._release_caller()

    def _leave(self) -> None:
        self._over = self.budget.closed = True
        self.context.elicitation.end_code()
        self.clock.stop()
        self.log.close()

    def _let_go(self) -> None:
        """Drop references back to the lifecycle, so that a run's memory is freed without waiting for garbage collection."""
        self._orchestrator = None
        self.inbox.close()
        self.budget.on_paid_inside = ignore

    def _log_late_commands(self) -> None:
        """Log commands that arrived too late for a round."""
        while self.inbox.unread:
            self._take_command()

    def _finish(self, status: e.Status, stop_reason: str, last_round: e.RoundStatus = "") -> None:
        self._log_late_commands()
        self.settle()
        self.log_nested_usage()
        seconds = perf_counter() - self._started + self._seconds_before
        ending: Any = {"status": status, "stop_reason": stop_reason, "last_round": last_round, "seconds": seconds}
        log = self.log
        for assessment in assessments_at(log.run, e.RunFinished(log.seq, now(UTC), log.id, log.parent_id, **ending)):
            log.emit(OutcomeGiven, assessment=assessment)
        log.emit(e.RunFinished, **ending, totals=log.totals())
