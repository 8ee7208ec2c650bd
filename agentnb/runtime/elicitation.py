"""Elicitation: asks the person about a tool call, or during one, and returns the answer."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from time import perf_counter
from typing import Any, Literal, TypeAlias

from agentnb.core.events import Event, QuestionAnswered, QuestionAsked, Warned
from agentnb.core.messages import encodable
from agentnb.core.questions import KINDS, TEXT, Answer, QuestionKind, WaitingOnUser, checked_answer, checked_schema
from agentnb.errors import Declined, NobodyToAsk, SettingsError, StoreError, near
from agentnb.runtime.clock import Clock
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.threads import TICK, running_loop

Program: TypeAlias = Callable[[WaitingOnUser], Awaitable[Any]]
"""A function that answers in the person's place: with a value, with None to leave the question to the person, or by raising
`Declined`."""


class Elicitation:
    """The questions of one run, and the futures of their answers. Used on the run's event loop."""

    def __init__(self, log: EventLog, *, can_ask: bool, clock: Clock | None = None, answer: Program | None = None) -> None:
        """``can_ask``: whether the caller holds a handle to answer the run's questions; ``clock``: the run's, held while a
        question is open; ``answer``: answers in the person's place.
        """
        self._log = log
        self._can_ask = can_ask
        self._answer = answer
        self._programs: set[asyncio.Task[None]] = set()
        self._clock = clock or Clock()
        # A resumed run may have asked before.
        self._count = sum(isinstance(event, QuestionAsked) for event in log.run.events)
        self._open: dict[str, asyncio.Future[Answer]] = {}
        self._failure: StoreError | None = None

    def asker(self, call_id: str) -> CallElicitor:
        """Return the elicitor of this tool call."""
        return CallElicitor(self, call_id)

    def check(self) -> None:
        """Raise the `StoreError` of a question that could not be logged: the tool that asked may have caught it."""
        if self._failure is not None:
            raise self._failure

    def check_anybody(self, program: Program | None = None) -> None:
        """Raise `NobodyToAsk` if the run has neither a person to answer, nor a program in their place."""
        if not (self._can_ask or program or self._answer):
            what = "There is nobody to ask: this run goes on without a person who could answer"
            raise NobodyToAsk(what, "Decide yourself and say what you assumed, or end and say what you need to know")

    def open(
        self, kind: QuestionKind, message: str, schema: dict[str, Any], call_id: str, program: Program | None = None
    ) -> str:
        """Log a new open question and return its id. ``program`` is asked before the person."""
        self._count += 1
        question = WaitingOnUser(kind, message, schema, f"q{self._count}", call_id)
        self._emit(QuestionAsked, question=question)
        self._open[question.id] = asyncio.get_running_loop().create_future()
        self._clock.hold()
        program = program or self._answer
        if program is not None:
            task = asyncio.ensure_future(self._ask_program(program, question))
            self._programs.add(task)
            task.add_done_callback(self._programs.discard)
            self._open[question.id].add_done_callback(lambda _: task.cancel())
        return question.id

    async def answer(self, question_id: str) -> Any:
        """Wait for the person's answer and return it; raises `Declined` if they decline."""
        answer = await self._open[question_id]
        self.check()
        if answer.declined:
            raise Declined("The person gave no answer", "Go on without it and say what you assumed")
        return answer.value

    def take(self, answer: Answer, by: Literal["person", "program"] = "person") -> None:
        """Log an answer and resolve its question; no-op if it comes too late or a second time."""
        future = self._open.get(answer.question_id)
        if future is None or future.done():
            return
        del self._open[answer.question_id]
        self._clock.release()
        with suppress(StoreError):  # kept: `answer` raises it to the tool
            value, declined = answer.value, answer.declined
            self._emit(QuestionAnswered, question_id=answer.question_id, answer=value, declined=declined, by=by)
        future.set_result(answer)

    def withdraw(self, question_id: str) -> None:
        """Withdraw an open question; no-op if it was answered."""
        future = self._open.pop(question_id, None)
        if future is not None:
            future.cancel()
            self._clock.release()
            self._emit(QuestionAnswered, question_id=question_id, withdrawn=True)

    async def _ask_program(self, program: Program, question: WaitingOnUser) -> None:
        """Take the program's answer. If it has none, the person is waited for; without a person, that is no answer."""
        answer = Answer(question.id, declined=True)
        try:
            value = await program(question)
            if value is None and self._can_ask:
                return
            if value is not None:
                answer = Answer(question.id, await asyncio.to_thread(checked_answer, question.schema, value))
        except Declined:
            pass
        except GeneratorExit:
            raise
        except BaseException as error:  # whatever it raises, the question must not stay open for ever
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and (task is None or task.cancelling()):
                raise
            words = encodable(f"{type(error).__name__}: {error}")
            with suppress(StoreError):  # kept: `answer` raises it
                self._emit(Warned, message=f"The function that answers for you failed, which counts as no answer ({words})")
        self.take(answer, "program")

    def _emit(self, kind: type[Event], **fields: Any) -> None:
        try:
            self._log.emit(kind, **fields)
        except StoreError as error:
            self._failure = error
            raise


