"""Threads started by tools: runs in them have the mode of the tool's run."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from typing import Any

import pytest
from property_settings import size
from waiting import PATIENCE

from agentnb import Agent, RunOptions, ToolCall
from agentnb.core.run.rounds import DENIED
from agentnb.models import ScriptedModel

_outside = ThreadPoolExecutor(1)


def inner(approve: str | None = None) -> str:
    """Return the error code of a call to an unrestricted tool."""

    def write() -> str:
        """Write."""
        return "wrote"

    run = Agent(ScriptedModel([ToolCall("write"), "Done."]), tools=[write], todos=False).run_sync("go", approve=approve)
    return run.rounds[0].results[0].error_code or "ran"


def in_thread(work: Callable[[], str]) -> str:
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join(PATIENCE)
    return found[0]


def in_subclass(work: Callable[[], str]) -> str:
    class Worker(threading.Thread):
        found = ""

        def run(self) -> None:
            self.found = work()

    thread = Worker()
    thread.start()
    thread.join(PATIENCE)
    return thread.found


def in_new_pool(work: Callable[[], str]) -> str:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(work).result(PATIENCE)


def in_fork(work: Callable[[], str]) -> str:
    context = multiprocessing.get_context("fork")
    reading, writing = context.Pipe(duplex=False)
    process = context.Process(target=lambda: writing.send(work()))
    process.start()
    found = reading.recv() if reading.poll(PATIENCE) else "hangs"
    process.kill()
    process.join()
    return str(found)


WAYS: dict[str, Callable[[Callable[[], str]], str]] = {
    "thread": in_thread,
    "thread within a thread": lambda work: in_thread(lambda: in_thread(work)),
    "subclass of Thread": in_subclass,
    "pool of the tool": in_new_pool,
    "pool from before the run": lambda work: _outside.submit(work).result(PATIENCE),
    **({"fork": in_fork, "fork in a thread": lambda work: in_thread(lambda: in_fork(work))} if hasattr(os, "fork") else {}),
}


def only_delegate(question: Any) -> str:
    return "approve" if "delegate" in question.message else "deny"


def delegating(way: Callable[[Callable[[], str]], str], how: str, **settings: Any) -> str:
    """Return the result of a run started by a tool in this way."""

    def delegate() -> str:
        """Delegate."""
        return way(inner)

    async def delegate_in_loop() -> str:
        """Delegate."""
        return await asyncio.to_thread(way, inner)

    tool = delegate_in_loop if how == "async" else delegate
    agent = Agent(ScriptedModel([ToolCall(tool.__name__), "Done."]), tools=[tool], todos=False)
    run = agent.start("go", RunOptions(**settings)).result(PATIENCE) if how == "start" else agent.run_sync("go", **settings)
    return run.rounds[0].results[0].text


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_run_in_a_tool_thread_inherits_its_mode(subtests: pytest.Subtests) -> None:
    for (name, way), how in [*product(WAYS.items(), ("run_sync", "start", "async"))][:: size(2, nightly=1)]:
        with subtests.test(f"{name}, {how}"):
            assert delegating(way, how, answer=only_delegate, approve="ask") == DENIED


def test_run_in_a_tool_thread_can_ask_the_person() -> None:
    asked: list[str] = []

    def answer(question: Any) -> str:
        asked.append(question.message.split("'")[1].partition("_")[0])
        return "approve"

    assert delegating(in_thread, "start", answer=answer, approve="ask") == "ran"
    assert asked == ["delegate", "write"]


def test_thread_pool_used_by_a_tool_can_be_reused() -> None:
    assert delegating(WAYS["pool from before the run"], "run_sync", approve="ask", answer=lambda question: "approve") == "ran"
    assert _outside.submit(inner).result(PATIENCE) == "ran"
    assert in_thread(inner) == "ran"
