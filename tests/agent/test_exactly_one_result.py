"""Every call gets exactly one result, however a tool or run ends."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from run_checks import assert_closed, assert_every_call_has_one_result, checked, codes, results
from scripted_runs import FullDisk, reply
from virtual_time import SkippedClock

from agentnb.agent.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, StoreError
from agentnb.models.scripted import ScriptedModel
from agentnb.store.store import Store
from agentnb.tools.function import tool

LONG = 30


def raises_value_error() -> None:
    raise ValueError("no such row")


def quits() -> None:
    raise SystemExit(3)


def ends_an_iteration() -> None:
    next(iter(()))


def cancels_itself() -> None:
    raise asyncio.CancelledError("mine")


async def raises_on_the_loop() -> None:
    raise ValueError("no such row")


async def quits_on_the_loop() -> None:
    raise SystemExit(3)


async def ends_an_iteration_on_the_loop() -> None:
    next(iter(()))


async def cancels_itself_on_the_loop() -> None:
    raise asyncio.CancelledError("mine")


async def interrupts_on_the_loop() -> None:
    raise KeyboardInterrupt


async def times_out_by_itself_on_the_loop() -> None:
    raise TimeoutError("mine")


@tool(timeout=0.02)
async def takes_too_long() -> None:
    await asyncio.sleep(LONG)


@tool(timeout=0.02)
async def takes_too_long_and_swallows_it() -> str:
    try:
        await asyncio.sleep(LONG)
    except asyncio.CancelledError:
        return "late"
    return "never"


def fine() -> str:
    return "fine"


WAYS_OUT = [
    raises_value_error,
    quits,
    ends_an_iteration,
    cancels_itself,
    raises_on_the_loop,
    quits_on_the_loop,
    ends_an_iteration_on_the_loop,
    cancels_itself_on_the_loop,
    interrupts_on_the_loop,
    times_out_by_itself_on_the_loop,
    takes_too_long,
]


def beside(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same tool, parallel-safe."""
    return tool(name=function.__name__, parallel_safe=True, timeout=0.02 if function is takes_too_long else None)(
        _copy(function)
    )


def _copy(function: Callable[..., Any]) -> Callable[..., Any]:
    if asyncio.iscoroutinefunction(function):

        async def again() -> Any:
            return await function()
    else:

        def again() -> Any:
            return function()

    return again


@pytest.mark.req("KX.11", "R2.10")
def test_failing_tool_returns_one_error_result_and_siblings_continue(subtests: pytest.Subtests) -> None:
    for way_out, together in itertools.product(WAYS_OUT, [False, True]):
        with subtests.test(way_out=way_out.__name__, together=together):
            tools = [beside(way_out), beside(fine)] if together else [way_out, fine]
            calls = [ToolCall("fine"), ToolCall(way_out.__name__), ToolCall("fine")]
            run = Agent(ScriptedModel([calls, "Done."]), tools=tools).run_sync("go")
            assert [result.is_error for result in results(run)] == [False, True, False]
            assert codes(run)[1] == ("timeout" if way_out is takes_too_long else "tool_error")
            assert (run.status, run.text) == ("completed", "Done.")
            assert_every_call_has_one_result(run)


@pytest.mark.req("KX.11")
def test_run_leaves_no_pending_tasks_whatever_its_tools_did(subtests: pytest.Subtests) -> None:
    def check(way_out: Any) -> None:
        async def main() -> Run:
            calls = [ToolCall("fine"), ToolCall(way_out.__name__)]
            run = await Agent(ScriptedModel([calls, "Done."]), tools=[beside(way_out), beside(fine)]).run("go")
            assert asyncio.all_tasks() == {asyncio.current_task()}
            return run

        assert_every_call_has_one_result(asyncio.run(main()))

    for way_out in [*WAYS_OUT[:8], takes_too_long]:
        with subtests.test(way_out=way_out.__name__):
            check(way_out)


@pytest.mark.req("R2.10")
def test_error_result_contains_the_exception_and_record_the_traceback() -> None:
    run = Agent(ScriptedModel([ToolCall("raises_value_error"), "Sorry."]), tools=[raises_value_error]).run_sync("go")
    (result,) = results(run)
    assert "raises_value_error" in result.text and "ValueError: no such row" in result.text
    assert "Traceback" not in result.text
    assert "raises_value_error" in run.rounds[0].records[0].traceback