class CallElicitor:
    """The questions of one tool call. The call's time limit is suspended while one is open."""

    # Defaults on the class, as an instance is made for each call and nearly all ask nothing.
    _open: tuple[str, ...] = ()
    _asks = 0
    """Questions being asked, including the open ones."""
    _over = False
    _since = 0.0
    _left: float | None = None
    """Seconds left of a suspended time limit."""
    limit: asyncio.Timeout | None = None
    """Time limit of the call."""
    waited = 0.0
    """Seconds spent waiting for the person."""

    def __init__(self, elicitation: Elicitation, call_id: str) -> None:
        self._elicitation = elicitation
        self._call_id = call_id
        self._loop = asyncio.get_running_loop()

    async def ask(self, message: str, schema: dict[str, Any] | None, kind: QuestionKind) -> Any:
        """Ask and await the answer, on any event loop."""
        if asyncio.get_running_loop() is not self._loop:
            return await asyncio.wrap_future(self._submit(message, schema, kind))
        return await self._ask(message, schema, kind)

    def ask_sync(self, message: str, schema: dict[str, Any] | None, kind: QuestionKind) -> Any:
        """Ask and block this thread until the answer, an interrupt or the end of the call."""
        if running_loop() is self._loop:
            raise SettingsError("ask_sync would hold up the event loop that brings the answer", "Write: await context.ask(...)")
        asked = self._submit(message, schema, kind)
        try:
            while not (asked.done() or self._over):
                concurrent.futures.wait([asked], timeout=TICK)
            return asked.result(timeout=TICK)
        except (concurrent.futures.CancelledError, TimeoutError):
            raise asyncio.CancelledError("The call has ended") from None  # not an Exception, which the tool might catch
        finally:
            asked.cancel()

    def close(self) -> None:
        """Withdraw open questions and refuse new ones: the call has ended, even if its tool still runs."""
        self._over = True
        for question_id in self._open:
            self._elicitation.withdraw(question_id)

    def _submit(self, message: str, schema: dict[str, Any] | None, kind: QuestionKind) -> concurrent.futures.Future[Any]:
        question = self._ask(message, schema, kind)
        try:
            return asyncio.run_coroutine_threadsafe(question, self._loop)
        except RuntimeError:  # the loop was closed: the run is over
            question.close()
            raise asyncio.CancelledError("The run has ended") from None

    async def ask_before(self, message: str, schema: dict[str, Any], program: Program | None) -> Any:
        """Ask whether the call may run, and await the answer. ``program`` is asked before the person."""
        return await self._ask(message, schema, "approval", program)

    async def _ask(
        self, message: str, schema: dict[str, Any] | None, kind: QuestionKind, program: Program | None = None
    ) -> Any:
        self._elicitation.check_anybody(program)
        if not isinstance(message, str) or not message.strip():
            raise SettingsError(f"{message!r} is no question", 'Write: context.ask("...")')
        if kind not in KINDS:
            raise SettingsError(f"{kind!r} is no kind of question", near(str(kind), KINDS))
        with self._clock_stopped():
            # Off the loop: its library is slow to load.
            plain = TEXT if schema is None else await asyncio.to_thread(checked_schema, schema)
            if self._over:
                raise asyncio.CancelledError("The call has ended")
            question_id = self._elicitation.open(kind, encodable(message), plain, self._call_id, program)
            self._open = (*self._open, question_id)
            try:
                return await self._elicitation.answer(question_id)
            finally:
                self._open = tuple(one for one in self._open if one != question_id)
                self._elicitation.withdraw(question_id)

    @contextmanager
    def _clock_stopped(self) -> Iterator[None]:
        self._asks += 1
        if self._asks == 1:
            self._stop_clock()
        try:
            yield
        finally:
            self._asks -= 1
            if not self._asks:
                self._start_clock()

    def _stop_clock(self) -> None:
        self._since = perf_counter()
        when = self.limit.when() if self.limit is not None else None
        self._left = None if when is None else when - self._loop.time()
        self._set_limit(None)

    def _start_clock(self) -> None:
        self.waited += perf_counter() - self._since
        if self._left is not None:
            self._set_limit(self._loop.time() + self._left)

    def _set_limit(self, when: float | None) -> None:
        if self.limit is not None:
            with suppress(RuntimeError):  # it has expired, or the call has just ended
                self.limit.reschedule(when)
