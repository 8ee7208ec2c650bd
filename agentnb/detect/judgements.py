"""Judgements about a run: a fold that receives each event after the run itself, and keeps what policies query.

Its state is bounded, whatever the length of the run. It counts and compares; policies and detectors set the thresholds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from agentnb.core.log import events as e
from agentnb.core.run.call_window import call_key
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import DUPLICATE, CallRecord, TodoViolation, WorkflowRound
from agentnb.core.todos import Todo, all_open_are_blocked, has_one_in_progress, has_open, newly_completed, open_todos
from agentnb.core.view import with_item
from agentnb.detect.answer_similarity import Answers
from agentnb.detect.guidance_rules import CELLS, RoundFacts, judge
from agentnb.detect.tool_failures import ToolFailures

UNTRACKED_WORK = "work_without_todo_in_progress"
UNTRACKED_COMPLETION = "completed_without_in_progress"
TODO_VIOLATIONS = frozenset({UNTRACKED_WORK, UNTRACKED_COMPLETION})
MATRIX_CELLS = "cells"
"""Key under which `Judgements.ignored` counts the four cells together."""


MAX_COMPARED = 4_000
"""Maximum number of characters of a result that are searched for words found in the answer."""
_WORDS = re.compile(r"\w*\d\w*|\w{4,}")
AFTER_TOOLS = "tool_results"
"""Reason for a round that merely follows tool results; not counted, because no decision was made."""


class ReasonCounts(msgspec.Struct, gc=False):
    """Counts of rounds, by the policy's reason for them."""

    in_run: dict[str, int] = {}
    since_progress: dict[str, int] = {}
    """Counts since a work tool ran, the model completed a todo, or the person spoke."""
    since_call: dict[str, int] = {}
    """Counts since the model last called a tool, or the person spoke."""

    def count(self, reason: str) -> None:
        """Count a round."""
        for counts in (self.in_run, self.since_progress, self.since_call):
            counts[reason] = counts.get(reason, 0) + 1


class Judgements(msgspec.Struct, gc=False):
    """Judgements about the rounds of a run so far. Only `Run.apply` changes them."""

    reasons: ReasonCounts = msgspec.field(default_factory=ReasonCounts)
    ignored: dict[str, int] = {}
    """Consecutive times that guidance was not followed, by cell; unknown outcomes do not count. The four cells of the matrix
    count together, as `MATRIX_CELLS`.
    """
    planning_only: int = 0
    """Number of rounds, since work was last done, with only planning calls and no completed todo. Text-only rounds neither
    count nor reset."""
    planning_since: int = 0
    """Index of the first of these rounds, or of the last round with calls if there are none."""
    repeated: int = 0
    """Repeated answers since the person last spoke."""
    all_blocked: int = 0
    """Number of consecutive rounds whose calls were all blocked as duplicates."""
    blocked_since: int = 0
    """Index of the first of these rounds, or of the last round with calls if there are none."""
    same_batch: int = 0
    """Number of consecutive rounds with exactly the calls of the previous round."""
    called: bool = False
    """True if the last finished round called tools."""
    said_before: int | None = None
    """Index of the round whose answer the last finished round repeats, if any."""
    failures: ToolFailures = msgspec.field(default_factory=ToolFailures)
    """Counts of failing tools."""
    _answers: Answers = msgspec.field(default_factory=Answers)
    _batch: Sequence[tuple[str, bytes]] = ()
    _todos: tuple[Todo, ...] = ()
    _todos_begun: frozenset[tuple[int, str]] = frozenset()
    _todos_before: Sequence[tuple[int, tuple[Todo, ...]]] = ()
    """For each list change in the open round, the position of its call in the reply, and the list before the change."""
    _work_since_mark: bool = False
    """True if work ran since the model last completed or blocked a todo."""

    @property
    def ignored_cells(self) -> int:
        """Number of consecutive times that guidance of the four cells was not followed."""
        return self.ignored.get(MATRIX_CELLS, 0)

    def since_progress(self, reasons: Iterable[str]) -> int:
        """Return the number of rounds with these reasons since a work tool ran, a todo was completed, or the person spoke."""
        return _count_of(self.reasons.since_progress, reasons)

    def since_call(self, reasons: Iterable[str]) -> int:
        """Return the number of rounds with these reasons since the model last called a tool, or the person spoke."""
        return _count_of(self.reasons.since_call, reasons)

    def _count_calls(self, run_round: WorkflowRound, worked: bool) -> None:
        is_work, blocked = worked, True
        for record in run_round.records:  # a plain loop: it runs in every round
            is_work = is_work or record.role == "work"
            blocked = blocked and record.result is not None and record.result.error_code == DUPLICATE
        self.planning_only = 0 if is_work or run_round.completed else self.planning_only + 1
        self.all_blocked = self.all_blocked + 1 if blocked else 0
        if self.planning_only <= 1:
            self.planning_since = run_round.index
        if self.all_blocked <= 1:
            self.blocked_since = run_round.index
        if worked:
            self.reasons.since_progress.clear()
        self.reasons.since_call.clear()

    def _count_batch(self, run_round: WorkflowRound) -> None:
        # The call window handles a single call.
        batch = sorted([call_key(record.call) for record in run_round.records]) if len(run_round.records) > 1 else ()
        if run_round.records:
            self.same_batch = self.same_batch + 1 if batch and batch == self._batch else 0
        self._batch = batch


