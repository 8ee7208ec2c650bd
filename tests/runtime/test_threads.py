"""Threads of tools: the waiting thread, a pool or the event loop; and their context."""

from __future__ import annotations

import asyncio
import logging
import threading
from contextvars import ContextVar
from typing import Any

import pytest
from run_checks import results
from virtual_time import VirtualTimeLoop

from agentnb.agent.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.threads import TICK, AwakeForInterrupts, LoopThread
from agentnb.runtime.workers.foreground import Foreground
from agentnb.runtime.workers.worker_calls import call_in_thread
from agentnb.tools.function import tool

LONG = 30
CELL: ContextVar[str] = ContextVar("CELL", default="no cell")


def where() -> str:
    return threading.current_thread().name


@tool(name="where_beside", parallel_safe=True)
def where_beside() -> str:
    return threading.current_thread().name


async def where_async() -> str:
    return threading.current_thread().name


def cell() -> str:
    return CELL.get()


@tool(parallel_safe=True)
def cell_beside() -> str:
    return CELL.get()


async def cell_async() -> str:
    return CELL.get()


def texts(tools: list[Any], start: str) -> list[str]:
    calls = [ToolCall(function.__name__) for function in tools]
    agent = Agent(ScriptedModel([calls, "Done."]), tools=tools)
    run = agent.run_sync("go") if start == "run_sync" else asyncio.run(agent.run("go"))
    return [result.text for result in results(run)]


@pytest.mark.req("R0.72")
def test_sync_tools_use_the_waiting_thread_or_a_pool() -> None:
    waiting, beside, on_loop = texts([where, where_beside, where_async], "run_sync")
    assert waiting == threading.current_thread().name
    assert beside.startswith("agentnb-tool")
    assert on_loop == "agentnb"


@pytest.mark.req("R0.72")
def test_awaited_run_uses_pool_for_sync_and_loop_for_async() -> None:
    plain, beside, on_loop = texts([where, where_beside, where_async], "run")
    assert plain.startswith("agentnb-tool")
    assert beside.startswith("agentnb-tool")
    assert on_loop == threading.current_thread().name


@pytest.mark.parametrize("start", ["run_sync", "run"])
def test_tools_see_the_context_of_the_caller_on_any_thread(start: str) -> None:
    token = CELL.set("cell 7")
    try:
        assert texts([cell, cell_beside, cell_async], start) == ["cell 7"] * 3
    finally:
        CELL.reset(token)


def test_background_run_sees_the_context_of_its_start() -> None:
    token = CELL.set("cell 8")
    live = Agent(ScriptedModel([ToolCall("cell"), "Done."]), tools=[cell]).start("go")
    CELL.reset(token)
    assert results(live.result(LONG))[0].text == "cell 8"


def test_two_runs_of_one_thread_each_see_their_own_context() -> None:
    thread, lives = LoopThread(), []
    for name in ("one", "two"):
        token = CELL.set(name)
        model = ScriptedModel([[ToolCall("cell"), ToolCall("cell_async")], "Done."])
        lives.append(Agent(model, tools=[cell, cell_async]).start("go", RunOptions(thread=thread, can_ask=True)))
        CELL.reset(token)
    assert [[r.text for r in results(live.result(LONG))] for live in lives] == [["one", "one"], ["two", "two"]]
    thread.close()