@pytest.mark.req("KX.11")
def test_unknown_tools_and_invalid_arguments_get_results() -> None:
    calls = [ToolCall("nothing"), ToolCall("fine", {"x": 1}), ToolCall("fine")]
    run = Agent(ScriptedModel([calls, "Done."]), tools=[fine]).run_sync("go")
    assert codes(run) == ["unknown_tool", "invalid_arguments", None]
    assert_every_call_has_one_result(run)


@pytest.mark.req("KX.11")
def test_tool_that_swallows_its_timeout_gets_one_result() -> None:
    model = ScriptedModel([ToolCall("takes_too_long_and_swallows_it"), "Done."])
    run = Agent(model, tools=[takes_too_long_and_swallows_it]).run_sync("go")
    assert run.status == "completed"
    assert_every_call_has_one_result(run)


@pytest.mark.req("KX.11")
def test_calls_pending_at_a_limit_are_all_answered() -> None:
    run = Agent(ScriptedModel([[ToolCall("fine"), ToolCall("fine")]]), tools=[fine], max_rounds=1).run_sync("go")
    assert run.status == "limited"
    assert_every_call_has_one_result(run)


@pytest.mark.req("KX.11")
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_tool_that_interrupts_the_loop_leaves_a_closed_log(error: type[BaseException], tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")

    async def interrupts() -> None:
        raise error

    async def main() -> Run:
        return await Agent(ScriptedModel([[ToolCall("interrupts"), ToolCall("fine")], "Done."]), tools=[interrupts, fine]).run(
            "go", store=store
        )

    if error is KeyboardInterrupt:  # of the user, who waits in this thread
        with pytest.raises(KeyboardInterrupt):
            asyncio.run(main())
    else:
        asyncio.run(main())
    run = store.load(store.ids()[0])
    checked(run)


@pytest.mark.req("KX.11")
def test_log_failure_during_tools_closes_the_run_in_memory() -> None:
    for kind in ("ToolStarted", "CallBlocked", "ToolFinished", "RoundFinished"):
        with pytest.raises(StoreError) as caught:
            model = ScriptedModel([[ToolCall("fine"), ToolCall("fine"), ToolCall("fine"), ToolCall("fine")], "Done."])
            Agent(model, tools=[fine]).run_sync("go", store=FullDisk(kind))
        run = caught.value.run
        assert run is not None and run.status == "failed"
        checked(run)


def test_full_disk_during_a_failure_closes_the_run_in_memory() -> None:
    with pytest.raises(AgentnbError) as caught:
        Agent(ScriptedModel([RuntimeError("boom")])).run_sync("go", store=FullDisk("ErrorRaised"))
    run = caught.value.run
    assert run is not None
    assert_closed(run)


@pytest.mark.req("KX.11")
def test_call_with_non_object_arguments_is_answered() -> None:
    bad = reply(ToolCall("fine", ["not", "an", "object"], "toolu_1"))  # type: ignore[arg-type]
    run = Agent(ScriptedModel([bad, "Done."]), tools=[fine]).run_sync("go")
    assert codes(run) == ["invalid_arguments"]
    assert run.status == "completed"


@pytest.mark.req("KX.11", "R0.72")
@pytest.mark.parametrize("rounds_after", [1, 2])
def test_sync_tool_outliving_its_timeout_does_not_break_the_run(rounds_after: int, skipped: SkippedClock) -> None:
    over = threading.Event()

    @tool(timeout=LONG)
    def sleeps() -> str:
        skipped.skip(LONG)
        assert over.wait(LONG)
        return "late"

    def watch(item: Any) -> None:
        if type(item).__name__ == "RunFinished":
            over.set()

    model = ScriptedModel([ToolCall("sleeps"), *[ToolCall("later")] * (rounds_after - 1), "Done."])

    async def later() -> str:
        return "later"

    run = Agent(model, tools=[sleeps, later]).run_sync("go", watch=watch)
    assert codes(run)[0] == "timeout"
    assert (run.status, run.text) == ("completed", "Done.")
    assert_every_call_has_one_result(run)
