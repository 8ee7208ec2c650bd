"""Elicitation: asks the person about a tool call, or during one, and returns their answer."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import Token
from pathlib import Path
from typing import Any, Self, TypeVar

from msgspec.structs import replace

from agentnb.core.forks import after_fork
from agentnb.core.log.events import Warned
from agentnb.core.messages import JsonObject, ToolCall, encodable
from agentnb.core.questions import ASK_PERSON, Answer, QuestionKind, WaitingOnUser, answer_of, new_question
from agentnb.core.run.approvals import check_answer_to, judged_call
from agentnb.errors import Declined, NobodyToAsk, QuestionCancelled, SettingsError, StoreError
from agentnb.policies.permissions.gate import Confirms, confirms_nothing
from agentnb.policies.permissions.run_permissions import Permissions
from agentnb.runtime.clock import Clock
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.questions.answerers import Approve, Program, QuestionSuspended, value_of
from agentnb.runtime.questions.call_clock import CallClock
from agentnb.runtime.questions.current_call import current_call
from agentnb.runtime.questions.grants import ReachingGrants, SessionGrants, check_saving
from agentnb.runtime.questions.model_code import ModelCode
from agentnb.runtime.questions.question_book import QuestionBook
from agentnb.runtime.questions.question_ids import QuestionIds
from agentnb.runtime.threads import Work, is_cancelling, is_running, running_loop, wait_until_over
from agentnb.tools.tool import CallServices, Tool, asker_name

T = TypeVar("T")
NOBODY = (
    "No person is attached to this run",
    "Decide yourself and state your assumptions, or end and say what you need to know",
)
GRACE = 1.0
"""Seconds allowed for a stop to reach a nested run whose question was withdrawn."""


class Elicitation:
    """The open questions of one run, and the futures for their answers. Used on the run's event loop."""

    def __init__(
        self,
        log: EventLog,
        *,
        can_ask: bool,
        clock: Clock | None = None,
        answer: Program | None = None,
        approve: Approve | None = None,
        permissions: Permissions | None = None,
        confirms: Confirms = confirms_nothing,
        parent: CallElicitor | None = None,
        grants: SessionGrants | None = None,
        work_dir: Path | None = None,
    ) -> None:
        """``can_ask``: whether the caller has a handle for answering the run's questions; ``clock``: the run's, paused while a
        question is open; ``answer``: answers in the person's place; ``approve``: decides in their place whether a call may run;
        ``permissions``: the run's permissions; ``confirms``: as for `PermissionGate`; ``parent``: the call of another run that
        awaits this run; that run's person is asked if this run has none; ``grants``: the session's grants; ``work_dir``: the
        folder whose saved rules also apply.
        """
        self.suspends = False
        """True if the run is suspended wherever a question has to wait."""
        outer = () if parent is None else parent.elicitation.approvers
        self.approvers: tuple[Approve | None, ...] = (*outer, approve)
        """Approve functions of the runs around this one and of this run itself, outermost first, or None for a run
        without one.
        """
        self.permissions = permissions or Permissions()
        self.confirms = confirms
        self._log = log
        self.around = parent
        """The call of another run that awaits this run; output that is not shown with this run's calls is shown with
        that call.
        """
        self._can_ask = can_ask
        self._answer = answer
        self._parent = parent if not (can_ask or answer) and parent is not None and parent.elicitation.has_anybody else None
        prefix = "" if parent is None else parent.names or f"{log.id[-8:]}-"
        ids = QuestionIds(prefix, log.run.events, None if parent is None else parent.elicitation.book.ids)
        around = None if parent is None else parent.elicitation.grants
        self.grants: ReachingGrants = ReachingGrants(log, around, grants, work_dir)
        self.book: QuestionBook = QuestionBook(log, ids, self.grants)
        self._programs: dict[asyncio.Task[None], None] = {}
        """Tasks that answer in the person's place, since the event loop holds only weak references to tasks."""
        self._clock = clock or Clock()
        self._open: dict[str, asyncio.Future[Answer]] = {}
        self._may_wait: tuple[str, ...] = ()
        """Ids of questions that may stay open when the run is suspended."""
        self.codes: tuple[ModelCode, ...] = ()
        """Models' code run by calls of this run and its nested runs."""
        self.is_closed = False
        """True while the run is ending; further questions are refused."""
        self.wait_while_paused: Callable[[], Awaitable[None]] | None = None
        """Delays questions while the run is paused in mid-round, or None if a pause takes effect at the next round."""

    @property
    def permissions_of_nested(self) -> Permissions:
        """The current permissions of this run; nested runs cannot exceed them."""
        return self.permissions.confirming(self.confirms(self._log.run.contexts))

    @contextmanager
    def held(self) -> Iterator[None]:
        """Pause the clock of the run, and those of the runs and calls that await it."""
        with self._around_held():
            self._clock.hold()
            try:
                yield
            finally:
                self._clock.release()

    @contextmanager
    def _around_held(self) -> Iterator[None]:
        """Pause the clocks of the runs and calls that await this run."""
        around: concurrent.futures.Future[None] | None = None
        if self.around is not None:
            with suppress(NobodyToAsk, asyncio.CancelledError):  # the parent run has ended
                around = self.around.hold()
        try:
            yield
        finally:
            if around is not None:
                around.cancel()

    @property
    def has_anybody(self) -> bool:
        """True if there is a person to answer, or a program in their place."""
        parent = self._parent
        return self._can_ask or self._answer is not None or (parent is not None and parent.elicitation.has_anybody)

    def check_anybody(self, program: Program | None = None) -> None:
        """Raise `NobodyToAsk` if the run has neither a person to answer, nor a program in their place."""
        if not (self.has_anybody or program):
            raise NobodyToAsk(*NOBODY)

    async def wait_for(self, question: WaitingOnUser, program: Program | None = None, *, may_wait: bool = False) -> Answer:
        """Return the answer to a question that is open in the log. ``program`` is asked before the person."""
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._open[question.id] = future
        self._clock.hold()
        if may_wait:
            self._may_wait = (*self._may_wait, question.id)
        program = program or self._answer
        if program is not None or self._parent is not None:
            task = asyncio.ensure_future(self._answer_from_elsewhere(program, question))
            self._programs[task] = None
            task.add_done_callback(self._programs.pop)
            future.add_done_callback(lambda _: task.cancel())
        answer = await future
        self.book.check()
        return answer

    def take(self, answer: Answer) -> None:
        """Log an answer and resolve its question; no-op for an answer that is late or not the first."""
        future = self._open.get(answer.question_id)
        if future is None and self.book.is_open(answer.question_id):
            self.book.handed_in[answer.question_id] = answer  # a resumed run that has not reached this question yet
        if future is None or future.done():
            return
        del self._open[answer.question_id]
        self._clock.release()
        with suppress(StoreError):  # kept: `wait_for` raises it to the tool
            self.book.answer(answer)
        future.set_result(answer)

    def leave_to_parent(self) -> None:
        """Stop asking, here and in the parent runs: this process was forked, and the person is attached to the parent
        process.
        """
        self._can_ask, self._answer, self._parent = False, None, None
        if self.around is not None:
            self.around.leave_to_parent()

    def withdraw(self, question_id: str) -> None:
        """Withdraw a question that is awaited here; no-op if it was answered."""
        future = self._open.pop(question_id, None)
        if future is not None:
            future.cancel()
            self._clock.release()
            self.book.withdraw(question_id)

    def close(self) -> None:
        """Withdraw all open questions and refuse new ones: the run is ending, although a call may still be running."""
        self.is_closed = True
        for question_id in tuple(self._open):
            self.withdraw(question_id)

    def end_code(self) -> None:
        """Release the models' code that ran in this run, since the run and its parents have ended."""
        for code in self.codes:
            code.is_over = True
        self.codes = ()

    def leave(self) -> None:
        """Stop asking. Questions that may wait stay open; askers of the others get `NobodyToAsk`."""
        self._can_ask = False
        for question_id in tuple(self._open):
            self._leave(question_id)

    def _leave(self, question_id: str) -> None:
        if question_id in self._may_wait:
            self.leave_open(question_id)
        elif (future := self._open.pop(question_id, None)) is not None and not future.done():
            future.set_exception(NobodyToAsk(*NOBODY))
            self._clock.release()
            self.book.withdraw(question_id)

    def leave_open(self, question_id: str) -> None:
        """Stop awaiting the answer to an open question; its asker gets `QuestionSuspended`. No-op if it was answered."""
        future = self._open.pop(question_id, None)
        if future is not None and not future.done():
            future.set_exception(QuestionSuspended())
            self._clock.release()

    async def _answer_from_elsewhere(self, program: Program | None, question: WaitingOnUser) -> None:
        """Take the answer of the program or, without a program, of the person: this run's, or else the parent run's."""
        answer, own_task = Answer(question.id, declined=True, by="program"), asyncio.current_task()
        try:
            value = None
            if program is not None:
                with self._around_held():  # a forwarded question pauses them itself
                    value = await program(question)
            if value is not None:
                value = check_answer_to(question, value)
                check_saving(question, value, by="program")
                answer = answer_of(question.id, value, by="program")
            elif self._can_ask:
                return
            elif self._parent is not None:
                answer = await self._forward_to_parent(self._parent, question)
        except QuestionCancelled:
            answer = answer._replace(cancelled=True)
        except Declined:
            pass
        except (NobodyToAsk, QuestionSuspended):  # the parent run's person has left
            self._leave(question.id)
            return
        except BaseException as error:  # on any failure: the question must not stay open for ever
            if isinstance(error, GeneratorExit) and not is_running(own_task):
                raise  # this coroutine is closed
            if isinstance(error, asyncio.CancelledError) and is_cancelling():
                raise
            words = encodable(f"{type(error).__name__}: {error}")
            with suppress(StoreError):  # kept: `wait_for` raises it
                self.book.emit(
                    Warned, message=f"The function that answers for you failed, so the question counts as unanswered ({words})"
                )
            answer = answer._replace(failed=True)
        self.take(answer)

    async def _forward_to_parent(self, parent: CallElicitor, question: WaitingOnUser) -> Answer:
        """Return the answer of the parent run's person; raises `Declined` if the call that awaits this run has ended."""
        try:
            return await parent.forward(question, may_wait=question.id in self._may_wait)
        except asyncio.CancelledError:
            if is_cancelling():
                raise
            await asyncio.sleep(GRACE)  # a stop of the parent run arrives here too, and should find this run idle
            raise Declined("The call that awaited this run has ended") from None