def _count_of(counts: dict[str, int], reasons: Iterable[str]) -> int:
    return sum([counts.get(reason, 0) for reason in reasons]) if counts else 0


def _run_started(self: Judgements, event: e.RunStarted, run: RunFacts) -> None:
    self._todos = event.todos
    if event.todos:
        _note_begun(self)


def _round_started(self: Judgements, event: e.RoundStarted, run: RunFacts) -> None:
    if event.reason != AFTER_TOOLS:
        self.reasons.count(event.reason)
    self._todos_before = ()


def _tool_finished(self: Judgements, event: e.ToolFinished, run: RunFacts) -> None:
    if self._todos or self._todos_before:
        _check_tracked(self, run, event.result.call_id)


def _check_tracked(self: Judgements, run: RunFacts, call_id: str) -> None:
    """Record work that ran while no todo was in progress.

    Uses the list as it was at the call's position in the reply, since parallel calls all run after the todo tool.
    """
    records, position = run.last_round.records, run.place_of_call(call_id)
    if position is None:
        return
    todos = next((before for changed_at, before in self._todos_before if changed_at > position), run.todos)
    if records[position].is_work and records[position].ran and has_open(todos) and not has_one_in_progress(todos):
        _add_violation(run, TodoViolation(UNTRACKED_WORK, call_id))


def _add_violation(run: RunFacts, violation: TodoViolation) -> None:
    run.annotate(todo_violations=with_item(run.last_round.todo_violations, violation))


def _todos_changed(self: Judgements, event: e.TodosChanged, run: RunFacts) -> None:
    before, self._todos = self._todos, event.todos
    if event.by == "model" and run.rounds:
        self._todos_before = with_item(self._todos_before, (run.place_of_call(event.call_id) or 0, before))
        for todo in newly_completed(before, event.todos):
            if todo.identity not in self._todos_begun:
                _add_violation(run, TodoViolation(UNTRACKED_COMPLETION, event.call_id, todo.id))
    self._todos_begun &= {todo.identity for todo in event.todos}
    _note_begun(self)


def _note_begun(self: Judgements) -> None:
    self._todos_begun |= {todo.identity for todo in self._todos if todo.status == "in-progress"}


def _round_finished(self: Judgements, event: e.RoundFinished, run: RunFacts) -> None:
    finished = run.last_round
    records, said_before = finished.records, None
    self.called = records != ()
    worked = self.called and finished.worked
    if not records and finished.reply is not None:
        said_before = self._answers.add(finished.index, finished.text)
    self.said_before = said_before
    if finished.guidance:
        _judge_guidance(self, run, finished, worked)
    elif said_before is not None:
        run.annotate(said_before=said_before)
    self.failures.count_round(finished, self._todos)
    if records:
        self._work_since_mark = (
            _worked_since(self, finished) if finished.completed or finished.blocked else worked or self._work_since_mark
        )
        self._count_calls(finished, worked)
    if finished.completed:
        self.reasons.since_progress.clear()
    if said_before is not None:
        self.repeated += 1
    if len(records) > 1 or self._batch or self.same_batch:
        self._count_batch(finished)


def _worked_since(self: Judgements, run_round: WorkflowRound) -> bool:
    """True if any work was done after the last todo ended in this round."""
    return any(record.is_work and record.ran for record in run_round.records[self._todos_before[-1][0] :])


def _judge_guidance(self: Judgements, run: RunFacts, run_round: WorkflowRound, worked: bool) -> None:
    facts = _facts(self, run, run_round, worked)
    verdicts = []
    for guidance in run_round.guidance:
        failed_again = guidance.about and self.failures.failed_again(run_round, guidance.about)
        verdict = judge(guidance, replace(facts, failed_again=failed_again) if guidance.about else facts)
        verdicts.append(verdict)
        if verdict.followed is not None:
            cell = MATRIX_CELLS if guidance.cell in CELLS else guidance.cell
            self.ignored[cell] = 0 if verdict.followed else self.ignored.get(cell, 0) + 1
    run.annotate(followed=tuple(verdicts), said_before=self.said_before)


def _command_received(self: Judgements, event: e.CommandReceived, run: RunFacts) -> None:
    """Reset the consecutive counts when the person sends a message."""
    if event.person_message is None:
        return
    self.reasons.since_progress.clear()
    self.reasons.since_call.clear()
    self.ignored.clear()
    self.planning_only = self.repeated = self.all_blocked = self.same_batch = 0
    self.failures.person_spoke()
    self._batch = ()
    self._answers.clear()


