"""Dispatch of the calls in a reply: order, parallelism and order of results."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from decimal import Decimal
from typing import Any

import pandas as pd
import pytest
from run_checks import assert_every_call_has_one_result, codes, kinds, results
from virtual_time import SkippedClock
from waiting import PATIENCE

from agentnb.agent.agent import Agent
from agentnb.core.display_data import Table
from agentnb.core.log.events import ToolStarted
from agentnb.core.log.wire import encode
from agentnb.core.messages import Text, ToolCall
from agentnb.core.request import ToolSpec
from agentnb.detect.run import Run
from agentnb.models.scripted import ScriptedModel
from agentnb.tools.data_frames import frame_text
from agentnb.tools.function import tool
from agentnb.tools.tool import ToolOutcome

LONG = 30


def run_with(tools: list[Any], *calls: ToolCall, approve: Any = None) -> Run:
    run = Agent(ScriptedModel([list(calls), "Done."]), tools=tools).run_sync("go", approve=approve)
    assert run.status == "completed"
    assert_every_call_has_one_result(run)
    return run


@pytest.mark.req("R0.72", "KX.12")
def test_calls_start_in_request_order_and_only_safe_ones_overlap() -> None:
    order: list[str] = []

    @tool(blocking=True)
    async def ask(name: str) -> str:
        order.append(name)
        await asyncio.sleep(0)
        order.append(f"{name} over")
        return name

    @tool
    async def step(name: str) -> str:
        order.append(name)
        await asyncio.sleep(0)
        order.append(f"{name} over")
        return name

    @tool(parallel_safe=True)
    async def look(name: str) -> str:
        order.append(name)
        return name

    names = ["look", "step", "ask", "look", "step", "ask"]
    run = run_with([ask, step, look], *[ToolCall(name, {"name": f"{name} {n}"}) for n, name in enumerate(names)])
    # The third look follows a call that waits for the person, without waiting itself.
    in_turn = ["look 0", "step 1", "step 1 over", "ask 2", "look 3", "ask 2 over"]
    assert order == [*in_turn, "step 4", "step 4 over", "ask 5", "ask 5 over"]
    assert [result.text for result in results(run)] == ["look 0", "step 1", "ask 2", "look 3", "step 4", "ask 5"]


@pytest.mark.req("R0.72", "K2.5")
def test_safe_async_calls_overlap_and_results_keep_request_order() -> None:
    second_ended = threading.Event()

    @tool(parallel_safe=True)
    async def first() -> str:
        async with asyncio.timeout(LONG):
            while not second_ended.is_set():  # blocks forever if the calls run sequentially
                await asyncio.sleep(0.001)
        return "1"

    @tool(parallel_safe=True)
    async def second() -> str:
        second_ended.set()
        return "2"

    run = run_with([first, second], ToolCall("first"), ToolCall("second"))
    assert [result.text for result in results(run)] == ["1", "2"]
    finished = [event.result.text for event in run.events if type(event).__name__ == "ToolFinished"]  # type: ignore[union-attr]
    assert finished == ["2", "1"]


@pytest.mark.req("R0.72", "K2.5")
def test_safe_plain_calls_overlap_in_threads() -> None:
    barrier = threading.Barrier(4)
    threads: set[int] = set()

    @tool(parallel_safe=True, repeatable=True)
    def meet() -> int:
        threads.add(threading.get_ident())
        return barrier.wait(LONG) >= 0

    run_with([meet], *[ToolCall("meet")] * 4)
    assert len(threads) == 4
    assert threading.get_ident() not in threads
    assert not barrier.broken


@pytest.mark.req("K2.5")
def test_only_read_only_tools_are_parallel_safe_by_default() -> None:
    barrier = threading.Barrier(2)

    @tool(effects=["read"])
    def read() -> bool:
        return barrier.wait(LONG) >= 0

    run_with([read], ToolCall("read"), ToolCall("read"))

    running: list[str] = []

    @tool(effects=["read", "write"], repeatable=True)
    async def write() -> int:
        running.append("write")
        count = len(running)
        await asyncio.sleep(0.01)
        running.remove("write")
        return count

    run = run_with([write], *[ToolCall("write")] * 3, approve="auto")
    assert [result.text for result in results(run)] == ["1", "1", "1"]


@pytest.mark.req("R0.72")
def test_tools_without_settings_never_run_concurrently() -> None:
    running: list[int] = []
    most: list[int] = []

    async def step(n: int) -> None:
        running.append(n)
        most.append(len(running))
        await asyncio.sleep(0.005)
        running.remove(n)

    run_with([step], *[ToolCall("step", {"n": n}) for n in range(5)])
    assert most == [1] * 5


@pytest.mark.req("R0.72", "R2.10")
def test_failing_parallel_call_keeps_the_other_results() -> None:
    @tool(parallel_safe=True)
    async def work(n: int) -> int:
        await asyncio.sleep(0.001 * n)
        if n == 1:
            raise ValueError("no")
        return n

    run = run_with([work], *[ToolCall("work", {"n": n}) for n in range(4)])
    assert codes(run) == [None, "tool_error", None, None]
    assert [result.text for result in results(run) if not result.is_error] == ["0", "2", "3"]


@pytest.mark.req("R0.72")
def test_call_start_is_logged_before_the_next_is_judged() -> None:
    @tool(parallel_safe=True)
    def look() -> None: ...

    def step() -> None: ...

    seen: list[tuple[str, list[str]]] = []

    def gate(call: ToolCall, run: Run) -> None:
        seen.append((call.name, [event.call.name for event in run.events if isinstance(event, ToolStarted)]))

    calls = [ToolCall("look"), ToolCall("look", {"n": 1}), ToolCall("step"), ToolCall("nothing")]
    run = Agent(ScriptedModel([calls, "Done."]), tools=[look, step], gates=[gate]).run_sync("go")
    assert seen == [("look", []), ("look", ["look"]), ("step", ["look"] * 2), ("nothing", ["look", "look", "step"])]
    assert kinds(run)[3:11] == [*["ToolStarted"] * 2, *["ToolFinished"] * 2, *["ToolStarted", "ToolFinished"] * 2]


@pytest.mark.req("R0.72")
@pytest.mark.parametrize("together", [False, True])
def test_call_exceeding_its_time_limit_is_abandoned_with_an_error(together: bool) -> None:
    left = threading.Event()

    @tool(timeout=0.02, parallel_safe=together)
    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            left.set()

    @tool(parallel_safe=together)
    async def fine() -> str:
        return "fine"

    run = run_with([waits, fine], ToolCall("waits"), ToolCall("fine"))
    assert codes(run) == ["timeout", None]
    assert "within 0.02 seconds" in results(run)[0].text
    assert left.is_set()


def test_timeout_raised_by_the_tool_is_an_ordinary_error() -> None:
    @tool(timeout=LONG)
    async def asks_a_server() -> None:
        raise TimeoutError("the server is slow")

    run = run_with([asks_a_server], ToolCall("asks_a_server"))
    assert codes(run) == ["tool_error"]
    assert "the server is slow" in results(run)[0].text


def test_tool_finishing_in_time_is_not_abandoned() -> None:
    @tool(timeout=LONG)
    def quick() -> str:
        return "quick"

    assert [result.text for result in results(run_with([quick], ToolCall("quick")))] == ["quick"]


def test_call_duration_is_the_running_time_of_its_tool() -> None:
    @tool(parallel_safe=True)
    async def sleeps(seconds: float) -> None:
        await asyncio.sleep(seconds)

    run = run_with([sleeps], ToolCall("sleeps", {"seconds": 0.1}), ToolCall("sleeps", {"seconds": 0.0}))
    longer, shorter = run.rounds[0].records
    assert longer.seconds >= 0.09 > shorter.seconds


@pytest.mark.req("R0.72")
@pytest.mark.parametrize("count", [16, 80])
def test_all_requested_parallel_safe_tools_run_at_once(count: int) -> None:
    all_there = threading.Barrier(count)

    @tool(parallel_safe=True, repeatable=True)
    def meet() -> str:
        all_there.wait(30)
        return "met"

    run = Agent(ScriptedModel([[ToolCall("meet")] * count, "Done."]), tools=[meet]).run_sync("go")
    assert [result.text for result in run.rounds[0].results] == ["met"] * count


@pytest.mark.req("R0.72", "R0.13")
def test_no_tool_starts_after_one_that_swallows_its_cancellation() -> None:
    begun, entered = [], threading.Event()

    async def swallows() -> str:
        entered.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return "swallowed"
        return ""

    async def follows() -> str:
        begun.append("follows")
        return ""

    live = Agent(ScriptedModel([[ToolCall("swallows"), ToolCall("follows")]]), tools=[swallows, follows]).start("go")
    assert entered.wait(30)
    live.stop()
    run = live.result(30)
    assert begun == [] and run.status == "cancelled"
    assert run.rounds[0].results[1].error_code == "cancelled"


def test_abandoned_call_frees_its_slot_and_lets_the_process_exit() -> None:
    """Seventy endless calls, then one more; in a separate process, which must end."""
    code = """