class CallElicitor(CallClock):
    """Asks the questions of one tool call; its time limit is suspended while a question is open."""

    # Class defaults, since there is an instance for each call and most ask no question.
    _open: tuple[str, ...] = ()
    _inner: tuple[CallElicitor, ...] = ()
    """Elicitors of the calls that its tool makes."""
    _over = False
    _is_of_parent = False
    """True if the call was made in the process from which this one was forked."""
    inside: CallServices | None = None
    """Receives the output of the call, or None outside tool calls."""
    tool: Tool | None = None
    """Tool of the call, or None outside tool calls."""
    call: ToolCall | None = None
    """The call, or None outside tool calls."""
    asked_by: str = ""
    """Name of the asker, shown to the person; empty if it is the call's tool, or the party that the tool represents."""
    names: str = ""
    """Prefix of the question ids of runs that the call awaits; if empty, the prefix is the run's id."""
    worker: Work | None = None
    """The plain function of the call, if it runs in a worker thread."""
    may_wait = False
    """True if its unanswered questions stay open, so that the call is made again when the run is resumed."""
    is_suspended = False
    """True if one of its questions stays open and the run is suspended."""
    _before: Token[CallElicitor | None]

    def __init__(self, elicitation: Elicitation, call_id: str) -> None:
        """Link to the call whose tool makes this call: its time limit is also suspended while this call asks."""
        self.elicitation = elicitation
        outer = current_call.get()
        if outer is not None and outer.elicitation is elicitation:
            self._outer = outer
            outer._inner = (*outer._inner, self)
        self._call_id = call_id
        self._loop = asyncio.get_running_loop()

    def __enter__(self) -> Self:
        """Begin the call: questions during it use this elicitor."""
        self._before = current_call.set(self)
        return self

    def __exit__(self, *_: object) -> None:
        """End the call: withdraw open questions and refuse new ones."""
        try:  # noqa: SIM105  # in every call: `suppress` would take longer
            current_call.reset(self._before)
        except ValueError:  # a run that was not awaited is closed from another context
            pass
        self._over = True
        if self._open or self._inner:
            self.close()

    async def ask(self, message: str, schema: JsonObject | None, kind: QuestionKind, url: str = "") -> Any:
        """Ask, and await the answer on any event loop."""
        return await self._on_loop(self._ask(message, schema, kind, url))

    async def forward(self, question: WaitingOnUser, *, may_wait: bool) -> Answer:
        """Ask the person a question from a run that the call awaits, on any event loop; ``may_wait`` as in `ask_question`."""
        return await self._on_loop(self._forward(question, may_wait=may_wait))

    def begin_code(self) -> ModelCode:
        """Return a `ModelCode` for code that the call is about to run."""
        code, outermost = ModelCode(self), self.elicitation
        while outermost.around is not None:
            outermost = outermost.around.elicitation
        outermost.codes = (*outermost.codes, code)
        return code

    def began(self, run_id: str, agent: str) -> None:
        """Record a nested run started by the call, from any thread."""
        if self.inside is not None:
            self.inside.note_start(self._call_id, run_id, agent)

    def note_print(self, text: str) -> bool:
        """Record output with the call, from any thread; return False if it belongs elsewhere."""
        if self.inside is not None and self.inside.note_print(self._call_id, text):
            return True
        around = self.elicitation.around
        return around is not None and around.note_print(text)

    @property
    def call_id(self) -> str:
        """Id of the call."""
        return self._call_id

    def ask_sync(self, message: str, schema: JsonObject | None, kind: QuestionKind, url: str = "") -> Any:
        """Ask, and block this thread until an answer, an interrupt or the end of the call."""
        if running_loop() is self._loop:
            raise SettingsError("ask_sync would block the event loop that delivers the answer", "Use await context.ask(...)")
        return wait_until_over(self._submit(self._ask(message, schema, kind, url)), lambda: self._over)

    def check_person(self) -> None:
        """Raise `NobodyToAsk` if nobody could answer questions while the call runs."""
        if self.may_wait:
            raise NobodyToAsk(*NOBODY)
        self.elicitation.check_anybody()

    def hold(self) -> concurrent.futures.Future[None]:
        """Pause the clocks of the call and its run until the future is cancelled: a run that the call awaits is paused."""
        return self._submit(self._held())

    async def _held(self) -> None:
        with self.suspend_limit(), self.elicitation.held():
            await asyncio.get_running_loop().create_future()

    def close(self) -> None:
        """Withdraw open questions and refuse new ones, since the call has ended, even if its tool is still running."""
        self._over = True
        inner_calls, self._inner = self._inner, ()
        for inner in inner_calls:
            inner.close()
        for question_id in self._open:
            self.elicitation.withdraw(question_id)

    def leave_to_parent(self) -> None:
        """Stop asking: this process was forked, and the call's event loop is in the parent process."""
        self._is_of_parent = True
        self.elicitation.leave_to_parent()

    async def _on_loop(self, question: Coroutine[Any, Any, T]) -> T:
        """Await the question on the event loop of the run."""
        if asyncio.get_running_loop() is self._loop:
            return await question
        return await asyncio.wrap_future(self._submit(question))

    def _submit(self, question: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        if self._is_of_parent:
            question.close()
            raise NobodyToAsk(*NOBODY)
        try:
            return asyncio.run_coroutine_threadsafe(question, self._loop)
        except RuntimeError:  # the loop was closed: the run is over
            question.close()
            raise asyncio.CancelledError("The run has ended") from None

    async def ask_question(self, question: WaitingOnUser, program: Program | None = None, *, may_wait: bool = False) -> Any:
        """Return the answer to a question, whether new or asked by an earlier process; raises `Declined` if there is no answer.

        ``program`` is asked before the person. With ``may_wait``, an unanswered question stays open and
        `QuestionSuspended` is raised; otherwise `NobodyToAsk`.
        """
        book = self.elicitation.book
        with self.suspend_limit():
            earlier = book.take(question)
            if earlier is not None and earlier.has_answer:
                return value_of(earlier.as_answer())
            asked_as = "" if earlier is None else earlier.question.id
            handed_in = book.handed_in.pop(asked_as, None)
            new_id = asked_as if book.is_open(asked_as) else book.ids.new()
            question = replace(question, id=new_id)
            try:
                if handed_in is None:
                    self.elicitation.check_anybody(program)
            except NobodyToAsk:
                if not may_wait:
                    raise
                book.keep(question)
                raise QuestionSuspended from None
            return value_of(await self._answer(question, program, handed_in, may_wait=may_wait))

    async def _ask(self, message: str, schema: JsonObject | None, kind: QuestionKind, url: str) -> Any:
        asked_by = self.asked_by or ("" if self.tool is None else asker_name(self.tool))
        call = None if self.call is None or self.call.name == ASK_PERSON else judged_call(self.call, "")
        question = new_question(kind, message, schema, self._call_id, asked_by=asked_by, url=url, caller=call)
        try:
            return await self.ask_question(question, may_wait=self.may_wait)
        except QuestionSuspended:
            self.is_suspended = True
            raise

    async def _forward(self, question: WaitingOnUser, *, may_wait: bool) -> Answer:
        self.elicitation.check_anybody()
        with self.suspend_limit():
            forwarded = replace(question, call_id=self._call_id)
            handed_in = self.elicitation.book.handed_in.pop(forwarded.id, None)
            return await self._answer(forwarded, None, handed_in, may_wait=may_wait)

    async def _answer(
        self, question: WaitingOnUser, program: Program | None, handed_in: Answer | None, *, may_wait: bool
    ) -> Answer:
        """Return the answer to a question, supplied on resumption or given by the person; withdraw the question if
        cancelled.
        """
        if (wait_while_paused := self.elicitation.wait_while_paused) is not None:
            await wait_while_paused()
        if self._over or self.elicitation.is_closed:
            raise asyncio.CancelledError("The call has ended")
        self.elicitation.book.keep(question)
        if handed_in is not None:
            self.elicitation.book.answer(handed_in._replace(question_id=question.id))
            return handed_in
        self._open = (*self._open, question.id)
        try:
            return await self.elicitation.wait_for(question, program, may_wait=may_wait)
        finally:
            self._open = tuple(open_id for open_id in self._open if open_id != question.id)
            self.elicitation.withdraw(question.id)


def _leave_to_parent() -> None:
    call = current_call.get()
    if call is not None:
        call.leave_to_parent()


after_fork(_leave_to_parent)
