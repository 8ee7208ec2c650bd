"""In which order the calls of one reply run, which run at the same time, and in which order they are answered."""

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
def test_calls_start_in_the_order_asked_for_and_only_those_that_are_safe_run_beside_others() -> None:
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
    # The third look follows a call that waits for the person, and does not wait for it.
    in_turn = ["look 0", "step 1", "step 1 over", "ask 2", "look 3", "ask 2 over"]
    assert order == [*in_turn, "step 4", "step 4 over", "ask 5", "ask 5 over"]
    assert [result.text for result in results(run)] == ["look 0", "step 1", "ask 2", "look 3", "step 4", "ask 5"]


@pytest.mark.req("R0.72", "K2.5")
def test_async_calls_that_are_safe_run_at_the_same_time_and_are_answered_in_order_of_request() -> None:
    second_ended = threading.Event()

    @tool(parallel_safe=True)
    async def first() -> str:
        async with asyncio.timeout(LONG):
            while not second_ended.is_set():  # never comes about if the calls run one after the other
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
def test_plain_calls_that_are_safe_overlap_in_threads() -> None:
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
def test_what_only_reads_is_safe_beside_others_by_default_and_nothing_else_is() -> None:
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
def test_tools_without_settings_never_run_at_the_same_time() -> None:
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
def test_one_call_that_fails_of_several_at_once_never_loses_the_others() -> None:
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
def test_the_start_of_a_call_is_logged_before_the_next_is_judged() -> None:
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
def test_a_call_that_takes_longer_than_it_may_is_given_up_and_says_so(together: bool) -> None:
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


def test_a_timeout_of_the_tools_own_is_its_own_error() -> None:
    @tool(timeout=LONG)
    async def asks_a_server() -> None:
        raise TimeoutError("the server is slow")

    run = run_with([asks_a_server], ToolCall("asks_a_server"))
    assert codes(run) == ["tool_error"]
    assert "the server is slow" in results(run)[0].text


def test_a_tool_that_ends_in_time_is_not_given_up() -> None:
    @tool(timeout=LONG)
    def quick() -> str:
        return "quick"

    assert [result.text for result in results(run_with([quick], ToolCall("quick")))] == ["quick"]


def test_the_time_of_a_call_is_the_time_its_tool_took() -> None:
    @tool(parallel_safe=True)
    async def sleeps(seconds: float) -> None:
        await asyncio.sleep(seconds)

    run = run_with([sleeps], ToolCall("sleeps", {"seconds": 0.1}), ToolCall("sleeps", {"seconds": 0.0}))
    longer, shorter = run.rounds[0].records
    assert longer.seconds >= 0.09 > shorter.seconds


@pytest.mark.req("R0.72")
@pytest.mark.parametrize("count", [16, 80])
def test_as_many_plain_tools_as_asked_for_run_at_the_same_time(count: int) -> None:
    all_there = threading.Barrier(count)

    @tool(parallel_safe=True, repeatable=True)
    def meet() -> str:
        all_there.wait(30)
        return "met"

    run = Agent(ScriptedModel([[ToolCall("meet")] * count, "Done."]), tools=[meet]).run_sync("go")
    assert [result.text for result in run.rounds[0].results] == ["met"] * count


@pytest.mark.req("R0.72", "R0.13")
def test_after_a_tool_that_swallows_its_cancellation_no_other_is_begun() -> None:
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


def test_a_call_that_was_given_up_takes_nobodys_place_and_keeps_no_process_alive() -> None:
    """Seventy calls that never end, then one more; in a process of its own, which must end."""
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
def test_the_time_a_plain_tool_waits_for_its_thread_is_not_its_own(skipped: SkippedClock) -> None:
    """The first call is given up and still holds the thread; the second must not be told that it was slow."""
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
def test_a_plain_tool_that_is_slow_on_its_thread_is_given_up_all_the_same(skipped: SkippedClock) -> None:
    @tool(timeout=60)
    def slow() -> str:
        skipped.skip(60)
        return "late"

    run = Agent(ScriptedModel([ToolCall("slow"), "Done."]), tools=[slow]).run_sync("go")
    assert [result.error_code for result in run.rounds[0].results] == ["timeout"]


@pytest.mark.req("R0.73")
def test_the_table_of_a_frame_stands_beside_the_words_for_the_model_and_is_not_sent() -> None:
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


def test_of_several_values_the_first_frame_is_the_table() -> None:
    def load() -> list[Any]:
        return ["Look:", pd.DataFrame({"a": [1]}), pd.DataFrame({"b": [1]})]

    display = run_with([load], ToolCall("load")).rounds[0].records[0].display
    assert display is not None and display.columns == ("a",)


def test_what_is_no_table_has_none() -> None:
    def add(a: int) -> int:
        return a

    def broken() -> str:
        raise RuntimeError("boom")

    run = run_with([add, broken], ToolCall("add", {"a": 1}), ToolCall("broken"), ToolCall("nothing_like_it"))
    assert [record.display for record in run.rounds[0].records] == [None] * 3


def test_a_table_that_a_tool_made_by_hand_can_always_be_logged() -> None:
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


def test_a_frame_that_cannot_be_made_a_table_is_told_in_words() -> None:
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


def test_null_is_no_arguments(subtests: pytest.Subtests) -> None:
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