import threading
from agentnb import Agent, ToolCall, tool
from agentnb.models import ScriptedModel

@tool(parallel_safe=True, timeout=0.2, repeatable=True)
def stuck() -> str:
    threading.Event().wait()

@tool(parallel_safe=True)
def fine() -> str:
    return "fine"

run = Agent(ScriptedModel([[ToolCall("stuck")] * 70, ToolCall("fine"), "Done."]), tools=[stuck, fine]).run_sync("go")
print([result.error_code for result in run.rounds[0].results].count("timeout"), run.rounds[1].results[0].text)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=60)
    assert (done.stdout.strip(), done.returncode) == ("70 fine", 0), done.stderr


@pytest.mark.req("R0.72")
def test_waiting_for_a_thread_does_not_count_as_tool_time(skipped: SkippedClock) -> None:
    """The first call is abandoned and still holds the thread; the second must not be reported as slow."""
    second = threading.Event()

    @tool(timeout=60)
    def slow() -> str:
        skipped.skip(60)
        assert second.wait(PATIENCE)
        skipped.skip(120)
        return "late"

    @tool(timeout=60)
    def quick() -> str:
        return "quick"

    def watch(item: Any) -> None:
        if isinstance(item, ToolStarted) and item.call.name == "quick":
            second.set()

    agent = Agent(ScriptedModel([[ToolCall("slow"), ToolCall("quick")], "Done."]), tools=[slow, quick])
    run = agent.run_sync("go", watch=watch)
    assert [result.error_code for result in run.rounds[0].results] == ["timeout", None]
    assert run.rounds[0].results[1].text == "quick"


