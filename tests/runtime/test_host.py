"""The host: defaults for a run, inherited by its nested runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from marked_logs import cut_log
from scripted_runs import agent_of

from agentnb import Agent, Run, Store, ToolCall, tool
from agentnb.core.log.events import Event
from agentnb.runtime.host.host import Beginning, Host, host_here, use_host
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.workers.foreground import Foreground
from agentnb.session.session import Session
from agentnb.tools.tool import ToolContext


class Seen:
    """A watcher that records the starts of nested runs."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self.nested_in_it: list[Beginning] = []

    def __call__(self, item: Any) -> None:
        self.items.append(item)

    def nested(self, beginning: Beginning) -> Seen:
        self.nested_in_it.append(beginning)
        return self


agent = partial(agent_of, guidance="off", todos=False)


def outer(tool_: Callable[..., Any], **arguments: Any) -> Agent:
    return agent(ToolCall(tool_.__name__, arguments, id="c-1"), "Done.", tools=[tool_])


async def asks(context: ToolContext) -> str:
    """Ask the person."""
    return str(await context.ask("Really?", {"type": "boolean"}))


def test_host_supplies_options_not_given_to_the_run(tmp_path: Path) -> None:
    seen, lives = Seen(), list[LiveRun]()
    beginnings: list[Beginning] = []

    def watch(beginning: Beginning) -> Seen:
        beginnings.append(beginning)
        return seen

    host = Host(watch=watch, begun=lives.append, answer=lambda question: True, store=Store(tmp_path / "host"))
    with use_host(host):
        run = asyncio.run(outer(asks).run("go"))
        mine: list[Any] = []
        own = asyncio.run(
            outer(asks).run("go", watch=mine.append, answer=lambda question: False, store=Store(tmp_path / "own"))
        )
    assert run.rounds[0].results[0].text == "True" and [one for one in seen.items if isinstance(one, Event)] == list(run.events)
    assert [one.run_id for one in beginnings] == [run.id] and beginnings[0].stored and beginnings[0].run is run
    assert own.rounds[0].results[0].text == "False" and mine[0] == own.events[0]
    assert [live.run_id for live in lives] == [run.id, own.id] and all(live.done for live in lives)
    assert Store(tmp_path / "host").ids() == [run.id] and Store(tmp_path / "own").ids() == [own.id]
    assert not host_here()


def test_awaited_run_of_a_host_can_be_stopped_and_answered() -> None:
    lives: list[LiveRun] = []

    async def main() -> tuple[Run, Run]:
        with use_host(Host(begun=lives.append, can_ask=True)):
            runs = [asyncio.ensure_future(outer(asks).run("go")) for _ in range(2)]
            while len(lives) < 2 or not all(live.run.waiting for live in lives):
                await asyncio.sleep(0)
            lives[0].answer(True)
            lives[1].stop()
            first, second = await asyncio.gather(*runs)
            return first, second

    answered, stopped = asyncio.run(main())
    assert answered.status == "completed" and answered.rounds[0].results[0].text == "True"
    assert stopped.status == "cancelled"


def test_nested_runs_of_a_script_are_stored_beside_its_run(tmp_path: Path) -> None:
    async def delegate() -> str:
        """Ask another agent."""
        return (await agent("inner").run("go")).text

    asyncio.run(outer(delegate).run("go", store=Store(tmp_path)))
    outer(delegate).run_sync("go", store=Store(tmp_path))
    assert len(Store(tmp_path).ids()) == 4


def test_nested_run_inherits_watchers_store_and_threads_of_its_parent(tmp_path: Path) -> None:
    threads: list[str] = []

    def plain() -> str:
        """Say where it runs."""
        threads.append(threading.current_thread().name)
        return "ran"

    async def delegate() -> str:
        """Ask another agent."""
        return (await outer(plain).run("inner")).text

    seen, session, foreground = Seen(), Session(Store(tmp_path)), Foreground()
    live = session.start(outer(delegate), "go", RunOptions(watch=seen, foreground=foreground))
    run = live.wait_in_foreground()
    (nested,) = seen.nested_in_it
    assert (nested.parent_id, nested.call_id, nested.awaited, nested.stored) == (run.id, "c-1", True, True)
    assert sorted(session.store.ids()) == sorted([run.id, nested.run_id])
    assert threads == ["MainThread"]
    assert session.running() == []


def test_run_started_by_a_plain_tool_needs_no_tool_thread(tmp_path: Path) -> None:
    threads: list[bool] = []

    def plain() -> str:
        """Say where it runs."""
        threads.append(threading.current_thread() is threading.main_thread())
        return "ran"

    def awaits() -> str:
        """Run another agent on an event loop of its own."""
        return asyncio.run(asyncio.wait_for(outer(plain).run("inner"), 10)).text

    def waits() -> str:
        """Run another agent and wait."""
        return outer(plain).run_sync("inner").text

    @tool(parallel_safe=True)
    def beside() -> str:
        """Run another agent from a thread."""
        return asyncio.run(asyncio.wait_for(outer(plain).run("inner"), 10)).text

    session = Session(Store(tmp_path))
    for begins in (awaits, waits, beside):
        run = session.start(
            agent(ToolCall(begins.__name__ if begins is not beside else "beside", {}), "Done.", tools=[begins]),
            "go",
            RunOptions(foreground=Foreground()),
        ).wait_in_foreground()
        assert run.rounds[0].results[0].text == "Done.", run.rounds[0].results[0].text
    assert threads == [False, True, True]


def test_nested_run_outliving_its_parent_runs_plain_tools_in_threads(tmp_path: Path) -> None:
    go, started, left = threading.Event(), [], list[asyncio.Task[Run]]()

    def plain() -> str:
        """Work."""
        return "ran"

    async def first() -> str:
        """Wait for the end of the parent run."""
        started.append(True)
        await asyncio.to_thread(go.wait)
        return "waited"

    async def leave() -> str:
        """Begin another run and do not wait for it."""
        inner = agent(ToolCall("first", {}), ToolCall("plain", {}), "Done.", tools=[first, plain])
        left.append(asyncio.ensure_future(inner.run("inner")))
        while not started:
            await asyncio.sleep(0)
        return "left"

    live = Session(Store(tmp_path)).start(outer(leave), "go", RunOptions(foreground=Foreground()))
    assert live.wait_in_foreground().status == "completed"
    go.set()
    ended = threading.Event()
    left[0].get_loop().call_soon_threadsafe(lambda: left[0].add_done_callback(lambda _: ended.set()))
    assert ended.wait(20)
    assert left[0].result().rounds[1].results[0].text == "ran"


def test_runs_nested_in_a_resumed_run_are_stored_beside_it(tmp_path: Path) -> None:
    async def delegate() -> str:
        """Ask another agent."""
        return (await agent("inner").run("go")).text

    cut = asyncio.run(outer(delegate).run("go", store=Store(tmp_path)))
    cut_log(Store(tmp_path).path(cut.id), 2)
    session = Session(Store(tmp_path))
    run = session.recover(cut.id, lambda found: outer(delegate)).result()
    nested = [stored for stored in map(session.store.load, session.store.ids()) if stored.parent_id == cut.id]
    assert run.status == "completed" and len(nested) == 2  # one from each process


def test_completed_session_runs_are_released(tmp_path: Path) -> None:
    session = Session(Store(tmp_path))

    async def main() -> None:
        with use_host(session.host()):
            for _ in range(100):
                await agent("Done.").run("go")

    asyncio.run(main())
    assert len(session._begun_here) < 5 and session.running() == [] and session.store.ids() == []
    with pytest.raises(Exception, match="no run"):
        session.last_run()
