"""What the person had answered a tool when its process died: served again to a repeatable tool, else told to the model."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples
from run_checks import assert_every_call_has_one_result, codes, results

from agentnb import Agent, Run, RunOptions, Store, ToolCall, recover, tool
from agentnb.core.approvals import judged_call
from agentnb.core.questions import AskedQuestion, Outcome, WaitingOnUser
from agentnb.errors import Declined
from agentnb.models import ScriptedModel
from agentnb.policies.gates import Ask
from agentnb.runtime.earlier_answers import EarlierAnswers
from agentnb.tools.tool import ToolContext

NUMBER = {"type": "integer"}


class Person:
    """Answers every question with a number that counts up, or declines; remembers what was asked."""

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
    """A tool that asks these questions and returns the answers."""

    @tool(repeatable=repeatable)
    async def asks(context: ToolContext) -> list[Any]:
        told: list[Any] = []
        for question in plan:
            try:
                told.append(await context.ask(question, NUMBER))
            except Declined:
                told.append("declined")
        return told

    return asks


def agent_with(value: Any, **settings: Any) -> Agent:
    return Agent(ScriptedModel([ToolCall("asks"), "Done."]), tools=[value], todos=False, **settings)


def died(store: Store, agent: Agent, person: Person, ended_with: str = '{"kind":"tool_finished"') -> Run:
    """A run whose process died just before the first event of this kind."""
    run = asyncio.run(agent.run("go", RunOptions(store=store, answer=person.answer)))
    _cut(store, run, ended_with)
    return run


def _cut(store: Store, run: Run, at: str, skip: int = 0) -> None:
    path = store.path(run.id)
    lines = path.read_text("utf-8").splitlines(keepends=True)
    places = [place for place, line in enumerate(lines) if line.startswith(at)]
    path.write_text("".join(lines[: places[skip]]), "utf-8")


def resumed(store: Store, run: Run, value: Any, answer: Callable[[WaitingOnUser], Any] | None, **settings: Any) -> Run:
    agent = Agent(ScriptedModel(["Done."]), tools=[value], todos=False, **settings)
    return asyncio.run(recover(run.id, store=store, agent=agent, answer=answer))


@pytest.mark.req("KX.5")
def test_a_repeatable_tool_gets_the_same_answers_again_in_order_also_where_nobody_is_there(tmp_path: Path) -> None:
    store, person = Store(tmp_path), Person(declines=["b"])
    run = died(store, agent_with(asking("abc")), person)
    run = resumed(store, run, asking("abc"), None)
    assert results(run)[0].text == '[1,"declined",2]' and person.asked == [*"abc"]
    assert [one.question.message for one in run.questions] == [*"abc"]


def test_what_comes_in_another_order_or_with_another_text_is_asked_anew(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for plan, asked, told in [
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
            assert (person.asked, results(run)[0].text) == ([*asked], told)


def test_a_question_that_was_open_is_asked_again_once_and_stays_answered_after_another_death(tmp_path: Path) -> None:
    store, second, third = Store(tmp_path), Person(11), Person(21)
    run = died(store, agent_with(asking("ab")), Person())
    _cut(store, run, '{"kind":"question_answered"', 1)  # when "b" was open
    resumed(store, run, asking("ab"), second.answer)
    assert second.asked == ["b"]
    _cut(store, run, '{"kind":"tool_finished"')
    run = resumed(store, run, asking("abc"), third.answer)
    assert third.asked == ["c"] and results(run)[0].text == "[1,11,21]"
    assert_every_call_has_one_result(run)


@pytest.mark.req("KX.5")
def test_the_answers_to_a_tool_that_is_not_repeated_are_kept_for_the_model(tmp_path: Path) -> None:
    store, person = Store(tmp_path), Person(declines=["b"])
    gates = [lambda call, run: Ask("May it?")]
    run = died(store, agent_with(asking("ab", repeatable=False), gates=gates), person)
    assert person.asked == ["May it?", "a", "b"]
    run = resumed(store, run, asking("ab", repeatable=False), None, gates=gates)
    assert codes(run) == ["interrupted"] and person.asked == ["May it?", "a", "b"]
    told = results(run)[0].text.splitlines()[-2:]
    assert told == ["The person had answered '2' to: a", "The person had left this to you: b"]
    assert "May it?" not in results(run)[0].text


def test_a_tool_that_asked_nothing_is_told_as_before(tmp_path: Path) -> None:
    store = Store(tmp_path)
    run = resumed(store, died(store, agent_with(asking("", repeatable=False)), Person()), asking("", repeatable=False), None)
    assert "\n" not in results(run)[0].text and "The person" not in results(run)[0].text


def asked(text: str, outcome: Outcome, answer: int) -> AskedQuestion:
    question = WaitingOnUser("elicitation", text, NUMBER, f"q{answer}")
    return AskedQuestion(question=question, round=0, outcome=outcome, answer=answer if outcome == "answered" else None)


texts = st.sampled_from("abc")
outcomes: Any = st.sampled_from(["answered", "answered", "declined", "withdrawn"])


@examples(500)
@given(before=st.lists(st.tuples(texts, outcomes), max_size=6), now=st.lists(texts, max_size=8))
def test_an_answer_is_served_only_to_its_own_question_in_its_turn(before: list[tuple[str, Outcome]], now: list[str]) -> None:
    logged = [asked(text, outcome, place) for place, (text, outcome) in enumerate(before)]
    earlier = EarlierAnswers(logged)
    served = [earlier.next(WaitingOnUser("elicitation", text, NUMBER, "")) for text in now]
    given_now = [one for one in served if one is not None]
    assert len({one.question.id for one in given_now}) == len(given_now)
    for one, text in zip(served, now, strict=True):
        assert one is None or (one.question.message == text and one.outcome != "withdrawn")
    if all(outcome != "withdrawn" for _, outcome in before):
        same = next((place for place, (text, (other, _)) in enumerate(zip(now, before, strict=False)) if text != other), 99)
        expected = [logged[place] if place < min(same, len(logged)) else None for place in range(len(now))]
        assert served == expected


def test_calls_that_differ_anywhere_are_two_questions() -> None:
    def question(path: str) -> WaitingOnUser:
        about = judged_call(ToolCall("write", {"path": path}), "ask")
        return WaitingOnUser("approval", "May write run with arguments of 411 characters?", NUMBER, "q1", "c1", about)

    same, other = "a" * 400, "a" * 399 + "b"
    for path, answer in ((same, 5), (other, None)):
        earlier = EarlierAnswers([AskedQuestion(question=question(same), round=0, outcome="answered", answer=5)])
        found = earlier.next(question(path))
        assert (None if found is None else found.answer) == answer
