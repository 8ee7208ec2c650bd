"""Cost of the fold: linear work for a round with many events."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence, Set

import pytest
from run_builder import Fact, RunBuilder, begun, guidance_of, todo, todos_are

from agentnb.core.compaction_records import Compacted
from agentnb.core.log import events as e
from agentnb.core.messages import Message, ToolCall, ToolResult
from agentnb.core.questions import WaitingOnUser
from agentnb.core.run.facts import RunFacts
from agentnb.detect import Finding
from agentnb.detect.run import Run

FEW, MANY = 40, 160
AT_MOST = 4.5
"""Allowed factor of work for four times as many events."""


def retry(number: int) -> Fact:
    return e.RetryScheduled, {"attempt": number + 1, "seconds": 1.0, "reason": "Busy"}


def compactions(number: int) -> list[Fact]:
    compacted = Compacted(1, 1, number, "Summary")
    return [
        (e.CompactionStarted, {"why": "share", "messages": 1}),
        (e.ContextCompacted, {"why": "share", "compacted": compacted}),
    ]


def toggled(number: int) -> Fact:
    status = "blocked" if number % 2 else "not-started"
    return todos_are(todo(1, status), todo(number + 2, "completed"), by="model", call_id="c")


ACCUMULATED: dict[str, Callable[[int], list[Fact]]] = {
    "retries": lambda n: [retry(number) for number in range(n)],
    "guidance": lambda n: [(e.GuidanceGiven, {"guidance": guidance_of()})] * n,
    "compactions": lambda n: [fact for number in range(n) for fact in compactions(number)],
    "completed": lambda n: [toggled(number) for number in range(n)],
    "blocked": lambda n: [toggled(number) for number in range(n)],
    "todo_violations": lambda n: [toggled(number) for number in range(n)],
}


def bytes_of_states(name: str, facts: Sequence[Fact]) -> tuple[int, int]:
    """Return the bytes of this attribute of the round after each event, and its final length."""
    states = []
    builder = RunBuilder().extend(*begun(0))
    for fact in facts:
        builder.extend(fact)
        states.append(getattr(builder.run.rounds[-1], name))
    held = {id(one): one for state in states for one in (state, *gc.get_referents(state)) if isinstance(one, Sequence)}
    return sum(map(sys.getsizeof, held.values())), len(states[-1])


def test_round_lists_are_not_copied_for_every_event(subtests: pytest.Subtests) -> None:
    for name, facts in ACCUMULATED.items():
        with subtests.test(name):
            (few, _), (many, count) = bytes_of_states(name, facts(FEW)), bytes_of_states(name, facts(MANY))
            assert many < AT_MOST * few and count >= MANY / 2


class Always:
    """Matches every event."""

    def take(self, event: e.AnyEvent, run: RunFacts) -> list[Finding]:
        return [Finding("always", "stall", 0, 0)]


KEPT: dict[str, Callable[[Run], object]] = {
    "todos that were completed": lambda run: run._todos_done,
    "lists before each change": lambda run: run._judged._todos_before,
    "findings that are not logged": lambda run: run._unlogged,
}


def bytes_kept(read: Callable[[Run], object], count: int) -> int:
    """Return the bytes of the run's state after each of so many todo changes."""
    run, states = Run((Always,)), []
    for event in RunBuilder().extend(*begun(0), *map(toggled, range(count))).run.events:
        run.apply(event)
        states.append(read(run))
    held = {id(one): one for state in states for one in (state, *gc.get_referents(state)) if isinstance(one, Sequence | Set)}
    return sum(map(sys.getsizeof, held.values()))


def test_run_state_is_not_copied_for_every_event(subtests: pytest.Subtests) -> None:
    for name, read in KEPT.items():
        with subtests.test(name):
            assert 0 < bytes_kept(read, MANY) < AT_MOST * bytes_kept(read, FEW)


class Id(str):
    """An id that counts its comparisons."""

    compared = 0

    def __eq__(self, other: object) -> bool:
        Id.compared += 1
        return str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)


def call(number: int) -> ToolCall:
    return ToolCall("look", {}, Id(f"c{number}"))


def inner_calls(count: int) -> list[Fact]:
    facts: list[Fact] = [(e.ModelReplied, {"message": Message("assistant", (call(0),))}), (e.ToolStarted, {"call": call(0)})]
    facts += [(e.ToolStarted, {"call": call(number), "parent_call": Id("c0")}) for number in range(1, count)]
    results = [ToolResult(Id(f"c{number}"), "look", ()) for number in range(1, count)]
    return [*facts, *[(e.ToolFinished, {"result": result, "parent_call": Id("c0")}) for result in results]]


def questions(count: int) -> list[Fact]:
    asked = [WaitingOnUser("approval", "Run it?", {}, Id(f"q{number}")) for number in range(count)]
    answered: list[Fact] = [(e.QuestionAnswered, {"question_id": Id(question.id), "answer": True}) for question in asked]
    return [*[(e.QuestionAsked, {"question": question}) for question in asked], *answered]


def comparisons(facts: Sequence[Fact]) -> int:
    """Return the number of id comparisons while these facts are folded."""
    events = [*RunBuilder().extend(*begun(0), *facts).run.events]
    before = Id.compared
    Run.from_events(events)
    return Id.compared - before


def test_open_questions_and_inner_calls_are_indexed_not_searched(subtests: pytest.Subtests) -> None:
    for name, facts in {"inner calls": inner_calls, "questions": questions}.items():
        with subtests.test(name):
            assert 0 < comparisons(facts(MANY)) < AT_MOST * comparisons(facts(FEW))


def test_finished_round_has_plain_tuples() -> None:
    for name, facts in ACCUMULATED.items():
        run = RunBuilder().extend(*begun(0), *facts(3)).run
        open_round = run.open_round
        if open_round is not None:
            run = RunBuilder().extend(*begun(0), *facts(3), (e.RoundFinished, {"index": 0, "status": "success"})).run
        lists = (getattr(run.rounds[0], field) for field in ("guidance", "completed", "blocked", "retries", "compactions"))
        assert {type(held) for held in (*lists, run.rounds[0].todo_violations)} == {tuple}, name
