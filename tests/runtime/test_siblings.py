"""A failing, exiting or slow call: its siblings keep their results, and the model gets advice."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from run_checks import assert_every_call_has_one_result, codes, results
from scripted_runs import bare

from agentnb import Run, ToolCall, tool
from agentnb.core.log.events import ToolFinished
from agentnb.models import ScriptedModel
from agentnb.testing import LoopbackServer

LONG = 30
Tools = list[Any]


class Turns:
    """Lets a call wait until watchers see the end of another."""

    def __init__(self) -> None:
        self.begun, self.failed = threading.Event(), threading.Event()

    def watch(self, item: Any) -> None:
        if isinstance(item, ToolFinished) and item.result.name == "bad":
            self.failed.set()

    async def until(self, event: threading.Event) -> None:
        assert await asyncio.to_thread(event.wait, LONG)


def raises(turns: Turns, together: bool = True) -> Any:
    @tool(parallel_safe=together)
    async def bad() -> None:
        await turns.until(turns.begun)
        raise ValueError("no such row")

    return bad


def raises_plainly(turns: Turns, together: bool = True) -> Any:
    @tool(parallel_safe=together)
    def bad() -> None:
        assert turns.begun.wait(LONG)
        raise ValueError("no such row")

    return bad


def quits(turns: Turns, together: bool = True) -> Any:
    @tool(parallel_safe=together)
    def bad() -> None:
        assert turns.begun.wait(LONG)
        raise SystemExit("no such row")

    return bad


def interrupts(turns: Turns, together: bool = True) -> Any:
    @tool(parallel_safe=together)
    async def bad() -> None:
        await turns.until(turns.begun)
        raise KeyboardInterrupt("no such row")

    return bad


def takes_too_long(turns: Turns, together: bool = True) -> Any:
    @tool(parallel_safe=together, timeout=0.05)
    async def bad() -> None:
        await asyncio.Event().wait()

    return bad


def takes_too_long_plainly(turns: Turns, together: bool = True) -> Any:
    @tool(parallel_safe=together, timeout=0.05)
    def bad() -> None:
        turns.failed.wait(LONG)

    return bad


WAYS: dict[Callable[..., Any], tuple[str, tuple[str, ...]]] = {
    raises: ("tool_error", ("ValueError: no such row", "use another tool")),
    raises_plainly: ("tool_error", ("ValueError: no such row", "Change the arguments")),
    quits: ("tool_error", ("SystemExit: no such row", "use another tool")),
    interrupts: ("tool_error", ("KeyboardInterrupt: no such row", "use another tool")),
    takes_too_long: ("timeout", ("did not finish within 0.05 seconds", "Request less at a time, or use another tool")),
    takes_too_long_plainly: ("timeout", ("did not finish within 0.05 seconds", "Request less at a time, or use another tool")),
}
"""Failures of a call by code, with the problem and advice in the message to the model."""
each_way = pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)


def siblings(turns: Turns) -> Tools:
    """Return two calls that start before the failure and end after it: one on the loop, one in a thread."""

    @tool(parallel_safe=True)
    async def slow(name: str) -> str:
        turns.begun.set()
        await turns.until(turns.failed)
        return f"slow {name}"

    @tool(parallel_safe=True)
    def plain(name: str) -> str:
        turns.begun.set()
        assert turns.failed.wait(LONG)
        return f"plain {name}"

    @tool
    def before(name: str) -> str:
        return f"before {name}"

    return [slow, plain, before]


CALLS = [
    ToolCall("slow", {"name": "a"}),
    ToolCall("plain", {"name": "b"}),
    ToolCall("bad"),
    ToolCall("before", {"name": "c"}),
    ToolCall("slow", {"name": "d"}),
]
SAID = ["slow a", "plain b", "before c", "slow d"]


def kept(run: Run) -> list[str]:
    return [result.text for result in results(run) if not result.is_error]


@each_way
@pytest.mark.req("KX.11", "R2.10", "K2.5")
def test_running_siblings_of_a_failed_call_keep_their_results(way: Any) -> None:
    turns, (code, told) = Turns(), WAYS[way]
    model = ScriptedModel([CALLS, "Done."])
    run = bare(model, [way(turns), *siblings(turns)]).run_sync("go", watch=turns.watch)
    assert (run.status, run.text) == ("completed", "Done.")
    assert codes(run) == [None, None, code, None, None] and kept(run) == SAID
    assert all(words in results(run)[2].text for words in told)
    assert_every_call_has_one_result(run)
    sent = model.requests[1].messages[-1]
    assert [part.text for part in sent.parts] == [result.text for result in results(run)]  # type: ignore[union-attr]


@each_way
@pytest.mark.req("KX.11", "R2.10")
def test_sequential_calls_continue_after_a_failed_one(way: Any) -> None:
    turns, (code, told) = Turns(), WAYS[way]
    turns.begun.set()

    @tool
    def step(name: str) -> str:
        return name

    calls = [ToolCall("step", {"name": "one"}), ToolCall("bad"), ToolCall("step", {"name": "two"}), ToolCall("gone")]
    run = bare(ScriptedModel([calls, "Done."]), [way(turns, together=False), step]).run_sync("go", watch=turns.watch)
    assert (run.status, codes(run), kept(run)) == ("completed", [None, code, None, "unknown_tool"], ["one", "two"])
    assert all(words in results(run)[1].text for words in told)
    assert_every_call_has_one_result(run)


@pytest.mark.parametrize("wire", ["anthropic", "openai", "openai-responses", "compatible"])
@pytest.mark.req("KX.11", "R2.10")
@pytest.mark.usefixtures("own_limiters")
def test_results_of_a_failed_call_and_siblings_are_sent_together(wire: str) -> None:
    turns = Turns()
    with LoopbackServer([CALLS, "Done."]) as server:
        run = bare(server.model(wire), [takes_too_long(turns), *siblings(turns)]).run_sync("go", watch=turns.watch)  # type: ignore[arg-type]
    assert run.text == "Done." and codes(run) == [None, None, "timeout", None, None]
    assert server.requests[1].problems == ()
    sent = json.dumps(server.requests[1].body)
    assert all(words in sent for words in [*SAID, "did not finish within 0.05 seconds", "Request less at a time"])