def test_event_loop_continues_while_plain_tool_holds_the_waiting_thread() -> None:
    ticked = threading.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    def watch(item: object) -> None:
        if not loops:
            loops.append(asyncio.get_running_loop())

    def holds() -> bool:
        loops[0].call_soon_threadsafe(ticked.set)
        return ticked.wait(LONG)

    run = Agent(ScriptedModel([ToolCall("holds"), "Done."]), tools=[holds]).run_sync("go", watch=watch)
    assert results(run)[0].text == "true"


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=["SystemExit", "KeyboardInterrupt"])
def test_event_loop_thread_survives_a_task_that_exits(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    async def end() -> None:
        raise error

    async def answer() -> int:
        return 42

    thread = LoopThread()
    with caplog.at_level(logging.CRITICAL):
        with pytest.raises(type(error)):
            thread.submit(end).result(LONG)
        assert thread.submit(answer).result(LONG) == 42
    thread.close()


def test_runs_sharing_a_thread_survive_a_background_task_that_exits() -> None:
    entered, go, thread = threading.Event(), threading.Event(), LoopThread()

    async def quit_later() -> None:
        raise SystemExit(3)

    tasks: set[asyncio.Task[None]] = set()

    async def starts_one() -> str:
        tasks.add(asyncio.ensure_future(quit_later()))
        return "started"

    def waits() -> str:
        entered.set()
        return str(go.wait(LONG))

    other = Agent(ScriptedModel([ToolCall("waits"), "Done."]), tools=[waits]).start(
        "go", RunOptions(thread=thread, can_ask=True)
    )
    assert entered.wait(LONG)
    run = (
        Agent(ScriptedModel([ToolCall("starts_one"), "Done."]), tools=[starts_one])
        .start("go", RunOptions(thread=thread, can_ask=True))
        .result(LONG)
    )
    go.set()
    assert (run.status, other.result(LONG).status) == ("completed", "completed")
    for task in tasks:
        assert isinstance(task.exception(), SystemExit)
    thread.close()


def test_loop_thread_ends_when_closed() -> None:
    before = set(threading.enumerate())
    thread = LoopThread()
    (mine,) = set(threading.enumerate()) - before
    thread.close()
    mine.join(LONG)
    assert not mine.is_alive()


def test_run_with_its_own_thread_leaves_none_behind() -> None:
    before = set(threading.enumerate())
    Agent(ScriptedModel(["Done."])).run_sync("go")
    for thread in set(threading.enumerate()) - before:
        if thread.name == "agentnb":
            thread.join(LONG)
            assert not thread.is_alive()


@pytest.mark.req("KX.11")
def test_exception_raised_in_a_thread_reaches_the_caller(subtests: pytest.Subtests) -> None:
    def check(error: BaseException) -> None:
        def fails() -> None:
            raise error

        async def main() -> BaseException | None:
            try:
                await call_in_thread(fails)
            except RuntimeError as wrapped:  # StopIteration becomes this in a coroutine
                return wrapped.__cause__
            except BaseException as raised:
                return raised
            return None

        assert asyncio.run(main()) is error

    for error in [StopIteration("end"), SystemExit(3), KeyboardInterrupt(), ValueError("no")]:
        with subtests.test(error=error):
            check(error)


def test_coroutines_on_another_loop_return_raise_and_can_be_cancelled(subtests: pytest.Subtests) -> None:
    thread, ended = LoopThread(), threading.Event()
    began = asyncio.Event()  # of this thread's loop below
    seen: list[str] = []

    async def value() -> tuple[str, str]:
        await asyncio.sleep(0)
        return threading.current_thread().name, CELL.get()

    async def fails(error: BaseException) -> None:
        raise error

    async def waits(here: asyncio.AbstractEventLoop) -> None:
        here.call_soon_threadsafe(began.set)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise
        finally:
            ended.set()

    async def main() -> None:
        CELL.set("mine")
        with subtests.test("values, many at once"):
            assert await asyncio.gather(*[thread.run(value) for _ in range(50)]) == [("agentnb", "mine")] * 50
        for error in (ValueError("no"), SystemExit(3)):
            with subtests.test(error=error), pytest.raises(type(error)) as raised:
                await thread.run(lambda error=error: fails(error))  # type: ignore[misc]
            assert raised.value is error
        with subtests.test("cancelled there"), pytest.raises(asyncio.CancelledError):
            await thread.run(lambda: fails(asyncio.CancelledError()))
        with subtests.test("cancelled here"):
            here = asyncio.get_running_loop()
            waiting = asyncio.create_task(thread.run(lambda: waits(here)))
            await began.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            assert await asyncio.to_thread(ended.wait, LONG) and seen == ["cancelled"]
        with subtests.test("cancelled before it began"):
            waiting = asyncio.create_task(thread.run(value))
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert await thread.run(value) == ("agentnb", "mine"), "the loop goes on"

    asyncio.run(main())
    thread.close()


def test_job_abandoned_before_its_turn_does_not_run() -> None:
    foreground, ran = Foreground(), threading.Event()
    thread = LoopThread()

    async def give_up() -> str:
        job = asyncio.ensure_future(foreground.call(ran.set, False))
        await asyncio.sleep(0)
        job.cancel()
        await asyncio.wait([job])
        return "given up"

    future = thread.submit(give_up)
    future.result(LONG)
    assert foreground.wait(future, lambda: None) == "given up"
    assert not ran.is_set()
    thread.close()


class RecordingTimers(VirtualTimeLoop):
    """A loop that records the delays of its timers."""

    def __init__(self) -> None:
        super().__init__()
        self.delays: list[float] = []

    def call_later(self, delay: float, callback: Any, *args: Any, context: Any = None) -> asyncio.TimerHandle:
        self.delays.append(delay)
        return super().call_later(delay, callback, *args, context=context)


def test_sequential_waits_share_a_timer() -> None:
    async def awake() -> None:
        for _ in range(3):
            with AwakeForInterrupts():
                await asyncio.sleep(0)

    loop = RecordingTimers()
    loop.run_until_complete(awake())
    assert loop.delays.count(TICK) == 1
    loop.close()


def test_waiting_loop_wakes_ten_times_a_second_only_while_waiting(subtests: pytest.Subtests) -> None:
    async def awake(seconds: float) -> None:
        with AwakeForInterrupts():
            if seconds:
                await asyncio.sleep(seconds)
        await asyncio.sleep(0)

    for seconds, ticks in ((0.0, 0), (1.05, 11)):
        loop = RecordingTimers()
        with subtests.test(seconds=seconds):
            loop.run_until_complete(awake(seconds))
            assert loop.delays.count(TICK) == ticks
        loop.close()
