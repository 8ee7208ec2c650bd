"""Interludes: the work of extensions between two rounds, with questions to the person."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from waiting import PATIENCE, wait_until

from agentnb import Agent, Extension, RunOptions, Stop, Store, recover
from agentnb.core.log.events import CommandReceived, QuestionAnswered
from agentnb.core.questions import new_question
from agentnb.core.run.approvals import approval_schema
from agentnb.models.scripted import ScriptedModel
from agentnb.policies import Interlude
from agentnb.runtime.host.live_run import LiveRun


def question() -> Any:
    return new_question("plan_review", "May it?", approval_schema(), "step-1")


def agent(ending: Callable[[Any], Any], *replies: Any, **settings: Any) -> Agent:
    """An agent whose runs have this ending."""
    made = Extension(name="asks", endings=(ending,), **settings)
    return Agent(ScriptedModel([*replies]), extensions=[made], todos=False, instructions=False)


def asking(answers: list[Any]) -> Callable[[Any], Any]:
    """An ending that asks until it has an answer, and keeps what it gets."""

    async def work(inside: Any, ask: Any) -> None:
        answers.append(await ask(question()))

    return lambda run: None if answers and answers[-1] is not None else Interlude("step-1", work)


def test_words_that_come_just_before_a_question_are_read_first() -> None:
    answers: list[Any] = []
    lives: list[LiveRun] = []
    asks = asking(answers)

    def ending(run: Any) -> Any:
        if len(run.rounds) == 1:
            wait_until(lambda: lives)
            lives[0].say("Look again")
        return asks(run)

    lives.append(agent(ending, "Done.", "Looked.").start("Look"))
    live = lives[0]
    wait_until(lambda: live.run.waiting or live.done)
    assert live.run.text == "Looked." and [one.outcome for one in live.run.questions] == ["open"]
    live.answer("approve")
    assert live.result(PATIENCE).text == "Looked." and len(answers) == 1


def test_a_stop_ends_the_run_also_where_the_work_goes_on_all_the_same() -> None:
    async def work(inside: Any, ask: Any) -> None:
        lives[0].stop()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            worked.append("to its end")

    worked: list[str] = []
    lives: list[LiveRun] = []

    def ending(run: Any) -> Any:
        wait_until(lambda: lives)
        return None if worked else Interlude("step-1", work)

    lives.append(agent(ending, "Done.").start("Look"))
    run = lives[0].result(PATIENCE)
    assert worked and run.status == "cancelled"


def test_a_run_that_ends_otherwise_withdraws_the_question_that_it_left_open(tmp_path: Path) -> None:
    store = Store(tmp_path)
    left = asyncio.run(agent(asking([]), "Done.").run("Look", RunOptions(store=store)))
    assert left.is_suspended and len(left.waiting) == 1
    stops = agent(asking([]), policies=(lambda run: Stop("enough", "limited"),))
    done = asyncio.run(recover(left.id, agent=stops, store=store, trust_log=True, suspend=True))
    closed = [event.withdrawn for event in done.events if isinstance(event, QuestionAnswered)]
    assert (done.status, closed, [one.outcome for one in done.questions]) == ("limited", [True], ["withdrawn"])


def test_a_question_that_is_put_off_says_so_and_one_without_an_answer_that_nobody_was_there(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    def failing(question: Any) -> Any:
        raise OSError("the form is down")

    for why, answer in {"asked": None, "nobody_here": failing}.items():
        with subtests.test(why):
            live = agent(asking([]), "Done.").start("Look", RunOptions(store=Store(tmp_path / why), answer=answer))
            if answer is None:
                wait_until(lambda: live.run.waiting)  # noqa: B023  # called at once
                live.cancel_question()
            run = live.result(PATIENCE)
            assert [event.why for event in run.events if type(event).__name__ == "RunSuspended"] == [why]


def test_a_question_stays_the_same_while_the_run_is_paused_and_goes_on_after_the_answer() -> None:
    answers: list[Any] = []
    live = agent(asking(answers), "Done.").start("Look")
    wait_until(lambda: live.run.waiting)
    live.pause()
    wait_until(lambda: any(isinstance(event, CommandReceived) for event in live.run.events))
    live.resume()
    live.answer("approve")
    run = live.result(PATIENCE)
    assert [one.outcome for one in run.questions] == ["answered"] and answers == ["approve"]
