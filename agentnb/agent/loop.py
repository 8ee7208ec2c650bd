"""The loop: call the model, run its tools, decide whether to go on.

It has no features. What to do when a round is over is a policy's to say; what was done is an event of the log.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from functools import partial
from time import perf_counter
from typing import Any

from agentnb.agent.conversation import Conversation, said_in_passing
from agentnb.agent.dispatch import PATIENCE, Dispatch
from agentnb.agent.hearing import Hearing
from agentnb.agent.markers import without_markers
from agentnb.agent.policies import Continue, Rules, Stop, decide
from agentnb.agent.policies.ending import ASKED_FOR_TOOLS
from agentnb.agent.prompts import prompt
from agentnb.agent.reply import settled
from agentnb.agent.todo_check import TodoCheck
from agentnb.core import events as e
from agentnb.core.guidance import Guidance
from agentnb.core.inbox import Command, Inbox
from agentnb.core.log import EventLog, Writer
from agentnb.core.messages import Message, Text, encodable
from agentnb.core.request import Request
from agentnb.core.run import Run
from agentnb.errors import AgentnbError, ModelError, StoreError
from agentnb.models.model import Model, Reply, Retry, StreamItem
from agentnb.settings import without_secrets


class Loop:
    """One run of an agent, from its first round to its last event. Lives in one task of one event loop."""

    def __init__(
        self,
        *,
        model: Model,
        conversation: Conversation,
        dispatch: Dispatch,
        rules: Rules,
        log: EventLog,
        inbox: Inbox,
        todos: TodoCheck | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        """``secrets``: texts that no error may hold."""
        self._model = model
        self._conversation = conversation
        self._dispatch = dispatch
        self._rules = rules
        self._todos = todos or TodoCheck(None, log)
        self._log = log
        self._inbox = inbox
        self._spared = partial(without_secrets, secrets=secrets)
        self._woken = asyncio.Event()
        self._own_cancellations = 0
        self._over = False
        self.abandoned = asyncio.Event()
        """Set when the run has ended and a tool is still going on that does not let itself be cancelled."""
        self._started = perf_counter()
        self._round_started = self._started

    async def run(self, started: e.RunStarted, open_log: Callable[[], Awaitable[Writer]] | None = None) -> Run:
        """Do it all. Returns the run, however it ended, except: a failure in the first round, a log that cannot be
        written, and a cancellation that is not the person's own stop are raised, after the log was closed.
        """
        self._listen()
        try:
            try:
                self._check_stop()
                if open_log is not None:
                    self._log.keep_in(await open_log())  # it may have to wait for other runs to end
                self._log.append(started)
                await self._rounds()
            except (asyncio.CancelledError, KeyboardInterrupt) as error:
                if not self._log.run.events:
                    self._log.append(started)
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
            self._leave()
        return self._log.run

    async def _rounds(self) -> None:
        verdict: Continue | Stop = Continue("prompt")
        while isinstance(verdict, Continue):
            if self._inbox.has_news:
                await self._read_inbox()
            self._todos.look()  # it may have waited, for the person or for its place in the store
            await self._round(verdict)
            if self._inbox.has_news:
                await self._read_inbox()
            self._todos.look()
            verdict = decide(self._rules.policies, self._log.run)
        self._stop(verdict)

    async def _round(self, why: Continue) -> None:
        log, run = self._log, self._log.run
        self._round_started = perf_counter()
        last = run.last_finished_round
        nothing_new = last is not None and not last.records and not run.pending
        log.emit(
            e.RoundStarted,
            index=0 if last is None else last.index + 1,
            reason=why.reason,
            continuation=(why.message or prompt("continue")) if nothing_new else "",
            note=self._rules.note(run),
        )
        self._guide(why.guidance)
        reply = await self._ask(self._conversation.request(run, said_in_passing(run)))
        calls = reply.calls
        self._check_stop()
        if calls:
            await self._dispatch.run(calls, self._check_stop)
        self._finish_round(self._status_of_reply(bool(calls)))

    def _guide(self, first: Iterable[Guidance]) -> None:
        """Log what is said to the model with the next request: what the policy wants said, then what the guides say."""
        for guidance in first:
            self._log.emit(e.GuidanceGiven, guidance=guidance)
        for guide in self._rules.guides:
            said = guide(self._log.run)
            if said is not None:
                self._log.emit(e.GuidanceGiven, guidance=said)

    async def _ask(self, request: Request) -> Message:
        """The model's reply, in the log. Of a stream that breaks off, what came is kept."""
        hearing = Hearing(self._log.tell, markers=self._rules.markers)
        reply: Reply | None = None
        started = perf_counter()
        try:
            async for item in _items(self._model, request):
                if isinstance(item, Reply):
                    reply = item
                elif isinstance(item, Retry):
                    self._note_retry(item, hearing.end())
                    hearing = Hearing(self._log.tell, markers=self._rules.markers)
                else:
                    hearing.take(item)
        except BaseException as error:
            self._keep_broken_off(hearing, perf_counter() - started)
            if isinstance(error, AgentnbError | KeyboardInterrupt | GeneratorExit) or self._is_cancelled(error):
                raise
            said = encodable(f"{type(error).__name__}: {error}")
            words = self._spared(said)
            cause = error if words == said else None  # whose traceback would show it
            raise ModelError(f"{self._model.name} failed: {words}", run=self._log.run) from cause
        if reply is None:
            self._keep_broken_off(hearing, perf_counter() - started)
            raise ModelError(f"{self._model.name} ended its stream without a reply", run=self._log.run)
        hearing.end()
        reply = self._settled(reply)
        message, signals = self._without_markers(reply.message)
        self._log.emit(
            e.ModelReplied,
            message=message,
            signals=signals,
            usage=reply.usage,
            stop_reason=reply.stop_reason,
            seconds=perf_counter() - started if reply.seconds is None else reply.seconds,
            metadata=reply.metadata,
        )
        return message

    def _note_retry(self, retry: Retry, heard: str) -> None:
        reason = self._spared(encodable(retry.reason))
        log, attempt = self._log, retry.attempt
        log.emit(e.RetryScheduled, attempt=attempt, seconds=retry.seconds, reason=reason, status=retry.status, heard=heard)

    def _settled(self, reply: Reply) -> Reply:
        message: object = reply.message
        if not isinstance(message, Message):
            example = 'Write Reply(Message("assistant", (Text("..."),)))'
            raise ModelError(f"The Reply of {self._model.name} holds no Message", example)
        try:
            return settled(reply, self._log.run)
        except (RecursionError, TypeError, ValueError) as error:
            what = encodable(f"{type(error).__name__}: {error}")
            raise ModelError(f"{self._model.name} gave a reply that no log can hold ({what})", run=self._log.run) from error

    def _without_markers(self, message: Message) -> tuple[Message, tuple[str, ...]]:
        return without_markers(message) if self._rules.markers else (message, ())

    def _keep_broken_off(self, hearing: Hearing, seconds: float) -> None:
        if text := hearing.end():
            message, _ = self._without_markers(Message("assistant", (Text(text),)))
            self._log.emit(e.ModelReplied, message=message, stop_reason="broken_off", seconds=seconds)

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
                self._own_cancellations += 1
                task.cancel()
                loop.call_later(PATIENCE, self._abandon)
            self._woken.set()

        def wake(command: Command) -> None:
            if not self._over:
                loop.call_soon_threadsafe(heard, command)

        self._inbox.on_put(wake)

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
            await self._woken.wait()

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
        if self._inbox.stop_requested:
            raise asyncio.CancelledError

    def _cancelled_by_others(self) -> bool:
        """Whether the cancellation is more than the person's own stop, which ends here."""
        task = asyncio.current_task()
        while task is not None and self._own_cancellations:
            self._own_cancellations -= 1
            task.uncancel()
        return not self._inbox.stop_requested or bool(task and task.cancelling())

    # The end

    def _stop(self, verdict: Stop) -> None:
        if verdict.loop is not None:
            self._log.emit(e.LoopDetected, **verdict.loop._asdict())
        if verdict.warning:
            self._log.emit(e.Warned, message=verdict.warning)
        if verdict.limit is not None:
            self._log.emit(e.LimitReached, limit=verdict.stop_reason, value=verdict.limit)
        if verdict.problem:
            error = e.RunError(verdict.stop_reason, verdict.problem, verdict.hint)
            self._log.emit(e.ErrorRaised, error=error, where="reply")
        self._finish_run(verdict.status, verdict.stop_reason)

    def _fail(self, error: BaseException, where: str) -> None:
        """Write down the failure, as far as the log still can; the run in memory takes it in anyhow."""
        if isinstance(error, AgentnbError):
            error.run = self._log.run
            error.what, error.hint = self._spared(error.what), self._spared(error.hint)
            error.args = (error.what, error.hint)
        try:
            self._write_failure(error, where)
        except StoreError:
            self._write_failure(error, where)  # from the first failure on, the log is in memory only

    def _write_failure(self, error: BaseException, where: str) -> None:
        run = self._log.run
        if run.events and run.error is None and run.should_continue:
            self._log.emit(e.ErrorRaised, error=_described(error, self._spared), where=where)
        self._close("failed", "error", round_status="error")

    def _close(self, status: e.Status, stop_reason: str, round_status: e.RoundStatus = "cancelled") -> None:
        """End the run from wherever it is: every call answered, the round finished. A second time does nothing."""
        run = self._log.run
        if not run.events or not run.should_continue:
            return
        self._dispatch.answer_open_calls()
        self._todos.look()
        if run.open_round is not None:
            self._finish_round(round_status)
        self._finish_run(status, stop_reason)

    def _abandon(self) -> None:
        """End a stopped run whose tool does not let itself be cancelled; what the tool still does, nobody waits for."""
        if not self._over:
            try:
                self._close("cancelled", "cancelled")
            except StoreError as error:
                self._fail(error, "store")
            self._leave()
            self.abandoned.set()

    def _leave(self) -> None:
        self._over = True
        self._log.close()

    def _finish_round(self, status: e.RoundStatus) -> None:
        index = self._log.run.last_round.index
        self._log.emit(e.RoundFinished, index=index, status=status, seconds=perf_counter() - self._round_started)

    def _finish_run(self, status: e.Status, stop_reason: str) -> None:
        while self._take_command() is not None:
            pass  # what was said too late for a round is kept all the same
        self._log.emit(e.RunFinished, status=status, stop_reason=stop_reason, seconds=perf_counter() - self._started)


def _items(model: Model, request: Request) -> AsyncIterator[StreamItem]:
    """What the model streams; `ModelError` if it is no stream."""
    stream: Any = model.stream(request)
    if hasattr(stream, "__aiter__"):
        return stream  # type: ignore[no-any-return]  # just looked
    if inspect.iscoroutine(stream):
        stream.close()  # nobody will await it
    raise ModelError(f"{model.name} has a stream that yields nothing", "Let it yield TextDeltas, if any, and then a Reply")


def _described(error: BaseException, spared: Callable[[str], str]) -> e.RunError:
    if isinstance(error, AgentnbError):
        return e.RunError(type(error).__name__, encodable(error.what), encodable(error.hint))
    return e.RunError(type(error).__name__, spared(encodable(str(error))) or type(error).__name__)
