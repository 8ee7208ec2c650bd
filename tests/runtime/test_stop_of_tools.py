"""`LiveRun.stop` while the main thread runs a plain tool: the tool is interrupted, and the waiter gets the run."""

from __future__ import annotations

import random
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest
from property_settings import size
from run_checks import assert_closed, assert_every_call_has_one_result, codes
from waiting import wait_until

from agentnb.agent.agent import Agent
from agentnb.core.log.events import ToolStarted
from agentnb.core.messages import ToolCall
from agentnb.detect.run import Run
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.workers import foreground as foreground_module
from agentnb.runtime.workers.foreground import Foreground, RunInterrupted
from agentnb.tools.function import tool

LONG = 30
TRIES = size(60, nightly=300)
"""Repetitions of a race, which is seldom lost."""

pytestmark = [
    pytest.mark.skipif(
        threading.current_thread() is not threading.main_thread(), reason="only the main thread can be interrupted"
    ),
    pytest.mark.usefixtures("no_escape"),
]


class Nap:
    """A plain tool that sleeps until it is interrupted, and counts naps and interrupts."""

    def __init__(self) -> None:
        self.naps = 0
        self.interrupts = 0
        self.ended = False

    def begun(self) -> bool:
        return self.naps > 0

    def begun_again(self) -> bool:
        return self.naps > 1

    def nap(self) -> str:
        try:
            self.naps += 1  # not an event: an interrupt during `set` would leave it locked
            for _ in range(100 * LONG):
                time.sleep(0.01)  # an interrupt just before a blocking call does not end it
        except KeyboardInterrupt:
            self.interrupts += 1
            raise
        self.ended = True
        return "slept"


def agent(*tools: Any, calls: int = 1) -> Agent:
    """Return an agent that calls the first tool so often in one reply."""
    name = getattr(tools[0], "__name__", "") or tools[0].spec.name
    return Agent(ScriptedModel([[ToolCall(name)] * calls, "Done."]), tools=tools)


def waited_for(made: Agent, lives: list[LiveRun]) -> Run:
    """Like `Agent.run_sync`; appends the handle to the list."""
    foreground = Foreground()

    def start() -> LiveRun:
        lives.append(made.start("go", RunOptions(foreground=foreground, can_ask=True)))
        return lives[-1]

    with foreground.own_interrupts():
        return start().wait_in_foreground()


@contextmanager
def meanwhile(act: Callable[[], Any]) -> Iterator[None]:
    """Call this in another thread."""
    errors: list[BaseException] = []

    def work() -> None:
        try:
            act()
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    yield
    thread.join(LONG)
    assert not thread.is_alive()
    assert errors == []


def stopped_in(made: Agent, begun: Callable[[], bool], act: Callable[[LiveRun], Any] = LiveRun.stop) -> Run:
    """Return the run after a stop of its handle once the tool has begun."""
    lives: list[LiveRun] = []

    def stop() -> None:
        wait_until(begun)
        act(lives[0])

    before = signal.getsignal(signal.SIGINT)
    with meanwhile(stop):
        run = waited_for(made, lives)
    assert signal.getsignal(signal.SIGINT) is before
    assert_closed(run)
    assert_every_call_has_one_result(run)
    return run


def test_stop_signal_sent_before_a_blocking_call_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    really, sent = foreground_module._interrupt_main_thread, list[int]()

    def late() -> None:
        sent.append(1)
        if len(sent) == 3:
            really()

    monkeypatch.setattr(foreground_module, "_interrupt_main_thread", late)
    sleeper = Nap()
    run = stopped_in(agent(sleeper.nap), sleeper.begun)
    assert (run.status, sleeper.interrupts) == ("cancelled", 1) and len(sent) >= 3


def test_repeated_stop_signals_count_as_one_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    really, sent = foreground_module._interrupt_main_thread, list[int]()
    sleeper = Nap()

    def late() -> None:
        wait_until(sleeper.begun_again)
        really()

    def slow() -> None:
        sent.append(1)
        if len(sent) == 2:
            really()
            threading.Thread(target=late).start()

    def stubborn() -> str:
        with suppress(KeyboardInterrupt):
            sleeper.nap()
        return sleeper.nap()

    monkeypatch.setattr(foreground_module, "_interrupt_main_thread", slow)
    assert stopped_in(agent(stubborn), sleeper.begun).status == "cancelled"
    assert sleeper.interrupts == 2


