"""The loop: call the model, run its tools, decide whether to go on.

It has no features. What to do when a round is over is a policy's to say; what was done is an event of the log.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from time import perf_counter
from typing import Any, Literal, TypeAlias

from agentnb.agent.resume import guidance_of, resume_verdict
from agentnb.context.history import FULL, History
from agentnb.context.request_builder import RequestBuilder, ephemeral_text
from agentnb.core import events as e
from agentnb.core.guidance import Guidance
from agentnb.core.inbox import Command, Inbox
from agentnb.core.log import EventLog, Writer
from agentnb.core.messages import Message, encodable
from agentnb.core.redaction import redact_error
from agentnb.core.rounds import FINAL_ANSWER, WorkflowRound
from agentnb.core.run import Run
from agentnb.errors import AgentnbError, ContextOverflow, ModelError, StoreError
from agentnb.guidance.prompts import prompt
from agentnb.models.model import Model
from agentnb.policies import Continue, PolicyBundle, Stop, Verdict, decide
from agentnb.policies.ending import ASKED_FOR_TOOLS
from agentnb.runtime.budget import Budget, current_budget
from agentnb.runtime.clock import Clock
from agentnb.runtime.compactor import Compactor
from agentnb.runtime.dispatch import PATIENCE, Dispatch
from agentnb.runtime.model_calls import ModelCalls
from agentnb.runtime.run_end import check_within_limits, described, log_stop
from agentnb.runtime.threads import running_loop
from agentnb.runtime.todo_sync import TodoSync

OnLimit: TypeAlias = Literal["stop", "final_answer", "raise"]
"""What happens at a limit: the run ends, the model answers once more without tools, or a `RunLimited` is raised."""


class Loop:
    """One run of an agent, from its first round to its last event. Lives in one task of one event loop."""

    def __init__(
        self,
        *,
        model: Model,
        request_builder: RequestBuilder,
        dispatch: Dispatch,
        rules: PolicyBundle,
        log: EventLog,
        inbox: Inbox,
        todos: TodoSync | None = None,
        history: History = FULL,
        clock: Clock | None = None,
        budget: Budget | None = None,
        on_limit: OnLimit = "stop",
        end_tool: Callable[[], None] = lambda: None,
    ) -> None:
        """``end_tool``: ends a plain tool on the thread that waits."""
        self._request_builder = request_builder
        self._dispatch = dispatch
        self._rules = rules
        self._todos = todos or TodoSync(None, log)
        self._log = log
        self._inbox = inbox
        self._budget = budget or Budget()
        self._calls = ModelCalls(model, log, rules, self._budget, is_cancelled=self._is_cancelled)
        self._compactor = Compactor(self._calls, request_builder, history, log)
        self._clock = clock or Clock()
        self._on_limit = on_limit
        self._end_tool = end_tool
        self._time_up: Stop | None = None
        """The verdict when the time is up, until it is heeded."""
        self._abandoning: asyncio.TimerHandle | None = None
        self._woken = asyncio.Event()
        self._failure: StoreError | None = None  # of the log, where it could not be raised
        self._own_cancellations = 0
        self._over = False
        self.abandoned = asyncio.Event()
        """Set when the run has ended and a tool is still going on that does not let itself be cancelled."""
        self._task: asyncio.Task[Any] | None = None
        self._started = perf_counter()
        self._before = sum(one.seconds for one in log.run.rounds)
        """Seconds that it took in processes that died."""
        self._round_started = self._started

    async def run(self, first: e.RunStarted | e.RunRecovered, open_log: Callable[[], Awaitable[Writer]] | None = None) -> Run:
        """Do it all, from the first event or from where another process died. Returns the run, however it ended, except: a
        failure in the first round, a log that cannot be written, a limit that is to raise, and a cancellation that is not the
        person's own stop are raised, after the log was closed.
        """
        self._listen()
        paying = current_budget.set(self._budget)
        try:
            try:
                self._check_stop()
                if open_log is not None:
                    self._log.keep_in(await open_log())  # it may have to wait for other runs to end
                self._log.append(first)
                await self._rounds()
            except (asyncio.CancelledError, KeyboardInterrupt) as error:
                if not self._log.run.events:
                    self._log.append(first)
                self._close("cancelled", "cancelled")
                if isinstance(error, KeyboardInterrupt) or self._cancelled_by_others():
                    raise
        except AgentnbError as error:
            of_the_store = isinstance(error, StoreError)
            self._fail(error, "store" if of_the_store else "model")
            if of_the_store or len(self._log.run.rounds) <= 1:
                raise
        except Exception as error:
            self._fail(error, "agentnb")
            raise
        finally:
            with suppress(ValueError):  # a run that nobody waited for is closed from elsewhere
                current_budget.reset(paying)
            self._leave()
        self.raise_limit()
        return self._log.run

    async def _rounds(self) -> None:
        self._clock.start(self._note_time_up)
        try:
            verdict = await self._until_over(await self._first_verdict())
        except asyncio.CancelledError:
            if self._time_up is None or self._over or self._cancelled_by_others(self._inbox.stop_requested):
                raise
            self._end_round("cancelled")
            verdict = self._time_up
        await self._conclude(verdict)

    async def _first_verdict(self) -> Verdict:
        """How to begin: with the prompt; or, if another process has died over this run, with what it left open."""
        run = self._log.run
        if run.limit is not None:
            self._clock.stop()  # it is over but for its last words, which may take their time
        if run.error is not None:
            self._end_round("error")
        if run.open_round is not None:
            await self._go_on(run.open_round)
            self._todos.look()
        return resume_verdict(self._rules.policies, run) if run.rounds else Continue("prompt")

    async def _go_on(self, current: WorkflowRound) -> None:
        """Bring the round to its end in the middle of which another process died."""
        is_last = current.is_final
        if current.stop_reason == "broken_off":
            self._finish_round("error")
        elif current.reply is None and is_last:
            await self._answer_at_last(self._reply(may_call=False))
        elif current.reply is None:
            first = guidance_of(self._rules.policies, self._log.run, current)
            self._guide(first, given=len(current.guidance))
            await self._reply(may_call=True)
        elif is_last:
            self._end_round("success")
        else:
            open_calls = [record.call for record in current.records if record.result is None]
            await self._dispatch.go_on(open_calls, self._check_stop)
            self._finish_round(self._status_of_reply(bool(current.records)))

    async def _until_over(self, verdict: Verdict) -> Stop:
        self._todos.look()  # it may have waited for its place in the store
        while isinstance(verdict, Continue):
            if self._inbox.has_news:
                await self._read_inbox()
                self._todos.look()  # it may have waited for the person
            await self._round(verdict)
            if self._inbox.has_news:
                await self._read_inbox()
            self._todos.look()
            verdict = decide(self._rules.policies, self._log.run)
        return verdict

    async def _round(self, why: Continue, last_words: str = "") -> None:
        """One turn. With ``last_words`` it is the last: the model is told these, and may call no tool."""
        log, run = self._log, self._log.run
        self._round_started = perf_counter()
        last = run.last_finished_round
        nothing_new = last is not None and not last.records and not run.pending
        log.emit(
            e.RoundStarted,
            index=0 if last is None else last.index + 1,
            reason=why.reason,
            continuation=(last_words or why.message or prompt("continue")) if nothing_new else "",
            note="" if last_words and nothing_new else last_words or self._rules.note(run),
        )
        if not last_words:
            self._guide(why.guidance)
        await self._reply(may_call=not last_words)

    async def _reply(self, *, may_call: bool) -> None:
        """The model's reply in the open round, and what it asks for."""
        try:
            calls = (await self._heard(may_call)).calls
        finally:
            self._budget.settle(self._log.run.spent)  # before its tools spend of it, and whatever came of the reply
        self._check_stop()
        if calls and may_call:
            await self._dispatch.run(calls, self._check_stop)
        elif calls:
            self._dispatch.answer_open_calls()
        self._finish_round(self._status_of_reply(bool(calls)))

    async def _heard(self, may_call: bool) -> Message:
        run = self._log.run
        if (why := self._compactor.why_due()) is not None:
            await self._compactor.compact(why)
        try:
            return await self._calls.reply(self._request_builder.request(run, ephemeral_text(run), may_call=may_call))
        except ContextOverflow:
            # Words that came before it would be in the way: they stand at the end of the conversation now.
            if run.last_round.reply is not None or not await self._compactor.after_overflow():
                raise
        return await self._calls.reply(self._request_builder.request(run, ephemeral_text(run), may_call=may_call))

    def _guide(self, first: Iterable[Guidance], given: int = 0) -> None:
        """Log what is said to the model with the next request: what the policy wants said, then what the guides say.

        ``given``: how much of it stands in the log already.
        """
        run, said = self._log.run, [*first]
        for guide in self._rules.guides:
            guidance = guide(run)
            if guidance is not None:
                said.append(guidance)
        for guidance in said[given:]:
            self._log.emit(e.GuidanceGiven, guidance=guidance)

    def _status_of_reply(self, has_calls: bool) -> e.RoundStatus:
        last = self._log.run.last_round
        announced = last.stop_reason in ASKED_FOR_TOOLS
        return "unexpected_empty_tools" if announced and not has_calls and not last.text.strip() else "success"

    # The person

    def _listen(self) -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.current_task()

        def heard(command: Command) -> None:
            if command.answer is not None:
                self._dispatch.answered(command.answer)
            elif command.name == "stop" and task is not None and not self._over:
                self._cancel(task)
            self._woken.set()

        def wake(command: Command) -> None:
            if not self._over:
                loop.call_soon_threadsafe(heard, command)

        def paid_inside() -> None:
            if not self._over and running_loop() is loop:
                self._note_spent_inside()  # at once: what has just paid may be the end of the process
            elif not self._over:
                loop.call_soon_threadsafe(self._note_spent_inside)

        self._inbox.on_put(wake)
        self._budget.on_paid_inside = paid_inside
        self._task = task

    def _cancel(self, task: asyncio.Task[Any]) -> None:
        self._own_cancellations += 1
        task.cancel()
        self._abandoning = asyncio.get_running_loop().call_later(PATIENCE, self._abandon)

    def _note_time_up(self) -> None:
        if not self._over and self._task is not None and not self._inbox.stop_requested:
            self._time_up = Stop("max_seconds", "limited", limit=self._clock.limit)
            self._cancel(self._task)
            self._end_tool()

    async def _read_inbox(self) -> None:
        """Take in all commands; wait while paused; leave if the run is to stop."""
        paused = False
        while True:
            self._woken.clear()
            while (command := self._take_command()) is not None:
                paused = {"pause": True, "resume": False}.get(command.name, paused)
            self._check_stop()
            if not paused:
                return
            self._clock.hold()
            try:
                await self._woken.wait()
            finally:
                self._clock.release()

    def _take_command(self) -> Command | None:
        command = self._inbox.take()
        if command is not None:
            self._log.emit(e.CommandReceived, command=command.name, text=encodable(command.text))
        return command

    def _is_cancelled(self, error: BaseException) -> bool:
        """Whether this is a cancellation of the run, and not one that a model raised on its own account."""
        task = asyncio.current_task()
        return isinstance(error, asyncio.CancelledError) and (
            self._inbox.stop_requested or task is None or task.cancelling() > 0
        )

    def _check_stop(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._inbox.stop_requested or self._time_up is not None:
            raise asyncio.CancelledError

    def _cancelled_by_others(self, stopped: bool = False) -> bool:
        """Whether the cancellation is more than the person's own stop or the end of the time, which end here."""
        if self._abandoning is not None:
            self._abandoning.cancel()
        task = asyncio.current_task()
        while task is not None and self._own_cancellations:
            self._own_cancellations -= 1
            task.uncancel()
        if self._time_up is not None:
            return stopped or bool(task and task.cancelling())
        return not self._inbox.stop_requested or bool(task and task.cancelling())

    # The end

    async def _conclude(self, verdict: Stop) -> None:
        self._time_up = None
        self._clock.stop()
        log_stop(self._log, verdict)
        run = self._log.run
        if verdict.limit is not None and self._on_limit == FINAL_ANSWER and not run.last_round.is_final:
            words = prompt(FINAL_ANSWER).replace("{{ limit }}", f"{verdict.stop_reason}, {verdict.limit:g}")
            await self._answer_at_last(self._round(Continue(FINAL_ANSWER), words))
        self._finish_run(verdict.status, verdict.stop_reason)

    async def _answer_at_last(self, answer: Coroutine[Any, Any, None]) -> None:
        """Wait for the final answer. If it does not come, the run ends without it."""
        try:
            await answer
        except ModelError as error:
            self._end_round("error")
            self._log.emit(e.Warned, message=f"The final answer did not come: {encodable(str(error))}")

    def raise_limit(self) -> None:
        """Raise `RunLimited` if the run has ended at a limit, and is to raise then."""
        if self._on_limit == "raise":
            check_within_limits(self._log.run)

    def _fail(self, error: BaseException, where: str) -> None:
        """Write down the failure, as far as the log still can; the run in memory takes it in anyhow."""
        if isinstance(error, AgentnbError):
            error.run = self._log.run
            redact_error(error)
        try:
            self._write_failure(error, where)
        except StoreError:
            self._write_failure(error, where)  # from the first failure on, the log is in memory only

    def _write_failure(self, error: BaseException, where: str) -> None:
        run = self._log.run
        if run.events and run.error is None and run.should_continue:
            self._log.emit(e.ErrorRaised, error=described(error), where=where)
        self._close("failed", "error", round_status="error")

    def _close(self, status: e.Status, stop_reason: str, round_status: e.RoundStatus = "cancelled") -> None:
        """End the run from wherever it is: every call answered, the round finished. A second time does nothing."""
        run = self._log.run
        if not run.events or not run.should_continue:
            return
        self._end_round(round_status)
        self._finish_run(status, stop_reason)

    def _end_round(self, status: e.RoundStatus) -> None:
        """End the round in the middle of which the run is, if any: every call answered."""
        self._dispatch.answer_open_calls()
        self._todos.look()
        if self._log.run.open_round is not None:
            self._finish_round(status)

    def _abandon(self) -> None:
        """End a stopped run whose tool does not let itself be cancelled; what the tool still does, nobody waits for."""
        if not self._over:
            try:
                if self._time_up is not None:
                    self._end_round("cancelled")
                    log_stop(self._log, self._time_up)
                    if self._on_limit == FINAL_ANSWER:
                        self._log.emit(e.Warned, message="There is no final answer: a tool could not be stopped")
                    self._finish_run("limited", "max_seconds")
                self._close("cancelled", "cancelled")
            except StoreError as error:
                self._fail(error, "store")
            self._leave()
            self.abandoned.set()

    def _leave(self) -> None:
        self._over = self._budget.closed = True
        self._clock.stop()
        self._log.close()

    def _finish_round(self, status: e.RoundStatus) -> None:
        seconds, index = perf_counter() - self._round_started, self._log.run.last_round.index
        inside = self._spent_inside() if self._budget.spent else 0.0
        self._log.emit(e.RoundFinished, index=index, status=status, seconds=seconds, spent_inside=inside)

    def _spent_inside(self) -> float:
        """What runs that its tools began have spent, and the log does not know yet."""
        return max(0.0, round(self._budget.by_others() - self._log.run.counters.spent_inside, 9))

    def _note_spent_inside(self) -> None:
        """Write that down at once: if the process dies in the middle of the round, it was spent all the same."""
        inside = self._spent_inside()
        if inside and not self._over:
            try:
                self._log.emit(e.ExtraUsage, inside=inside)
            except StoreError as error:  # not the failure of the run that has just paid
                self._failure = error

    def _finish_run(self, status: e.Status, stop_reason: str) -> None:
        while self._take_command() is not None:
            pass  # what was said too late for a round is kept all the same
        self._budget.settle(self._log.run.spent)
        seconds = perf_counter() - self._started + self._before
        self._log.emit(e.RunFinished, status=status, stop_reason=stop_reason, seconds=seconds)