@pytest.mark.req("R0.72")
def test_slow_plain_tool_on_its_thread_is_abandoned_too(skipped: SkippedClock) -> None:
    @tool(timeout=60)
    def slow() -> str:
        skipped.skip(60)
        return "late"

    run = Agent(ScriptedModel([ToolCall("slow"), "Done."]), tools=[slow]).run_sync("go")
    assert [result.error_code for result in run.rounds[0].results] == ["timeout"]


@pytest.mark.req("R0.73")
def test_data_frame_table_is_kept_but_not_sent() -> None:
    frame = pd.DataFrame({"species": ["Adelie"], "mass": [3750.0]})

    def load() -> pd.DataFrame:
        return frame

    model = ScriptedModel([ToolCall("load"), "Done."])
    run = Agent(model, tools=[load]).run_sync("go")
    (record,) = run.rounds[0].records
    assert record.display == Table(("species", "mass"), ((0, "Adelie", 3750.0),), 1, 2, ("",))
    assert record.result is not None and record.result.parts == (Text(frame_text(frame) or ""),)
    assert model.requests[1].messages[-1].parts[0] == record.result
    assert Run.from_events(run.events).rounds[0].records == run.rounds[0].records


def test_first_frame_among_several_values_becomes_the_table() -> None:
    def load() -> list[Any]:
        return ["Look:", pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]})]

    display = run_with([load], ToolCall("load")).rounds[0].records[0].display
    assert display is not None and display.columns == ("a",)


def test_result_without_a_table_has_no_display() -> None:
    def add(a: int) -> int:
        return a

    def broken() -> str:
        raise RuntimeError("boom")

    run = run_with([add, broken], ToolCall("add", {"a": 1}), ToolCall("broken"), ToolCall("nothing_like_it"))
    assert [record.display for record in run.rounds[0].records] == [None] * 3


def test_any_table_built_by_a_tool_can_be_logged() -> None:
    odd: Any = (("\ud800", Decimal("1.5")),)

    async def made() -> ToolOutcome:
        return ToolOutcome(True, (Text("a table"),), display=Table(("a", "b"), odd, 1, 2))

    async def mistaken() -> ToolOutcome:
        wrong: Any = "no table"
        return ToolOutcome(True, (Text("no table"),), display=wrong)

    run = run_with([made, mistaken], ToolCall("made"), ToolCall("mistaken"))
    first, second = run.rounds[0].records
    assert first.display == Table(("a", "b"), (("\ufffd", "1.5"),), 1, 2) and second.display is None
    assert b"1.5" in b"".join(map(encode, run.events))


def test_frame_without_a_table_is_described_in_text() -> None:
    class Frame(pd.DataFrame):
        @property
        def columns(self) -> Any:
            return pd.Index(["a"])

    def load() -> Any:
        value = Frame({"a": [1]})
        value.index.names = [Odd()]
        return value

    class Odd:
        __hash__ = object.__hash__

        def __str__(self) -> str:
            raise RuntimeError("no name")

    record = run_with([load], ToolCall("load")).rounds[0].records[0]
    assert record.success and record.display is None


def test_null_arguments_mean_no_arguments(subtests: pytest.Subtests) -> None:
    def now() -> str:
        """Now."""
        return "noon"

    def later(hours: int = 1) -> str:
        """Later."""
        return f"in {hours}"

    class Foreign:
        spec = ToolSpec("foreign")
        effects = None
        parallel_safe = blocking = repeatable = False
        timeout = None

        async def run(self, arguments: Any, context: Any) -> ToolOutcome:
            return ToolOutcome(True, (Text(f"{arguments}"),))

    for one, text in ((now, "noon"), (later, "in 1"), (Foreign(), "{}")):
        with subtests.test(text):
            name = one.spec.name if isinstance(one, Foreign) else one.__name__
            run = Agent(ScriptedModel([ToolCall(name, None, "c1"), "So."]), tools=[one], todos=False).run_sync("go")
            assert run.rounds[0].results[0].text == text