def test_late_stop_signal_is_awaited_when_the_tool_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    really, stopping, begun = foreground_module._interrupt_main_thread, threading.Event(), threading.Event()
    senders: list[threading.Thread] = []

    def send() -> None:
        wait_until(lambda: innermost_function_of_main_thread() == "_tool_ended")
        really()

    def late() -> None:
        if not senders:
            senders.append(threading.Thread(target=send))
            senders[0].start()
            stopping.set()

    def works() -> str:
        begun.set()
        assert stopping.wait(LONG)
        return "worked"

    monkeypatch.setattr(foreground_module, "_interrupt_main_thread", late)
    monkeypatch.setattr(foreground_module, "GRACE", LONG)
    assert stopped_in(agent(works), begun.is_set).status == "cancelled"
    assert not senders[0].is_alive()


def innermost_function_of_main_thread() -> str:
    return sys._current_frames()[threading.main_thread().ident or 0].f_code.co_name


def test_main_thread_interrupts_itself_without_pthread_kill(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(signal, "pthread_kill", raising=False)
    begun, ended = threading.Event(), threading.Event()

    def counts() -> None:
        begun.set()
        end = time.monotonic() + LONG
        while time.monotonic() < end:
            pass
        ended.set()

    run = stopped_in(agent(counts), begun.is_set)
    assert (run.status, codes(run), ended.is_set()) == ("cancelled", ["cancelled"], False)


@pytest.mark.req("R0.13")
def test_swallowed_stop_ends_the_run_and_next_stop_interrupts_again() -> None:
    sleeper = Nap()

    def stubborn() -> str:
        with suppress(KeyboardInterrupt):
            sleeper.nap()
        return sleeper.nap()

    def stop(live: LiveRun) -> None:
        live.stop()
        assert live.result(LONG).status == "cancelled"
        wait_until(sleeper.begun_again)  # the tool is still running
        live.stop()

    run = stopped_in(agent(stubborn), sleeper.begun, stop)
    assert (run.status, codes(run), sleeper.interrupts) == ("cancelled", ["cancelled"], 2)


def test_stop_after_the_run_interrupts_its_abandoned_tool() -> None:
    sleeper = Nap()

    @tool(timeout=0.5)
    def nap() -> str:
        with suppress(KeyboardInterrupt):
            sleeper.nap()
        return sleeper.nap()

    def stop(live: LiveRun) -> None:
        assert live.result(LONG).status == "completed"
        wait_until(sleeper.begun_again)
        live.stop()

    run = stopped_in(agent(nap), sleeper.begun, stop)
    assert (run.status, codes(run), sleeper.interrupts) == ("completed", ["timeout"], 2)


def test_interrupt_after_a_swallowed_stop_is_raised_at_the_waiter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(foreground_module, "ATTEMPTS", 0)  # a late signal of the stop would be the second interrupt
    sleeper = Nap()

    def stubborn() -> str:
        with suppress(KeyboardInterrupt):
            sleeper.nap()
        return sleeper.nap()

    def stop(live: LiveRun) -> None:
        live.stop()
        wait_until(sleeper.begun_again)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    with pytest.raises(RunInterrupted):
        stopped_in(agent(stubborn), sleeper.begun, stop)
    assert sleeper.interrupts == 2


@pytest.mark.req("R0.13")
@pytest.mark.parametrize("which", [0, 1, 2], ids=["outer", "middle", "inner"])
def test_stopping_a_nested_run_ends_it_and_its_inner_runs(which: int) -> None:
    sleeper = Nap()
    lives: list[LiveRun] = []

    def inner() -> str:
        return waited_for(agent(sleeper.nap), lives).status

    def middle() -> str:
        return waited_for(agent(inner), lives).status

    def stop() -> None:
        wait_until(sleeper.begun)
        lives[which].stop()

    with meanwhile(stop):
        run = waited_for(agent(middle), lives)
    assert run is lives[0].run
    assert [live.run.status for live in lives] == ["completed"] * which + ["cancelled"] * (3 - which)
    assert sleeper.interrupts == 1
    if which:
        assert lives[which - 1].run.rounds[0].results[0].text == "cancelled"


def raced(length: float, moment: float) -> Run:
    """Return a run stopped after so many seconds of its tool's work, after the next cell."""
    begun, lives = threading.Event(), list[LiveRun]()

    def spend(seconds: float) -> None:
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            time.sleep(0)  # lets the other thread run

    def works() -> str:
        begun.set()
        spend(length)
        return "worked"

    def stop() -> None:
        begun.wait(LONG)
        spend(moment)
        lives[0].stop()

    with meanwhile(stop):
        run = waited_for(agent(works), lives)
        sum(range(1000))  # the next cell
    assert_closed(run)
    assert_every_call_has_one_result(run)
    return run


@pytest.mark.req("R0.13")
def test_stop_at_tool_end_does_not_affect_later_code() -> None:
    chance, before = random.Random(1), signal.getsignal(signal.SIGINT)
    ends = {raced(chance.random() / 1000, chance.random() / 1000).status for _ in range(TRIES)}
    assert "cancelled" in ends and ends <= {"cancelled", "completed"}
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.req("R0.13")
def test_simultaneous_stops_act_as_one_stop() -> None:
    for _ in range(TRIES // 6):
        sleeper = Nap()

        def stop_from_all_sides(live: LiveRun) -> None:
            stoppers = [threading.Thread(target=live.stop) for _ in range(8)]
            for stopper in stoppers:
                stopper.start()
            for stopper in stoppers:
                stopper.join(LONG)

        run = stopped_in(agent(sleeper.nap), sleeper.begun, stop_from_all_sides)
        assert (run.status, codes(run), sleeper.ended) == ("cancelled", ["cancelled"], False)


def stopped_before_its_tool() -> bool:
    """Stop a run after the admission of its call; return True if the tool ran."""
    ran, ready, lives = threading.Event(), threading.Event(), list[LiveRun]()
    foreground = Foreground()

    def looks() -> None:
        ran.set()

    def watch(item: object) -> None:
        if isinstance(item, ToolStarted):
            assert ready.wait(LONG)
            lives[0].stop()

    def start() -> LiveRun:
        lives.append(agent(looks).start("go", RunOptions(watch=watch, foreground=foreground, can_ask=True)))
        ready.set()
        return lives[0]

    with foreground.own_interrupts():
        run = start().wait_in_foreground()
    assert (run.status, codes(run)) == ("cancelled", ["cancelled"])
    return ran.is_set()


def test_no_tool_starts_after_a_stop() -> None:
    assert not any(stopped_before_its_tool() for _ in range(size(40, nightly=100)))


def test_stop_of_a_run_awaited_elsewhere_spares_the_main_thread() -> None:
    begun, release, runs = threading.Event(), threading.Event(), []
    lives: list[LiveRun] = []

    def holds() -> str:
        begun.set()
        return str(release.wait(LONG))

    with meanwhile(lambda: runs.append(waited_for(agent(holds), lives))):
        assert begun.wait(LONG)
        with meanwhile(lives[0].stop):
            assert lives[0].result(LONG).status == "cancelled"
        release.set()
    assert [(run.status, codes(run)) for run in runs] == [("cancelled", ["cancelled"])]


def test_stop_of_an_ended_run_interrupts_nothing() -> None:
    lives: list[LiveRun] = []
    run = waited_for(agent(where), lives)
    with meanwhile(lives[0].stop):
        pass
    assert run.status == "completed"


def where() -> str:
    return "here"


def test_tool_stopping_its_own_run_is_not_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    lives, steps = list[LiveRun](), list[str]()

    def once_the_run_has_ended(foreground: Foreground) -> None:
        assert lives[0].result(LONG).status == "cancelled"
        end_tool(foreground)

    end_tool = Foreground.end_tool
    monkeypatch.setattr(Foreground, "end_tool", once_the_run_has_ended)

    def gives_up() -> str:
        lives[0].stop("no hope")
        steps.append("tidied up")
        return "stopped"

    run = waited_for(agent(gives_up, calls=2), lives)
    assert (run.status, steps) == ("cancelled", ["tidied up"])
    assert_every_call_has_one_result(run)


@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN])
def test_stop_spares_a_process_whose_tool_replaced_the_handler(handler: signal.Handlers) -> None:
    begun, release = threading.Event(), threading.Event()

    def careless() -> str:
        before = signal.signal(signal.SIGINT, handler)
        begun.set()
        try:
            return str(release.wait(LONG))
        finally:
            signal.signal(signal.SIGINT, before)

    def stop(live: LiveRun) -> None:
        live.stop()
        assert live.result(LONG).status == "cancelled"
        release.set()

    assert stopped_in(agent(careless), begun.is_set, stop).status == "cancelled"


def test_stop_calls_a_handler_installed_by_the_tool() -> None:
    begun, signals = threading.Event(), list[int]()

    def tidy() -> None:
        before = signal.signal(signal.SIGINT, lambda number, frame: signals.append(number))
        begun.set()
        try:
            wait_until(lambda: signals)
        finally:
            signal.signal(signal.SIGINT, before)

    run = stopped_in(agent(tidy), begun.is_set)
    assert (run.status, codes(run), signals) == ("cancelled", ["cancelled"], [signal.SIGINT])
