"""Runs at their limits: names, kept results, continuation and `on_limit`."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
from run_checks import checked, codes, limits_reached
from scripted_runs import bare, do, work
from sent_requests import assert_made_again
from streamed_replies import FOREVER, Streamed, Streaming
from summarising import Summarising, priced
from virtual_time import OnThisLoop, SkippedClock, VirtualTimeLoop

from agentnb import Agent, Store, ToolCall, fork_sync, replay, tool
from agentnb.core.log.events import TextDelta
from agentnb.core.messages import Text
from agentnb.core.request import Request
from agentnb.detect.run import Run
from agentnb.errors import ModelError, RunLimited, SettingsError
from agentnb.guidance.prompts import prompt
from agentnb.models.model import StreamItem
from agentnb.models.scripted import ScriptedModel
from agentnb.policies import PolicyBundle
from agentnb.policies.verdict import Continue
from agentnb.runtime.host.run_options import RunOptions
from agentnb.tools.tool import ToolContext

PATIENCE = 20
SOON = 60.0
"""Time limit of a run, in seconds; skipped when the slow tool has started."""


class TimeUp:
    """Exceeds the time limit when the tool has started; ``late``: the tool was not interrupted."""

    def __init__(self, clock: SkippedClock) -> None:
        self._clock = clock
        self.late = False

    def __call__(self) -> None:
        self._clock.skip(SOON)


def waits(begun: Callable[[], None]) -> Any:
    """Return a tool that exceeds every time limit."""

    async def slow() -> str:
        """Takes its time."""
        begun()
        await asyncio.sleep(10 * SOON)
        return "late"

    return slow


def script(count: int) -> list[Any]:
    return [priced(do(number), cost=0.3, tokens=(100, 20)) for number in range(count)]


LIMITS: dict[str, tuple[float, int]] = {
    "max_rounds": (3, 3),
    "max_tool_calls": (2, 3),
    "max_tool_calls_per_turn": (2, 3),
    "max_tokens": (300, 3),
    "budget": (0.7, 3),
}
"""A value of each, and after how many rounds it is reached."""


@pytest.mark.req("KX.2", "KX.11", "K2.2")
def test_each_limit_has_one_name_for_setting_and_reason(
    subtests: pytest.Subtests, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name, (value, rounds) in LIMITS.items():
        with subtests.test(name=name):
            tmp_path = tmp_path_factory.mktemp("case")
            store = Store(tmp_path / "runs")
            model = ScriptedModel(script(9))
            run = checked(bare(model, [work], **{name: value}).run_sync("go", store=store))
            assert (run.status, run.stop_reason, limits_reached(run)) == ("limited", name, [(name, value)])
            assert run.settings[name] == value and run.limit is not None
            assert len(run.rounds) == rounds == len(model.requests)
            done = [result.text for round in run.rounds for result in round.results if not result.is_error]
            assert done == [f"made {number}" for number in range(len(done))] and len(done) >= 2
            assert store.load(run.id) == run
            assert_made_again(run, model.requests)


@pytest.mark.req("KX.2", "R2.8")
def test_limited_conversation_continues_with_counts_from_zero(
    subtests: pytest.Subtests, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name, (value, rounds) in LIMITS.items():
        with subtests.test(name=name):
            tmp_path = tmp_path_factory.mktemp("case")
            store = Store(tmp_path / "runs")
            first = bare(ScriptedModel(script(9)), [work], **{name: value}).run_sync("go", store=store)
            model = ScriptedModel([priced(do(7), cost=0.3, tokens=(100, 20)), priced("Done.", cost=0.3, tokens=(100, 20))])
            run = bare(model, [work], **{name: value}).run_sync("On.", continue_from=store.load(first.id))
            assert (checked(run).status, run.text, limits_reached(run)) == ("completed", "Done.", [])
            again = bare(ScriptedModel(script(9)), [work], **{name: value}).run_sync("On.", continue_from=first)
            assert len(checked(again).rounds) == rounds and again.stop_reason == name


@pytest.mark.req("K2.2")
def test_limit_can_raise_an_error_carrying_the_run(subtests: pytest.Subtests) -> None:
    for name, (value, _) in LIMITS.items():
        with subtests.test(name=name):
            with pytest.raises(RunLimited, match=f"{name}, {value:g}") as caught:
                bare(ScriptedModel(script(9)), [work], **{name: value}, on_limit="raise").run_sync("go")
            run = caught.value.run
            assert run is not None and (checked(run).status, run.stop_reason) == ("limited", name)
            assert "continue_from=error.run" in caught.value.hint
            assert bare(ScriptedModel(["Done."]), [work]).run_sync("On.", continue_from=run).text == "Done."


@pytest.mark.req("K2.2", "KX.11")
def test_final_answer_at_a_limit_is_requested_without_tools(subtests: pytest.Subtests) -> None:
    for name, (value, rounds) in LIMITS.items():
        with subtests.test(name=name):
            model = ScriptedModel([*script(rounds), priced("This is what I have.", cost=0.3, tokens=(100, 20)), "Too many."])
            run = checked(bare(model, [work], **{name: value}, on_limit="final_answer").run_sync("go"))
            assert (run.status, run.stop_reason, limits_reached(run)) == ("limited", name, [(name, value)])
            assert run.text == "This is what I have." and run.rounds[-1].reason == "final_answer"
            assert len(run.rounds) == len(model.requests) == rounds + 1
            last, before = model.requests[-1], model.requests[-2]
            assert last.settings == {"tool_choice": "none"} and last.tools == before.tools
            words = prompt("final_answer").replace("{{ limit }}", f"{name}, {value:g}")
            assert words in last.messages[-1].text
            assert_made_again(run, model.requests)


@pytest.mark.req("K2.2")
def test_limit_that_is_not_reached_changes_nothing() -> None:
    limits = {"max_rounds": 4, "max_tool_calls": 3, "max_tool_calls_per_turn": 3, "max_tokens": 1_000, "budget": 5.0}
    for on_limit in ("stop", "final_answer", "raise"):
        model = ScriptedModel([*script(3), "Done."])
        agent = bare(model, [work], **limits, max_seconds=60, on_limit=on_limit)
        run = checked(agent.run_sync("go"))
        assert (run.status, run.text, limits_reached(run), len(model.requests)) == ("completed", "Done.", [], 4)


@pytest.mark.req("K2.2", "KX.11")
def test_calls_in_a_final_answer_are_not_run() -> None:
    ran: list[int] = []

    def count(n: int) -> str:
        """Counts."""
        ran.append(n)
        return "counted"

    model = ScriptedModel([ToolCall("count", {"n": 1}), ["I count on.", ToolCall("count", {"n": 2})], "Done."])
    run = checked(bare(model, [count], max_rounds=1, on_limit="final_answer").run_sync("go"))
    assert (ran, run.text, codes(run), len(model.requests)) == ([1], "I count on.", [None, "limit_reached"], 2)
    assert "a limit of the run was reached" in run.rounds[-1].results[0].text


@pytest.mark.req("K2.2")
@pytest.mark.parametrize("error", [ModelError("It is down", "Wait"), RuntimeError("gone")], ids=repr)
def test_failed_final_answer_adds_a_warning_to_the_run(error: Exception) -> None:
    model = ScriptedModel([do(1), error])
    run = checked(bare(model, [work], max_rounds=1, on_limit="final_answer").run_sync("go"))
    assert (run.status, run.stop_reason, run.error) == ("limited", "max_rounds", None)
    (warning,) = run.warnings
    assert str(error) in warning or "gone" in warning
    assert run.rounds[-1].status == "error"


@pytest.mark.req("K2.2")
def test_stop_during_the_final_answer_ends_the_run() -> None:
    entered = threading.Event()

    live = bare(
        Streaming([do(1), Streamed("Half of ", entered, FOREVER)]), [work], max_rounds=1, on_limit="final_answer"
    ).start("go")
    assert entered.wait(PATIENCE)
    live.stop()
    run = checked(live.result(PATIENCE))
    assert (run.status, run.text, limits_reached(run)) == ("cancelled", "Half of ", [("max_rounds", 1)])


def test_user_message_at_the_limit_is_kept_for_continuing(skipped: SkippedClock) -> None:
    entered = threading.Event()

    async def slow() -> str:
        """Takes its time."""
        entered.set()
        await asyncio.sleep(10 * SOON)
        return "late"

    live = bare(ScriptedModel([ToolCall("slow")]), [slow], max_seconds=SOON).start("go")
    assert entered.wait(PATIENCE)
    live.say("And mind the header.")
    skipped.skip(SOON)
    run = checked(live.result(PATIENCE))
    assert run.messages[-1].text == "And mind the header."
    model = ScriptedModel(["Done."])
    bare(model, [work]).run_sync("On.", continue_from=run)
    assert "And mind the header." in model.requests[0].messages[-1].text


# Calls of tools


@pytest.mark.req("KX.2", "KX.11")
def test_parallel_calls_above_a_limit_get_results_naming_it() -> None:
    model = ScriptedModel([[do(1), do(2), do(3)], "Done."])
    run = checked(bare(model, [work], max_tool_calls=2).run_sync("go"))
    assert codes(run) == [None, None, "max_tool_calls"] and run.stop_reason == "max_tool_calls"


@pytest.mark.req("KX.2")
def test_using_exactly_the_allowed_calls_still_permits_an_answer() -> None:
    run = checked(bare(ScriptedModel([[do(1), do(2)], "Done."]), [work], max_tool_calls=2).run_sync("go"))
    assert (run.status, run.text) == ("completed", "Done.")


@pytest.mark.req("KX.2")
def test_user_message_resets_the_call_count_of_the_turn() -> None:
    entered, go = threading.Event(), threading.Event()

    def wait(n: int = 0) -> str:
        """Waits."""
        entered.set()
        go.wait(PATIENCE)
        return "waited"

    model = ScriptedModel([do(1), ToolCall("wait"), do(2), do(3), do(4), "Done."])
    live = bare(model, [work, wait], max_tool_calls_per_turn=2).start("go")
    assert entered.wait(PATIENCE)
    live.say("Go on.")
    go.set()
    run = checked(live.result(PATIENCE))
    assert codes(run) == [None] * 4 + ["max_tool_calls_per_turn"]


# Time


class Dripping(ScriptedModel):
    """Exceeds the time limit during its first reply."""

    def __init__(self, replies: list[Any], clock: SkippedClock) -> None:
        super().__init__(replies)
        self._clock = clock

    async def stream(self, request: Request) -> AsyncIterator[StreamItem]:
        if not self.requests:
            self.requests.append(request)
            yield TextDelta("Half of an ")
            self._clock.skip(SOON)
            await asyncio.sleep(10 * SOON)
        async for item in super().stream(request):
            yield item


def blocks(begun: TimeUp) -> Any:
    """Return a sync tool that blocks, and notes if it was not interrupted."""

    def slow() -> str:
        """Takes its time."""
        begun()
        threading.Event().wait(10)
        begun.late = True
        return "late"

    return slow


def swallows(begun: TimeUp) -> Any:
    """Return an async tool that ignores its cancellation for a while."""

    async def slow() -> str:
        """Takes its time."""
        begun()
        until = time.monotonic() + 1.0
        while time.monotonic() < until:
            try:
                await asyncio.sleep(0.05)
            except asyncio.CancelledError:
                continue
        return "late"

    return slow


def gives_in(begun: TimeUp) -> Any:
    """Return an async tool that ends when cancelled, with a result."""

    @tool(parallel_safe=True)
    async def slow() -> str:
        """Takes its time."""
        begun()
        try:
            await asyncio.sleep(10 * SOON)
        except asyncio.CancelledError:
            return "cut short"
        return "late"

    return slow


def beside(begun: TimeUp) -> Any:
    """Return a sync tool in its own thread."""
    return tool(parallel_safe=True)(blocks(begun))


TOOLS: dict[str, Callable[[TimeUp], Any]] = {
    "async": waits,
    "plain": blocks,
    "plain, in a thread": beside,
    "swallows its cancellation": swallows,
    "gives in": gives_in,
}


def out_of_time(
    make: Callable[[TimeUp], Any], clock: SkippedClock, on_limit: Any = "stop", way: str = "run_sync"
) -> tuple[Run, ScriptedModel]:
    """Return a run whose time limit is exceeded when this tool has started."""
    time_up = TimeUp(clock)
    slow = make(time_up)
    model = ScriptedModel([[do(1), ToolCall("slow"), do(2)], "This is what I have.", "Too many."])
    agent = bare(model, [work, slow], max_seconds=SOON, on_limit=on_limit)
    run = agent.run_sync("go") if way == "run_sync" else agent.start("go").result(PATIENCE)
    assert not time_up.late, "the tool was waited for"
    return checked(run), model


@pytest.mark.req("K2.2", "KX.2")
def test_final_answer_follows_a_tool_that_exceeds_max_seconds(subtests: pytest.Subtests, skipped: SkippedClock) -> None:
    for kind in [kind for kind in TOOLS if kind != "swallows its cancellation"]:
        with subtests.test(kind=kind):
            run, model = out_of_time(TOOLS[kind], skipped, "final_answer")
            assert (run.stop_reason, run.text, len(model.requests)) == ("max_seconds", "This is what I have.", 2)
            assert_made_again(run, model.requests)


@pytest.mark.slow("one of its tools ignores its cancellation for a second")
@pytest.mark.req("K2.2", "KX.2")
def test_tool_that_exceeds_max_seconds_can_raise(subtests: pytest.Subtests, skipped: SkippedClock) -> None:
    for kind, make in TOOLS.items():
        with subtests.test(kind=kind):
            with pytest.raises(RunLimited, match="max_seconds") as caught:
                out_of_time(make, skipped, "raise")
            assert caught.value.run is not None
            checked(caught.value.run)


@pytest.mark.parametrize("on_limit", ["stop", "final_answer"])
@pytest.mark.req("KX.2", "R0.12")
def test_reply_interrupted_by_max_seconds_keeps_its_beginning(on_limit: Any, skipped: SkippedClock) -> None:
    model = Dripping(["unused", "This is what I have."], skipped)
    run = checked(bare(model, [work], max_seconds=SOON, on_limit=on_limit).run_sync("go"))
    assert (run.status, run.stop_reason) == ("limited", "max_seconds")
    assert run.rounds[0].reply is not None and run.rounds[0].text == "Half of an "
    assert run.rounds[0].stop_reason == "broken_off"
    assert run.text == ("Half of an " if on_limit == "stop" else "This is what I have.")
    assert_made_again(run, model.requests)


@pytest.mark.req("KX.2")
def test_max_seconds_inside_an_event_loop_leaves_the_task_uncancelled(skipped: SkippedClock) -> None:
    async def around() -> Run:
        slow = waits(lambda: skipped.skip(SOON))
        run = await bare(ScriptedModel([ToolCall("slow")]), [slow], max_seconds=SOON).run("go")
        await asyncio.sleep(0)
        task = asyncio.current_task()
        assert task is not None and task.cancelling() == 0
        return run

    with asyncio.Runner(loop_factory=skipped.new_event_loop) as runner:
        assert checked(runner.run(around())).stop_reason == "max_seconds"


def on_quick_loop(steps: Callable[[VirtualTimeLoop], Coroutine[Any, Any, Run]]) -> Run:
    """Run on a loop with virtual time."""
    loop = VirtualTimeLoop()
    try:
        return checked(loop.run_until_complete(steps(loop)))
    finally:
        loop.close()


@pytest.mark.req("KX.2")
@pytest.mark.parametrize("paused", [True, False])
def test_paused_time_does_not_count(paused: bool) -> None:
    async def steps(loop: VirtualTimeLoop) -> Run:
        entered, go = asyncio.Event(), asyncio.Event()

        async def wait() -> str:
            """Waits."""
            entered.set()
            await go.wait()
            return "waited"

        live = bare(ScriptedModel([ToolCall("wait"), "Done."]), [wait], max_seconds=5).start(
            "go", RunOptions(thread=OnThisLoop(loop), can_ask=True)
        )
        await entered.wait()
        if paused:
            live.pause()
            go.set()
        await asyncio.sleep(1_000)
        assert live.run.should_continue is paused
        if paused:
            assert live.run.status == "waiting_on_user"
            live.resume()
        return await live

    assert on_quick_loop(steps).stop_reason == ("natural" if paused else "max_seconds")


@pytest.mark.req("KX.2", "KX.5")
@pytest.mark.parametrize("answered", [True, False])
def test_time_spent_on_an_open_question_does_not_count(answered: bool) -> None:
    async def steps(loop: VirtualTimeLoop) -> Run:
        asked = asyncio.Event()

        async def asks(context: ToolContext) -> str:
            """Asks the person."""
            loop.call_soon(asked.set)
            answer = str(await context.ask("Which?"))
            await asyncio.sleep(0 if answered else 100)
            return answer

        model = ScriptedModel([ToolCall("asks"), "Done."])
        live = bare(model, [asks], max_seconds=5).start("go", RunOptions(thread=OnThisLoop(loop), can_ask=True))
        await asked.wait()
        await asyncio.sleep(1_000)
        assert live.run.waiting
        live.answer("The first.")
        return await live

    run = on_quick_loop(steps)
    assert run.stop_reason == ("natural" if answered else "max_seconds")
    assert codes(run) == [None if answered else "time_limit"]


@pytest.mark.req("KX.2")
@pytest.mark.parametrize("inner_seconds", [None, SOON])
def test_nested_run_stops_at_the_outer_or_own_time_limit(inner_seconds: float | None, skipped: SkippedClock) -> None:
    async def inside() -> str:
        """Asks another."""
        slow = waits(lambda: skipped.skip(SOON))
        inner = bare(ScriptedModel([ToolCall("slow"), "?"]), [slow], max_seconds=inner_seconds)
        await inner.run("inner")
        return "ended by itself"

    model = ScriptedModel([ToolCall("inside"), "Done."])
    outer = checked(bare(model, [inside], max_seconds=SOON if inner_seconds is None else 10 * SOON).run_sync("go"))
    if inner_seconds is None:
        assert (outer.stop_reason, codes(outer)) == ("max_seconds", ["time_limit"])
    else:
        assert (outer.status, outer.rounds[0].results[0].text) == ("completed", "ended by itself")


# The settings


@pytest.mark.req("KX.2")
def test_invalid_limits_are_refused_by_name(subtests: pytest.Subtests) -> None:
    for fields, what in [
        ({"max_rounds": 0}, "max_rounds=0"),
        ({"max_rounds": 1_001}, "max_rounds=1001"),
        ({"max_tool_calls": 0}, "max_tool_calls=0"),
        ({"max_tool_calls": True}, "max_tool_calls=True"),
        ({"max_tool_calls_per_turn": 1.5}, r"max_tool_calls_per_turn=1\.5"),
        ({"max_tokens": -1}, "max_tokens=-1"),
        ({"max_seconds": 0}, "max_seconds=0"),
        ({"max_seconds": float("inf")}, "max_seconds=inf"),
        ({"max_seconds": "60"}, "max_seconds='60'"),
        ({"budget": -1.0}, r"budget=-1\.0"),
        ({"budget": float("nan")}, "budget=nan"),
        ({"budget": True}, "budget=True"),
        ({"budget": 10**400}, "budget=10000"),
        ({"budget": [5]}, r"budget=\[5\]"),
        ({"max_seconds": 10**400}, "max_seconds=10000"),
        ({"max_rounds": []}, r"max_rounds=\[\]"),
        ({"max_tokens": "many"}, "max_tokens='many'"),
        ({"on_limit": []}, r"on_limit=\[\]"),
        ({"on_limit": "explode"}, "on_limit='explode'"),
    ]:
        with subtests.test(fields=fields, what=what):
            with pytest.raises(SettingsError, match=what):
                Agent(ScriptedModel([]), **fields)


@pytest.mark.req("KX.2")
def test_unset_limits_are_not_logged() -> None:
    usual = bare(ScriptedModel(["Done."])).run_sync("go").settings
    assert not set(usual) & {"max_tool_calls", "max_tool_calls_per_turn", "max_seconds", "max_tokens", "budget", "on_limit"}
    logged = bare(ScriptedModel(["Done."]), budget=2.0, max_seconds=60, on_limit="raise").run_sync("go").settings
    assert (logged["budget"], logged["max_seconds"], logged["on_limit"]) == (2.0, 60, "raise")


def test_final_answer_prompt_is_sent_only_once() -> None:
    model = Summarising([do(1), "This is what I have."])
    run = checked(bare(model, [work], max_rounds=1, on_limit="final_answer").run_sync("go"))
    following = ScriptedModel(["Done."])
    bare(following, [work]).run_sync("On.", continue_from=run)
    sent = [part.text for message in following.requests[0].messages for part in message.parts if isinstance(part, Text)]
    assert not any("No more tools" in text for text in sent)


class GoesOn:
    """A policy that drops the limits and always continues."""

    name = "goes_on"

    def rules(self, words: Any, *limits: Any, repeatable: Any = ()) -> PolicyBundle:
        return PolicyBundle((lambda run: Continue("more"),))


class HandsOn(GoesOn):
    """A policy that returns its limits twice, first and last."""

    name = "hands_on"

    def rules(self, words: Any, *limits: Any, repeatable: Any = ()) -> PolicyBundle:
        return PolicyBundle((*limits, lambda run: Continue("more"), *limits))


@pytest.mark.req("KX.2", "K2.2")
def test_limits_apply_whatever_a_policy_returns(subtests: pytest.Subtests, tmp_path: Path) -> None:
    for policy in (GoesOn(), HandsOn()):
        for name, (value, rounds) in LIMITS.items():
            with subtests.test(f"{policy.name}, {name}"):
                outer = bare(Summarising(script(40)), [work], policy=policy, **{name: value})
                limits = [
                    policy for policy in outer.bundle.policies if type(policy).__module__ == "agentnb.policies.run_limits"
                ]
                assert len(limits) == len({type(limit) for limit in limits}), "each is joined once"
                run = outer.run_sync("Go.")
                assert (run.status, run.stop_reason, len(run.rounds)) == ("limited", name, rounds)

    async def nested() -> str:
        """Asks another."""
        run = await bare(Summarising(script(40)), [work], policy=GoesOn(), max_rounds=3).run("Go.")
        return f"{run.stop_reason} {len(run.rounds)}"

    store = Store(tmp_path)
    run = bare(Summarising([ToolCall("nested"), "Done."]), [nested]).run_sync("Go.", store=store)
    assert run.rounds[0].results[0].text == "max_rounds 3"
    long = bare(Summarising(script(9)), [work], max_rounds=8).run_sync("Go.")
    limits = {"max_rounds": 4}
    assert replay(long, policy=GoesOn(), limits=limits).rounds_saved == 4
    again = fork_sync(long, 2, model=Summarising(script(40)), tools=[work], policy=GoesOn(), limits=limits)
    assert (again.stop_reason, len(again.rounds)) == ("max_rounds", 4)


def test_policy_rules_must_be_a_bundle() -> None:
    class Plain(GoesOn):
        def rules(self, words: Any, *limits: Any, repeatable: Any = ()) -> Any:
            return (lambda run: Continue("more"),)

    with pytest.raises(SettingsError, match=r"goes_on returned .* which is not a PolicyBundle"):
        bare(Summarising([]), policy=Plain())
