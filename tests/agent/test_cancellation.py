"""Stopping a run: where it is looked for, and what stays."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from run_checks import assert_closed, assert_every_call_has_one_result, codes, kinds
from scripted_runs import loop_alone, reply
from waiting import turns

from agentnb.agent.agent import Agent
from agentnb.core.inbox import Inbox
from agentnb.core.log.events import AnyEvent, Delta, TextDelta
from agentnb.core.messages import Text, ToolCall
from agentnb.core.request import Request
from agentnb.detect.run import Run
from agentnb.models.model import StreamItem
from agentnb.models.scripted import ScriptedModel
from agentnb.policies import natural_stop
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.threads import LoopThread
from agentnb.store.store import Store

LONG = 30


@pytest.mark.req("R0.13")
def test_a_stop_before_the_first_round_calls_no_model() -> None:
    inbox, model = Inbox(), ScriptedModel(["never"])
    inbox.put("stop")
    run = asyncio.run(loop_alone(model, natural_stop, inbox=inbox))
    assert (run.status, run.stop_reason, len(run.rounds)) == ("cancelled", "cancelled", 0)
    assert model.requests == []
    assert_closed(run)


@pytest.mark.req("R0.13")
def test_a_stop_between_two_rounds_begins_no_further_round() -> None:
    inbox, model = Inbox(), ScriptedModel([ToolCall("look"), "never"])

    def watch(item: AnyEvent | Delta) -> None:
        if type(item).__name__ == "RoundFinished":
            inbox.put("stop")

    run = asyncio.run(loop_alone(model, natural_stop, tools=[look], watch=watch, inbox=inbox))
    assert (run.status, len(run.rounds), len(model.requests)) == ("cancelled", 1, 1)
    assert [result.text for result in run.rounds[0].results] == ["seen"]


def look() -> str:
    return "seen"


@pytest.mark.req("R0.13", "KX.11")
def test_a_stop_while_the_model_answers_keeps_the_reply_and_runs_none_of_its_calls() -> None:
    inbox = Inbox()
    ran: list[str] = []

    async def act(name: str) -> None:
        ran.append(name)

    def stop_and_answer(request: Request) -> list[Any]:
        inbox.put("stop")
        return ["I act.", ToolCall("act", {"name": "a"}), ToolCall("act", {"name": "b"})]

    run = asyncio.run(loop_alone(ScriptedModel([stop_and_answer]), natural_stop, tools=[act], inbox=inbox))
    assert run.status == "cancelled"
    assert ran == []
    assert "ToolStarted" not in kinds(run)
    assert run.text == "I act."
    assert codes(run) == ["cancelled", "cancelled"]
    assert run.rounds[0].status == "cancelled"
    assert_every_call_has_one_result(run)


class Talking:
    """Says one word and then waits for ever."""

    name = "scripted:talking"

    def __init__(self) -> None:
        self.spoke = threading.Event()
        self.left = threading.Event()

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        yield TextDelta("Well, ")
        self.spoke.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.left.set()


@pytest.mark.req("R0.13")
def test_a_stop_in_the_middle_of_a_reply_keeps_the_words_that_came() -> None:
    model = Talking()
    live = Agent(model).start("go")
    assert model.spoke.wait(LONG)
    live.stop("enough")
    run = live.result(LONG)
    assert (run.status, run.stop_reason, run.text, run.rounds[0].stop_reason) == (
        "cancelled",
        "cancelled",
        "Well, ",
        "broken_off",
    )
    assert model.left.wait(LONG)
    commands = [event.text for event in run.events if type(event).__name__ == "CommandReceived"]  # type: ignore[union-attr]
    assert commands == ["enough"]


class Deaf:
    """Does not let itself be cancelled, and answers when it is let go."""

    name = "scripted:deaf"

    def __init__(self) -> None:
        self.asked, self.release, self.answered = threading.Event(), threading.Event(), threading.Event()

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        self.asked.set()
        while not self.release.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue
        self.answered.set()
        yield reply(Text("Too late."))


@pytest.mark.req("R0.13")
def test_a_model_that_answers_after_the_run_has_ended_adds_nothing_to_it(tmp_path: Path) -> None:
    model, store, thread = Deaf(), Store(tmp_path / "runs"), LoopThread()
    live = Agent(model).start("go", RunOptions(store=store, thread=thread, can_ask=True))
    assert model.asked.wait(LONG)
    live.stop()
    try:
        run = live.result(5)
    finally:
        model.release.set()
    assert model.answered.wait(LONG)
    thread.submit(partial(turns, 100)).result(LONG)
    assert run.status == "cancelled"
    assert_closed(run)
    assert store.load(run.id) == run
    thread.close()


@pytest.mark.req("R0.13")
def test_a_cancelled_run_returns_what_it_has() -> None:
    entered = threading.Event()

    async def wait() -> None:
        entered.set()
        await asyncio.Event().wait()

    live = Agent(ScriptedModel([["I look.", ToolCall("look")], ToolCall("wait")]), tools=[look, wait]).start("go")
    assert entered.wait(LONG)
    live.stop()
    run = live.result(LONG)
    assert (run.status, run.text, len(run.rounds)) == ("cancelled", "I look.", 2)
    assert [result.text for result in run.rounds[0].results] == ["seen"]
    assert_closed(run)
    assert_every_call_has_one_result(run)


@pytest.mark.req("R0.13")
def test_a_stop_is_no_cancellation_of_the_task_around_it() -> None:
    async def main() -> tuple[Run, int]:
        inbox = Inbox()

        async def stop() -> None:
            inbox.put("stop")
            await asyncio.Event().wait()

        run = await loop_alone(ScriptedModel([ToolCall("stop")]), natural_stop, tools=[stop], inbox=inbox)
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None
        return run, task.cancelling()

    run, cancelling = asyncio.run(main())
    assert (run.status, cancelling) == ("cancelled", 0)


@pytest.mark.req("R0.13")
def test_a_timeout_around_a_run_is_still_a_timeout() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        async with asyncio.timeout(0.05):
            await Agent(ScriptedModel([ToolCall("wait")]), tools=[wait]).run("go")

    with pytest.raises(TimeoutError):
        asyncio.run(main())
