"""A handle on a live run."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Generator, Iterable
from concurrent.futures import Future, wait
from typing import Any
from weakref import WeakSet

from agentnb.advice import Advised, AnswerRun
from agentnb.core.forks import after_fork
from agentnb.core.inbox import INTERRUPTED, Inbox
from agentnb.core.log.work_events import GrantGiven
from agentnb.core.questions import Answer, Answerer, NoAnswer, WaitingOnUser, answer_in_words, answer_of
from agentnb.core.run.approvals import check_answer_to, waiting_for_approval
from agentnb.detect.agent_runs import how_to_continue, works_in_steps
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.runtime.host.process_end import NOTICE, process_end
from agentnb.runtime.questions.grants import check_saving, is_copy
from agentnb.runtime.questions.model_code import check_person, giver
from agentnb.runtime.threads import AwakeForInterrupts
from agentnb.runtime.workers.foreground import Foreground


class LiveRun:
    """A run in the background: look at ``run`` while it grows, steer it, ``await`` its end.

    All methods except `result` and `wait_in_foreground` return at once, and may be called from any thread and any
    cell. Methods that speak for the person, such as `answer`, raise `SettingsError` if called by a model's code.
    """

    def __init__(
        self,
        run_id: str,
        run: Run,
        inbox: Inbox,
        future: Future[Run],
        board: Any = None,
        foreground: Foreground | None = None,
        events_before: int = 0,
        is_kept: bool = False,
    ) -> None:
        self.run_id = run_id
        self.run = run
        self.board = board
        """The todo list, which you may change too: a `TodoBoard`, the agent's own board, or None."""
        self.events_before = events_before
        """Number of events logged by an earlier process, for a resumed run."""
        self._inbox = inbox
        self._future = future
        self._foreground = foreground
        self._is_kept = is_kept
        self._answered: set[str] = set()
        self._withdrawn: set[str] = set()
        _live_runs.add(self)

    @property
    def done(self) -> bool:
        """True once it has ended and its log is closed."""
        return self._future.done()

    def stop(self, why: str = "") -> None:
        """End the run now: open calls are answered as cancelled, and the work so far is kept. No-op if it has ended.

        A plain tool on the main thread that waits for the run gets a KeyboardInterrupt; the code that waits for it
        gets the run.
        """
        if self._foreground is not None:
            self._foreground.refuse_tools()  # first: the run may end before the next line, and give up this very tool
        if not self.done:
            self._inbox.put("stop", why)
        if self._foreground is not None:  # also after the end: an abandoned tool may still hold the thread
            self._foreground.end_tool()

    def pause(self) -> None:
        """Pause the run before its next round."""
        self._put("pause")

    def resume(self) -> None:
        """Continue a paused run."""
        check_person("Resuming a run")
        self._put("resume")

    def suspend(self, *, nobody_here: bool = False) -> None:
        """Suspend the run while a gate or a draft awaits your answer: its log is closed, and `recover` resumes it
        with the answer.

        Running calls end first. ``nobody_here``: whether it is suspended because nobody can answer here, rather than
        by your decision. Raises `SettingsError` if no gate or draft awaits an answer, or if no store keeps the log.
        """
        waiting = waiting_for_approval(self.run)
        unanswered = [question.id for question in waiting if question.id not in self._answered]
        if not unanswered:
            raise SettingsError(f"Run {self.run_id} is not waiting for approval", "To hold it: live.pause()")
        if not self._is_kept:
            raise SettingsError(
                f"Run {self.run_id} is in memory only", "To suspend runs, store them: RunOptions(store=Store(FOLDER))"
            )
        self._answered.update(unanswered)
        self._put("suspend", "nobody_here" if nobody_here else "asked")

    def leave(self) -> None:
        """Note that nobody can answer here any longer: a run with steps is suspended at the point where it waits for
        an answer.
        """
        self._put("suspend", "nobody_here")

    def say(self, text: str, *, now: bool = False) -> None:
        """Send the model a message for its next round; an external agent gets it as its next prompt.

        ``now``: an external agent ends its turn at once, and its open questions are declined. Raises `SettingsError` if
        the message is blank, or if the run is a workflow, which does not read messages.
        """
        if not text.strip():
            raise SettingsError("The message is empty", "For example: live.say(TEXT)")
        check_person("Speaking to a run")
        if works_in_steps(self.run):
            raise SettingsError(
                f"Run {self.run_id} is a {self.run.kind}, which does not accept messages", "To change it, stop it"
            )
        for question in self.run.waiting if now else ():
            self.decline(question.id)
        self._put("say", text, now=now)

    def answer(self, value: Any, question_id: str | None = None) -> None:
        """Answer an open question of the run, one of ``run.waiting``; the oldest by default.

        ``value`` may be a `NoAnswer`. Raises `SettingsError` if there is no such question, or if the value does not
        match its schema.
        """
        question = self._question(question_id)
        value = check_answer_to(question, value)
        check_saving(question, value)
        self._put_answer(answer_of(question.id, value))

    def answer_in_words(self, text: str, question_id: str | None = None) -> None:
        """Like `answer`, but with typed text: free text, one of the choices, yes or no, or JSON, as the question requires."""
        question = self._question(question_id)
        self.answer(answer_in_words(question.schema, text), question.id)

    def decline(self, question_id: str | None = None, *, nobody_here: bool = False) -> None:
        """Decline a question; the tool that asked gets `Declined`. ``nobody_here``: whether that is because nobody
        can answer it here.
        """
        by: Answerer = "nobody" if nobody_here else "person"
        self._put_answer(answer_of(self._question(question_id).id, NoAnswer.DECLINE, by))

    def cancel_question(self, question_id: str | None = None) -> None:
        """Close a question without a decision; the tool that asked gets `QuestionCancelled`, a kind of `Declined`."""
        self._put_answer(answer_of(self._question(question_id).id, NoAnswer.CANCEL))

    def withdraw(self, grant_id: str) -> None:
        """Withdraw a permanent grant of this run, one of ``run.grants``: such calls need approval again.

        Raises `SettingsError` if there is no such grant, or if it was given for the session or in the parent run.
        """
        check_person("Withdrawing a grant")
        own = [grant.grant_id for grant in self.grants]
        if grant_id not in own:
            raise SettingsError(f"Run {self.run_id} has no grant {grant_id!r}", f"Its grants: {', '.join(own) or 'none'}")
        self._withdrawn.add(grant_id)
        self._put("withdraw", grant_id)

    @property
    def grants(self) -> list[GrantGiven]:
        """Grants given in this run, except those being withdrawn."""
        return [grant for grant in self.run.grants if not is_copy(grant) and grant.grant_id not in self._withdrawn]

    def result(self, timeout: float | None = None) -> Run:
        """Block until the run has ended and return it; raises TimeoutError after ``timeout`` seconds."""
        return self._future.result(timeout)

    def wait_in_foreground(self) -> Run:
        """Wait for the end, while the calling thread runs the plain tools passed to the run's foreground.

        An interrupt stops the run and, once its log is closed, raises `RunInterrupted`, a KeyboardInterrupt.
        """
        assert self._foreground is not None, "the run was started with a foreground"
        return self._foreground.wait(self._future, self._interrupt)

    def _interrupt(self) -> None:
        """Stop the run. If an approval is pending, wait first: if the kernel is about to end, the run is suspended instead."""
        if process_end.is_watched and self._is_kept and waiting_for_approval(self.run):
            later = threading.Timer(NOTICE, self._inbox.put, ("stop", INTERRUPTED))
            later.daemon = True
            later.start()
        else:
            self._inbox.put("stop", INTERRUPTED)

    def __await__(self) -> Generator[Any, None, Run]:
        return self._wait().__await__()

    async def _wait(self) -> Run:
        with AwakeForInterrupts():
            return await asyncio.shield(asyncio.wrap_future(self._future))

    def __repr__(self) -> str:
        return f"<LiveRun {self.run_id} {self.run.status}>"

    def _put(self, name: Any, text: str = "", *, now: bool = False) -> None:
        if self.done:
            raise SettingsError(f"Run {self.run_id} has ended ({self.run.stop_reason})", how_to_continue(self.run))
        self._inbox.put(name, text, now=now)

    def _question(self, question_id: str | None) -> WaitingOnUser:
        """Return the oldest open question, or the question with this id. Questions answered but not yet logged do not count."""
        waiting = [question for question in self.run.waiting if question.id not in self._answered] if not self.done else []
        match = next((question for question in waiting if question_id in (None, question.id)), None)
        if match is None:
            problem = "is not waiting for an answer" if question_id is None else f"has no open question {question_id}"
            hint: Advised = f"Open: {', '.join(question.id for question in waiting)}" if waiting else ""
            if self.run.is_suspended and self._is_kept:
                hint = AnswerRun(self.run_id, lead="It is suspended", rest=" resumes it")
            raise SettingsError(f"Run {self.run_id} {problem}", hint)
        return match

    def _put_answer(self, answer: Answer) -> None:
        check_person("Answering a question")
        self._answered.add(answer.question_id)
        self._inbox.put("answer", answer=answer._replace(granted_by=giver()))


def wait_for_ends(lives: Iterable[LiveRun], seconds: float) -> None:
    """Wait until these runs have ended, for at most ``seconds`` in total."""
    wait([live._future for live in lives], seconds)


_live_runs: WeakSet[LiveRun] = WeakSet()


def _leave_to_parent() -> None:
    for live in list(_live_runs):
        if not live.done:
            ended: Future[Run] = Future()
            ended.set_exception(SettingsError(f"Run {live.run_id} is running in the parent process", "Wait for it there"))
            live._future = ended


after_fork(_leave_to_parent)