def _facts(self: Judgements, run: RunFacts, run_round: WorkflowRound, worked: bool) -> RoundFacts:
    """Return the facts of a finished round; the counts still cover only the rounds before it."""
    failures, todos = self.failures, self._todos
    called, failed, repeats = self.called, bool(failures.tools), self.said_before is not None
    answered = not called and bool(run_round.text.strip())
    acted = worked_anew = False
    for record in run_round.records:  # a plain loop: it runs in every round
        if record.role == "work" and not _is_repeat(self, record, run_round, run):
            acted, worked_anew = True, worked_anew or record.ran
    begun, is_parallel, planned = _changes(self) if self._todos_before else (False, False, False)
    violations = run_round.todo_violations
    return RoundFacts(
        run_round.reply is not None and run_round.stop_reason != "broken_off",
        called,
        answered,
        worked,
        run_round.completed != (),
        run_round.blocked != (),
        bool(violations) and any(violation.rule == UNTRACKED_WORK for violation in violations),
        "complete" in run_round.signals,
        repeats,
        failed and failures.made_again(run_round),
        failed and failures.failed_again(run_round),
        failed and failures.completed_unfinished(run_round),
        answered and all_open_are_blocked(todos),
        acted=acted,
        worked_anew=worked_anew,
        marked=run_round.completed != () and (self._work_since_mark or worked),
        begun=begun and not is_parallel,
        begun_beside=is_parallel,
        planned=planned,
        named_failure=answered and failed and failures.mentions_failure(run_round.text),
        left_unfinished=answered and not failures.unfinished.isdisjoint(_in_progress(todos)),
        concluded=answered and not repeats and not has_open(todos),
        told_results=answered and not repeats and _uses_results(run_round, run),
    )


def _is_repeat(self: Judgements, record: CallRecord, run_round: WorkflowRound, run: RunFacts) -> bool:
    """True if a call was made in an earlier round with the same result, or blocked for that reason.

    While todos are open, a failure may be retried once, in a round after the next.
    """
    result, key = record.result, run.calls.key_of(record.call)
    if result is None:
        return False
    if result.error_code == DUPLICATE or (result.is_error and key in self.failures.calls):
        return True
    if run.calls.counts.get(key, 0) < 2 or (result.is_error and has_open(self._todos)):
        return False
    own = {call.call.id for call in run_round.records}
    before = (run.calls.results.get(call.call_id) for call in run.calls.executed if call.key == key and call.call_id not in own)
    return any(call is not None and (call.parts, call.is_error) == (result.parts, result.is_error) for call in before)


def _in_progress(todos: Iterable[Todo]) -> set[int]:
    return {todo.id for todo in todos if todo.status == "in-progress"}


def _uses_results(run_round: WorkflowRound, run: RunFacts) -> bool:
    """True if an answer uses a word from the previous round's work results that is not in the prompt, or if they have no such
    word.
    """
    records = run.rounds[run_round.index - 1].records if run_round.index else ()
    texts = [record.result.text[:MAX_COMPARED].lower() for record in records if record.is_work and record.result is not None]
    prompt, answer = run.prompt.lower(), {*_WORDS.findall(run_round.text.lower())}
    if not any(word in text for word in answer for text in texts):
        # The answer uses no result. Usually the results' first words already show that the prompt lacks some of them.
        words = (match[0] for text in texts for match in _WORDS.finditer(text))
        return all(word in prompt for word in words) and _words(*texts) <= _words(prompt)
    new_words = _words(*texts) - _words(prompt)
    return not new_words or not new_words.isdisjoint(answer)


def _words(*texts: str) -> set[str]:
    return {word for text in texts for word in _WORDS.findall(text)}


def _changes(self: Judgements) -> tuple[bool, bool, bool]:
    """Return whether the model, in the finished round, began a todo, began one while others were in progress, and added any."""
    before, after = self._todos_before[0][1], self._todos
    begun_before, begun_after = _in_progress(before), _in_progress(after)
    exclusive = {todo.id for todo in after if not todo.can_run_parallel}
    is_parallel = 1 < len(begun_after) > len(begun_before) and not exclusive.isdisjoint(begun_after - begun_before)
    return (
        not begun_after <= begun_before,
        is_parallel,
        not {todo.id for todo in open_todos(after)} <= {todo.id for todo in open_todos(before)},
    )


JUDGES: dict[type[e.Event], Callable[[Judgements, Any, RunFacts], None]] = {
    e.RunStarted: _run_started,
    e.RoundStarted: _round_started,
    e.ToolFinished: _tool_finished,
    e.TodosChanged: _todos_changed,
    e.RoundFinished: _round_finished,
    e.CommandReceived: _command_received,
}
"""Handlers that update the judgements after the run has applied an event, by kind."""
