"""Tools that call other tools of their run, and begin nested runs."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from marked_logs import own_run
from run_checks import assert_closed, assert_every_call_has_one_result, codes, results
from scripted_runs import add
from virtual_time import SkippedClock
from waiting import PATIENCE, wait_until

from agentnb import Agent, Run, RunOptions, Store, ToolCall, tool
from agentnb.core.log import events as e
from agentnb.core.log.wire import decode, encode
from agentnb.core.messages import ToolResult
from agentnb.core.run.inner_calls import with_inner
from agentnb.core.run.rounds import DENIED, INTERRUPTED, MAX_TOOL_CALLS, CallRecord
from agentnb.errors import SettingsError, ToolFailed
from agentnb.models import ScriptedModel
from agentnb.policies.gates import Ask, Deny, Verdict
from agentnb.tools.tool import ToolContext


async def fails(a: int = 0) -> None:
    raise ValueError("no such row")


async def total(context: ToolContext, numbers: tuple[int, ...]) -> int:
    """Adds up, with another tool."""
    found = 0
    for number in numbers:
        found = (await context.call("add", {"a": found, "b": number})).value
    return found


def call(*numbers: int) -> ToolCall:
    return ToolCall("total", {"numbers": list(numbers)})


def agent(*calls: ToolCall, tools: Any = (add, fails, total), **settings: Any) -> Agent:
    return Agent(ScriptedModel([list(calls), "Done."]), tools=tools, todos=False, **settings)


def checked(run: Run) -> Run:
    """Check that every call was answered once, and that the log recreates the run."""
    assert_closed(run)
    assert Run.from_events(run.events) == run
    assert Run.from_events([decode(encode(event)) for event in run.events]) == run
    for round_ in run.rounds:
        assert [result.call_id for result in round_.results] == [asked.id for asked in round_.calls]
    answered = [event.result.call_id for event in run.events if isinstance(event, e.ToolFinished | e.CallBlocked)]
    assert max(Counter(answered).values(), default=0) <= 1
    started = {event.call.id for event in run.events if isinstance(event, e.ToolStarted)}
    assert started <= set(answered)
    own = {asked.id for round_ in run.rounds for asked in round_.calls}
    told = [part.call_id for message in run.messages for part in message.parts if isinstance(part, ToolResult)]
    assert set(told) == own
    return run


def inner(run: Run) -> tuple[CallRecord, ...]:
    return run.rounds[0].records[0].inner


@pytest.mark.req("R0.74")
def test_inner_call_is_logged_and_never_sent() -> None:
    model = ScriptedModel([call(1, 2, 3), "Done."])
    run = checked(Agent(model, tools=[add, total], todos=False).run_sync("go"))
    assert results(run)[0].text == "6"
    first = run.rounds[0].calls[0].id
    assert [(record.call.id, record.call.arguments, record.success) for record in inner(run)] == [
        (f"{first}.1", {"a": 0, "b": 1}, True),
        (f"{first}.2", {"a": 1, "b": 2}, True),
        (f"{first}.3", {"a": 3, "b": 3}, True),
    ]
    assert [event.parent_call for event in run.events if isinstance(event, e.ToolStarted)] == ["", first, first, first]
    assert run.calls_made == 4
    sent = [part.call_id for part in model.requests[1].messages[-1].parts if isinstance(part, ToolResult)]
    assert sent == [first] and not run.has_call_id(f"{first}.1")


def test_inner_call_returns_value_and_text() -> None:
    async def asks(context: ToolContext) -> str:
        outcome = await context.call("add", {"a": 1, "b": 2})
        return f"{outcome.value!r} {outcome.text!r}"

    assert results(agent(ToolCall("asks"), tools=[add, asks]).run_sync("go"))[0].text == "3 '3'"


@pytest.mark.req("R0.74")
def test_inner_failure_is_raised_in_the_tool_and_catchable(subtests: pytest.Subtests) -> None:
    async def lets(context: ToolContext, name: str) -> str:
        return (await context.call(name)).text

    async def catches(context: ToolContext, name: str) -> str:
        try:
            return (await context.call(name)).text
        except ToolFailed as error:
            return f"{error.error_code}: {error}"

    for name, code, told in [
        ("fails", "tool_error", "no such row"),
        ("add", "invalid_arguments", "add was not run"),
        ("nothing", "unknown_tool", "nothing"),
    ]:
        with subtests.test(name):
            names = ToolCall("lets", {"name": name}), ToolCall("catches", {"name": name})
            run = checked(agent(*names, tools=[add, fails, lets, catches]).run_sync("go"))
            assert codes(run) == ["tool_error", None]
            assert "lets called another tool, which failed" in results(run)[0].text and told in results(run)[0].text
            assert results(run)[1].text.startswith(f"{code}: ") and told in results(run)[1].text
            assert inner(run)[0].result is not None and inner(run)[0].result.error_code == code


@pytest.mark.req("KX.2")
def test_gates_and_limits_apply_to_inner_calls() -> None:
    run = checked(agent(call(1, 2, 3), max_tool_calls=3).run_sync("go"))
    assert codes(run) == ["tool_error"] and MAX_TOOL_CALLS in results(run)[0].text
    assert [record.success for record in inner(run)] == [True, True, False]

    def no_threes(asked: ToolCall, run: Run) -> Verdict:
        return Deny("No threes.", "odd") if asked.name == "add" and asked.arguments["b"] == 3 else None

    run = checked(agent(call(1, 3), gates=[no_threes]).run_sync("go"))
    assert inner(run)[1].rule == "odd" and "No threes." in results(run)[0].text
    assert inner(run)[1].result is not None and inner(run)[1].result.error_code == DENIED


@pytest.mark.req("KX.5")
def test_gate_may_ask_about_inner_calls_and_arguments_may_change() -> None:
    def careful(asked: ToolCall, run: Run) -> Verdict:
        return Ask("May I add?") if asked.name == "add" else None

    live = agent(call(1), gates=[careful]).start("go")
    wait_until(lambda: live.run.waiting or live.done)
    assert live.run.waiting[0].call_id == f"{live.run.rounds[0].calls[0].id}.1"
    live.answer({"edit": {"a": 40, "b": 2}})
    run = checked(live.result(PATIENCE))
    assert results(run)[0].text == "42" and inner(run)[0].call.arguments == {"a": 40, "b": 2}


@pytest.mark.req("KX.5", "R0.72")
def test_outer_call_clock_pauses_while_an_inner_call_asks(skipped: SkippedClock) -> None:
    async def sure(context: ToolContext) -> str:
        return str(await context.ask("Sure?"))

    @tool(timeout=60)
    async def waits(context: ToolContext) -> str:
        return (await context.call("sure")).text

    live = agent(ToolCall("waits"), tools=[sure, waits]).start("go")
    wait_until(lambda: live.run.waiting or live.done)
    skipped.skip(120)
    live.answer("yes")
    run = checked(live.result(PATIENCE))
    assert results(run)[0].text == "yes"


def test_unsafe_inner_calls_run_sequentially_and_safe_ones_in_parallel() -> None:
    running: list[int] = []
    most: list[int] = []
    both = threading.Barrier(2)

    async def step(n: int) -> None:
        running.append(n)
        most.append(len(running))
        await asyncio.sleep(0)
        running.remove(n)

    @tool(parallel_safe=True)
    def meet(n: int) -> None:
        both.wait(PATIENCE)

    async def many(context: ToolContext) -> None:
        await asyncio.gather(*[context.call("step", {"n": n}) for n in range(4)])
        await asyncio.gather(*[context.call("meet", {"n": n}) for n in range(2)])

    run = checked(agent(ToolCall("many"), tools=[step, meet, many]).run_sync("go"))
    assert most == [1] * 4 and codes(run) == [None] and len(inner(run)) == 6


def test_inner_calls_can_be_nested() -> None:
    async def twice(context: ToolContext) -> str:
        return (await context.call("total", {"numbers": [1, 2]})).text

    run = checked(agent(ToolCall("twice"), tools=[add, total, twice]).run_sync("go"))
    first = run.rounds[0].calls[0].id
    found = [(above, one.call.id) for above, one in with_inner(run.rounds[0].records)]
    assert found == [("", first), (first, f"{first}.1"), (f"{first}.1", f"{first}.1.1"), (f"{first}.1", f"{first}.1.2")]


def test_arguments_not_serializable_as_json_are_refused() -> None:
    async def wrong(context: ToolContext) -> None:
        await context.call("add", {"a": object()})

    run = checked(agent(ToolCall("wrong"), tools=[add, wrong]).run_sync("go"))
    assert codes(run) == ["tool_error"] and "cannot be written as JSON" in results(run)[0].text and inner(run) == ()


def test_unawaited_inner_call_is_cancelled_with_its_tool() -> None:
    kept: list[Any] = []
    begun = threading.Event()

    @tool(parallel_safe=True)
    async def asks(context: ToolContext) -> None:
        await context.ask("Sure?")

    async def leaves(context: ToolContext) -> str:
        kept.append(asyncio.ensure_future(context.call("asks")))
        assert await asyncio.to_thread(begun.wait, PATIENCE)
        while not live.run.waiting:
            await asyncio.sleep(0.001)
        return "left"

    live = agent(ToolCall("leaves"), tools=[asks, leaves]).start("go")
    begun.set()
    run = checked(live.result(PATIENCE))
    assert codes(run) == [None] and not run.waiting
    assert inner(run)[0].result is not None and inner(run)[0].result.error_code == "cancelled"


def left_calls(count: int, *, parallel_safe: bool) -> tuple[Run, list[asyncio.Future[Any]]]:
    """Return a run whose tool ends before its calls of ``slow``, and these calls."""
    kept: list[asyncio.Future[Any]] = []
    begun, released = asyncio.Event(), asyncio.Event()

    @tool(parallel_safe=parallel_safe)
    async def slow() -> None:
        begun.set()
        await released.wait()

    async def leaves(context: ToolContext) -> None:
        kept.extend(asyncio.ensure_future(context.call("slow")) for _ in range(count))
        await begun.wait()

    async def releases() -> None:
        released.set()
        await asyncio.wait(kept)

    script = ScriptedModel([[ToolCall("leaves")], [ToolCall("releases")], "Done."])
    return checked(Agent(script, tools=[slow, leaves, releases], todos=False).run_sync("go")), kept


def test_call_finishing_after_its_tool_keeps_one_result() -> None:
    run, kept = left_calls(1, parallel_safe=True)
    assert [record.result.error_code for record in inner(run) if record.result is not None] == ["cancelled"]
    assert isinstance(kept[0].exception(), ToolFailed)


def test_queued_call_does_not_start_after_its_tool_ends() -> None:
    run, kept = left_calls(2, parallel_safe=False)
    assert [event.call.name for event in run.events if isinstance(event, e.ToolStarted)] == ["leaves", "slow", "releases"]
    assert kept[1].cancelled()


def test_model_call_id_never_equals_an_inner_call_id() -> None:
    calls = [ToolCall("total", {"numbers": [1]}, "a"), ToolCall("add", {"a": 2, "b": 2}, "a.1")]
    run = checked(agent(*calls).run_sync("go"))
    assert [result.text for result in results(run)] == ["1", "4"]
    assert run.rounds[0].calls[0].id == "a" and inner(run)[0].call.id == "a.1" != run.rounds[0].calls[1].id


@pytest.mark.req("KX.11")
def test_open_inner_calls_are_answered_after_death_and_ids_continue() -> None:
    whole = agent(call(1, 2)).run_sync("go")
    second = [event for event in whole.events if isinstance(event, e.ToolStarted)][2]
    died = own_run(whole.events[: second.seq + 1])
    again = Agent(ScriptedModel(["Done."]), tools=[add, tool(repeatable=True)(total)], todos=False)
    run = checked(again.resume(died, options=RunOptions(can_ask=False)).result(PATIENCE))
    found = [(record.call.id.rpartition(".")[2], record.result and record.result.error_code) for record in inner(run)]
    assert found == [("1", None), ("2", INTERRUPTED), ("3", None), ("4", None)]
    assert results(run)[0].text == "3"


# Nested runs


@pytest.mark.req("KX.2")
def test_nested_run_started_by_a_tool_is_stored_and_charged(tmp_path: Path) -> None:
    found: list[Run] = []

    async def delegate(context: ToolContext) -> str:
        found.append(await context.start_run(agent(call(1, 2)), "inner"))
        return str(found[0].rounds[0].results[0].text)

    store = Store(tmp_path)
    run = checked(agent(ToolCall("delegate"), tools=[delegate]).run_sync("go", store=store))
    assert results(run)[0].text == "3" and found[0].parent_id == run.id
    assert store.load(found[0].id) == found[0]
    assert_every_call_has_one_result(run)


def test_invalid_agent_starts_no_run() -> None:
    async def delegate(context: ToolContext) -> None:
        await context.start_run("helper", "inner")

    run = agent(ToolCall("delegate"), tools=[delegate]).run_sync("go")
    assert codes(run) == ["tool_error"] and "is not an Agent" in results(run)[0].text


def test_call_on_a_context_without_a_run_is_refused() -> None:
    async def nothing(work: Any, safe: bool) -> None: ...

    context = ToolContext("r", "c", Path(), nothing)
    with pytest.raises(SettingsError, match="outside a run"):
        asyncio.run(context.call("add"))


@pytest.mark.parametrize("safe", [True, False])
def test_endlessly_recursive_tool_gets_an_error_and_the_run_continues(safe: bool) -> None:
    @tool(parallel_safe=safe)
    async def again(context: ToolContext, n: int = 0) -> str:
        try:
            return (await context.call("again", {"n": n + 1})).text
        except ToolFailed as error:
            return f"{n}: {error.error_code}"

    run = checked(agent(ToolCall("again"), tools=[again]).run_sync("go"))
    assert run.status == "completed" and results(run)[0].text == "10: too_many_levels"


def test_endlessly_nested_runs_end_with_an_error(tmp_path: Path) -> None:
    async def delegate(context: ToolContext) -> str:
        inner = await context.start_run(
            Agent(ScriptedModel([ToolCall("delegate"), "Done."]), tools=[delegate], todos=False), "go"
        )
        return str(inner.rounds[0].results[0].text)

    run = agent(ToolCall("delegate"), tools=[delegate]).run_sync("go", store=Store(tmp_path))
    assert run.status == "completed" and "nested 20 levels deep" in results(run)[0].text
    assert len(Store(tmp_path).ids()) == 20


def test_sync_tools_can_call_other_tools(subtests: pytest.Subtests) -> None:
    def doubled(context: ToolContext, n: int) -> int:
        return context.call_sync("add", {"a": n, "b": n}).value

    def twice(context: ToolContext, n: int) -> int:
        return context.call_sync("doubled", {"n": context.call_sync("doubled", {"n": n}).value}).value

    async def hurried(context: ToolContext) -> str:
        return context.call_sync("add", {"a": 1, "b": 1}).text

    def nested(context: ToolContext) -> str:
        return context.call_sync("asks_agent").text

    async def asks_agent(context: ToolContext) -> str:
        inner = Agent(ScriptedModel([[ToolCall("add", {"a": 2, "b": 2})], "Four."]), tools=[add], todos=False)
        return (await context.start_run(inner, "Add.")).text

    tools = (add, doubled, twice, hurried, nested, asks_agent)
    cases = {"twice": ({"n": 3}, "12"), "nested": ({}, "Four."), "hurried": ({}, "Use await context.call(...)")}
    for name, (arguments, text) in cases.items():
        for way in ("run", "run_sync"):
            with subtests.test(f"{name} {way}"):
                made = agent(ToolCall(name, arguments), tools=tools)
                run = checked(
                    made.run_sync("Go.", show=False) if way == "run_sync" else asyncio.run(made.run("Go.", show=False))
                )
                assert text in run.rounds[0].results[0].text
