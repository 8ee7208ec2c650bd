"""The question book: answers from a dead process are served to the same question again, or given to the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from marked_logs import cut_log
from msgspec.structs import replace
from property_settings import examples
from run_builder import opening
from run_checks import assert_every_call_has_one_result, codes, results

from agentnb import Agent, Run, RunOptions, Store, ToolCall, recover, tool
from agentnb.core.log import events as e
from agentnb.core.log.events import Event
from agentnb.core.questions import TEXT, Outcome, QuestionKind, WaitingOnUser
from agentnb.core.run.approvals import judged_call
from agentnb.errors import Declined
from agentnb.models import ScriptedModel
from agentnb.policies.gates import Ask
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.questions.question_book import QuestionBook, since_start
from agentnb.runtime.questions.question_ids import QuestionIds
from agentnb.tools.tool import ToolContext

NUMBER = {"type": "integer"}


class Person:
    """Answers every question with an increasing number, or declines; records the questions."""

    def __init__(self, first: int = 1, declines: Sequence[str] = ()) -> None:
        self.asked: list[str] = []
        self._next = first
        self._declines = declines

    def answer(self, question: WaitingOnUser) -> Any:
        self.asked.append(question.message)
        if question.message in self._declines:
            return None
        self._next += 1
        return "approve" if question.kind == "approval" else self._next - 1


def asking(plan: Sequence[str], *, repeatable: bool = True) -> Any:
    """Return a tool that asks these questions and returns the answers."""

    @tool(repeatable=repeatable)
    async def asks(context: ToolContext) -> list[Any]:
        answers: list[Any] = []
        for question in plan:
            try:
                answers.append(await context.ask(question, NUMBER))
            except Declined:
                answers.append("declined")
        return answers

    return asks


def agent_with(value: Any, **settings: Any) -> Agent:
    return Agent(ScriptedModel([ToolCall("asks"), "Done."]), tools=[value], todos=False, **settings)


def died(store: Store, agent: Agent, person: Person, ended_with: str = "tool_finished") -> Run:
    """Return a run whose process died just before the first event of this kind."""
    run = asyncio.run(agent.run("go", RunOptions(store=store, answer=person.answer)))
    cut_log(store.path(run.id), ended_with, before=True)
    return run


def resumed(store: Store, run: Run, value: Any, answer: Callable[[WaitingOnUser], Any] | None, **settings: Any) -> Run:
    agent = Agent(ScriptedModel(["Done."]), tools=[value], todos=False, **settings)
    return asyncio.run(recover(run.id, store=store, agent=agent, answer=answer))


@pytest.mark.req("KX.5")
def test_repeatable_tool_gets_earlier_answers_in_order_without_a_person(tmp_path: Path) -> None:
    store, person = Store(tmp_path), Person(declines=["b"])
    run = died(store, agent_with(asking("abc")), person)
    run = resumed(store, run, asking("abc"), None)
    assert results(run)[0].text == '[1,"declined",2]' and person.asked == [*"abc"]
    assert [one.question.message for one in run.questions] == [*"abc"]


def test_reordered_or_reworded_questions_are_asked_again(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for plan, asked, answers in [
        ("abc", "", "[1,2,3]"),
        ("abcd", "d", "[1,2,3,11]"),
        ("acb", "cb", "[1,11,12]"),
        ("xbc", "xbc", "[11,12,13]"),
        ("ab", "", "[1,2]"),
    ]:
        with subtests.test(plan):
            store, person = Store(tmp_path / plan), Person(11)
            run = died(store, agent_with(asking("abc")), Person())
            run = resumed(store, run, asking(plan), person.answer)
            assert (person.asked, results(run)[0].text) == ([*asked], answers)


def test_open_question_is_asked_again_once_after_each_crash(tmp_path: Path) -> None:
    store, second, third = Store(tmp_path), Person(11), Person(21)
    run = died(store, agent_with(asking("ab")), Person())
    cut_log(store.path(run.id), "question_answered", 1, before=True)  # when "b" was open
    resumed(store, run, asking("ab"), second.answer)
    assert second.asked == ["b"]
    cut_log(store.path(run.id), "tool_finished", before=True)
    run = resumed(store, run, asking("abc"), third.answer)
    assert third.asked == ["c"] and results(run)[0].text == "[1,11,21]"
    assert_every_call_has_one_result(run)


@pytest.mark.req("KX.5")
def test_answers_to_unrepeated_tools_are_kept_for_the_model(tmp_path: Path) -> None:
    store, person = Store(tmp_path), Person(declines=["b"])
    gates = [lambda call, run: Ask("May it?")]
    run = died(store, agent_with(asking("ab", repeatable=False), gates=gates), person)
    assert person.asked == ["May it?", "a", "b"]
    run = resumed(store, run, asking("ab", repeatable=False), None, gates=gates)
    assert codes(run) == ["interrupted"] and person.asked == ["May it?", "a", "b"]
    answers = results(run)[0].text.splitlines()[-2:]
    assert answers == ["The person answered '2' to: a", "The person declined to answer: b"]
    assert "May it?" not in results(run)[0].text


def test_result_of_interrupted_tool_without_questions_mentions_no_answers(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = resumed(store, died(store, agent_with(asking("", repeatable=False)), Person()), asking("", repeatable=False), None)
    assert "\n" not in results(run)[0].text and "The person" not in results(run)[0].text


def asked(question: WaitingOnUser, outcome: Outcome, answer: Any) -> list[tuple[type[Event], dict[str, Any]]]:
    """Return the events of a question from an earlier process."""
    events: list[tuple[type[Event], dict[str, Any]]] = [(e.QuestionAsked, {"question": question})]
    if outcome != "open":
        ends = {
            "answered": {"answer": answer},
            "declined": {"declined": True},
            "cancelled": {"declined": True, "cancelled": True},
            "withdrawn": {"withdrawn": True},
        }
        events.append((e.QuestionAnswered, {"question_id": question.id, **ends[outcome]}))
    return events


def book_of(events: Iterable[tuple[type[Event], dict[str, Any]]], **settings: Any) -> QuestionBook:
    """Return the question book of a run resumed after these events."""
    log = EventLog("r-1")
    log.append(opening())
    log.emit(e.RoundStarted, index=0, reason="prompt")
    for kind, fields in events:
        log.emit(kind, **fields)
    book = QuestionBook(log, QuestionIds("", log.run.events))
    book.recall(since_start(log.run.events), **settings)
    return book


def question(text: str, number: int = 0, kind: QuestionKind = "elicitation", **fields: Any) -> WaitingOnUser:
    return WaitingOnUser(kind, text, NUMBER, f"q{number}" if number else "", "c1", **fields)


texts = st.sampled_from("abc")
outcomes: Any = st.sampled_from(["answered", "answered", "declined", "cancelled", "withdrawn"])


@examples(500)
@given(before=st.lists(st.tuples(texts, outcomes), max_size=6), now=st.lists(texts, max_size=8))
def test_each_answer_is_used_once_for_its_own_question(before: list[tuple[str, Outcome]], now: list[str]) -> None:
    book = book_of(
        event for place, (text, outcome) in enumerate(before, 1) for event in asked(question(text, place), outcome, place)
    )
    taken = [book.take(question(text)) for text in now]
    served = [one if one is not None and one.has_answer else None for one in taken]
    ids = [one.question.id for one in served if one is not None]
    assert len({*ids}) == len(ids)
    for one, text in zip(served, now, strict=True):
        assert one is None or (one.question.message == text and one.outcome != "withdrawn")
    if all(outcome != "withdrawn" for _, outcome in before):
        same = next((place for place, (text, (other, _)) in enumerate(zip(now, before, strict=False)) if text != other), 99)
        expected = [f"q{place + 1}" if place < min(same, len(before)) else None for place in range(len(now))]
        assert [one and one.question.id for one in served] == expected


def test_repeated_question_is_matched_by_place_and_purpose(subtests: pytest.Subtests) -> None:
    def write(
        path: str, rule: str = "ask", effects: str | None = "write", text: str = "May it?", number: int = 0
    ) -> WaitingOnUser:
        about = judged_call(ToolCall("write", {"path": path}), rule, effects)
        return question(text, number, "approval", about=about)

    long = "a" * 400
    cases: dict[str, tuple[WaitingOnUser, WaitingOnUser, bool]] = {
        "the same call in other words": (write(long, number=1), write(long, text="Allow it?"), True),
        "a call that differs in its last letter": (write(long, number=1), write(long[1:] + "b"), False),
        "for another rule": (write(long, number=1), write(long, rule="mine"), False),
        "of a tool with other effects": (write(long, number=1), write(long, effects="network"), False),
        "in a log without effects": (write(long, effects=None, number=1), write(long), True),
        "a tool's question in other words": (question("a", 1), question("b"), False),
        "a tool's question of another form": (question("a", 1), replace(question("a"), schema=TEXT), False),
        "a tool's question at another call": (question("a", 1), replace(question("a"), call_id="c2"), False),
        "a tool's question of another kind": (question("a", 1), question("a", kind="plan_review"), False),
        "what a nested run asked": (replace(question("a"), id="step/q1"), question("a"), False),
    }
    for name, (before, now, is_same) in cases.items():
        with subtests.test(name):
            assert (book_of(asked(before, "answered", 5)).take(now) is not None) == is_same


def test_resumed_step_finds_its_answer_despite_other_wording(subtests: pytest.Subtests) -> None:
    for kind, is_same in (("human_step", True), ("elicitation", False)):
        with subtests.test(kind):
            book = book_of(asked(question("a", 1, "human_step"), "answered", 5), place="c1", by_kind=True)
            assert (book.take(question("b", kind=kind)) is not None) == is_same


def test_open_question_is_withdrawn_unless_asked_again(subtests: pytest.Subtests) -> None:
    for text, is_open in (("a", True), ("b", False)):
        with subtests.test(text):
            book = book_of(asked(question("a", 1), "open", None))
            book.take(question(text))
            assert book.is_open("q1") == is_open
