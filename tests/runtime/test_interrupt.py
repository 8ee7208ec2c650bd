"""Interrupts while waiting for a run: it ends cleanly, and the next run works."""

from __future__ import annotations

import asyncio
import signal
import threading
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from run_checks import assert_closed, codes
from waiting import wait_until_main_thread_blocks

from agentnb.agent.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.calls import dispatch
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.runs import lifecycle
from agentnb.runtime.workers import foreground as foreground_module
from agentnb.runtime.workers.foreground import Foreground, RunInterrupted
from agentnb.store.store import Store

LONG = 30

pytestmark = [
    pytest.mark.skipif(
        not hasattr(signal, "pthread_kill") or threading.current_thread() is not threading.main_thread(),
        reason="an interrupt can only be sent to the main thread of a POSIX process",
    ),
    pytest.mark.usefixtures("no_escape"),
]


@contextmanager
def interrupt_once(begun: threading.Event) -> Iterator[threading.Event]:
    """Interrupt the main thread like Ctrl-C once this has begun. Yields the event of the interrupt."""
    given_up, sent = threading.Event(), threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def wait_and_send() -> None:
        if begun.wait(LONG) and not given_up.is_set():
            wait_until_main_thread_blocks()
            signal.pthread_kill(main, signal.SIGINT)
            sent.set()

    sender = threading.Thread(target=wait_and_send, daemon=True)
    sender.start()
    try:
        yield sent
    finally:
        given_up.set()
        begun.set()
        sender.join(LONG)


@pytest.mark.req("R0.13")
def test_interrupting_an_awaited_run_closes_its_log(tmp_path: Path) -> None:
    begun, store = threading.Event(), Store(tmp_path / "runs")

    async def waits() -> None:
        begun.set()
        await asyncio.Event().wait()

    signal.signal(signal.SIGINT, signal.default_int_handler)  # asyncio handles no interrupt of another handler
    with interrupt_once(begun), pytest.raises(KeyboardInterrupt):
        asyncio.run(Agent(ScriptedModel([ToolCall("waits")]), tools=[waits]).run("go", store=store))
    run = store.load(store.ids()[0])
    assert (run.status, codes(run)) == ("cancelled", ["cancelled"])
    assert_closed(run)


def test_an_interrupt_between_start_and_wait_is_not_lost() -> None:
    begun = threading.Event()
    foreground = Foreground()

    def start() -> LiveRun:
        begun.set()
        assert sent.wait(LONG)  # before the run is awaited
        agent = Agent(ScriptedModel([ToolCall("look"), "Done."]), tools=[look])
        live = agent.start("go", RunOptions(foreground=foreground, can_ask=True))
        lives.append(live)
        return live

    lives: list[LiveRun] = []
    with interrupt_once(begun) as sent, pytest.raises(RunInterrupted) as caught:
        with foreground.own_interrupts():
            start().wait_in_foreground()
    assert caught.value.closed
    assert lives[0].run.status == "cancelled"
    assert_closed(lives[0].run)


def test_second_interrupt_does_not_cut_cleanup_short(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in ((dispatch, "PATIENCE"), (lifecycle, "PATIENCE"), (foreground_module, "GRACE")):
        monkeypatch.setattr(module, name, LONG)
    begun, closing, release = threading.Event(), threading.Event(), threading.Event()

    async def tidies_up() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            closing.set()
            await asyncio.to_thread(release.wait, LONG)

    def interrupt() -> None:
        for moment in (begun, closing, closing):
            assert moment.wait(LONG)
            wait_until_main_thread_blocks()
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        release.set()

    sender = threading.Thread(target=interrupt)
    sender.start()
    try:
        with pytest.raises(RunInterrupted) as caught:
            Agent(ScriptedModel([ToolCall("tidies_up")]), tools=[tidies_up]).run_sync("go")
    finally:
        release.set()
        sender.join(LONG)
    assert caught.value.closed


def test_interrupt_frees_the_cell_while_a_tool_blocks_the_loop(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foreground_module, "GRACE", 0.05)
    begun, release = threading.Event(), threading.Event()

    async def holds() -> None:
        begun.set()
        release.wait(LONG)

    with interrupt_once(begun), pytest.raises(RunInterrupted) as caught:
        Agent(ScriptedModel([ToolCall("holds")]), tools=[holds]).run_sync("go")
    release.set()
    assert not caught.value.closed


def look() -> str:
    return "seen"


def test_plain_tool_can_run_another_agent() -> None:
    def delegate() -> str:
        return Agent(ScriptedModel([ToolCall("look"), "inner done"]), tools=[look]).run_sync("inner").text

    run = Agent(ScriptedModel([ToolCall("delegate"), "Done."]), tools=[delegate]).run_sync("go")
    assert (run.status, run.rounds[0].results[0].text) == ("completed", "inner done")


def test_interrupt_swallowed_by_python_during_preparation_ends_the_run() -> None:
    class Old:
        pass

    def tidied_up(_: object) -> None:
        signal.raise_signal(signal.SIGINT)  # exceptions in a weak reference's callback are only printed

    foreground, old = Foreground(), Old()
    kept = weakref.ref(old, tidied_up)
    with pytest.raises(KeyboardInterrupt), foreground.own_interrupts():
        del old
    assert kept() is None


def test_interrupt_just_before_a_tool_prevents_its_start(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[str] = []
    attempt = foreground_module.attempt

    def interrupted_first(function: Callable[[], Any]) -> Any:
        signal.raise_signal(signal.SIGINT)  # the tool may start, and has not
        return attempt(function)

    def work() -> str:
        """Works."""
        ran.append("work")
        return "done"

    monkeypatch.setattr(foreground_module, "attempt", interrupted_first)
    with pytest.raises(RunInterrupted):
        Agent(ScriptedModel([ToolCall("work", {}), "Done."]), tools=[work]).run_sync("go")
    assert ran == []
