"""Plain functions in worker threads: a stop interrupts only them, at their next Python step."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from property_settings import size
from run_checks import checked, codes, results

from agentnb.agent.agent import Agent
from agentnb.core.messages import ToolCall
from agentnb.detect.run import Run
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.threads import Outcome
from agentnb.runtime.workers.worker_calls import ToolInterrupted, WorkerCall, worker_call
from agentnb.tools.function import tool

LONG = 30
TRIES = size(200, nightly=2_000)
"""Repetitions of a race."""


class Save:
    """A plain tool that works for a while and then saves."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()
        self.saved = False
        self._work = work

    def save(self) -> str:
        self.begun.set()
        try:
            self._work()
            self.saved = True
        finally:
            self.ended.set()
        return "saved"


def computes() -> None:
    end = time.monotonic() + LONG
    while time.monotonic() < end:
        pass


def in_background(save: Any, **limits: Any) -> LiveRun:
    return Agent(ScriptedModel([ToolCall("save"), "Done."]), tools=[save], **limits).start("go")


def stopped(tool_: Save, stop: Callable[[LiveRun], Any] = LiveRun.stop) -> Run:
    live = in_background(tool_.save)
    assert tool_.begun.wait(LONG)
    stop(live)
    run = live.result(LONG)
    checked(run)
    assert (run.status, codes(run)) == ("cancelled", ["cancelled"])
    return run


def test_stop_interrupts_a_background_plain_function_before_its_next_step() -> None:
    save = Save(computes)
    run = stopped(save)
    assert save.ended.wait(LONG) and not save.saved
    assert not run.warnings and "still be running" not in results(run)[0].text


def test_uninterruptible_function_is_reported_running_and_stops_afterwards() -> None:
    free = threading.Event()
    save = Save(lambda: free.wait(LONG))
    run = stopped(save)
    assert not save.ended.is_set()
    assert len(run.warnings) == 1 and run.warnings[0].startswith("save could not be stopped at once")
    assert results(run)[0].text.endswith("It may still be running.")
    free.set()
    assert save.ended.wait(LONG) and not save.saved


def test_time_limit_of_one_call_lets_the_model_continue() -> None:
    free = threading.Event()
    save = Save(lambda: free.wait(LONG))
    run = in_background(_timed(save)).result(LONG)
    assert (run.status, codes(run)) == ("completed", ["timeout"])
    free.set()
    assert save.ended.wait(LONG) and save.saved


def _timed(one: Save) -> Any:
    @tool(timeout=0.05)
    def save() -> str:
        return one.save()

    return save


def test_interrupted_function_never_starts() -> None:
    done: list[str] = []
    call = WorkerCall(lambda: done.append("done"))
    call.interrupt()
    assert isinstance(call.run().error, ToolInterrupted) and done == [] and not call.is_running


def test_interrupt_at_function_end_does_not_affect_later_code() -> None:
    hit: list[BaseException] = []

    def one(length: int) -> None:
        call = WorkerCall(lambda: sum(range(length)))
        begun, outcomes = threading.Event(), list[Outcome]()

        def work() -> None:
            try:
                begun.set()
                outcomes.append(call.run())
                sum(range(2_000))
            except BaseException as error:
                hit.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        begun.wait(LONG)
        call.interrupt()
        thread.join(LONG)
        assert len(outcomes) == 1 and not call.is_running
        assert outcomes[0].error is None or isinstance(outcomes[0].error, ToolInterrupted)

    for length in range(TRIES):
        one(length * 20 % 3_000)
    assert hit == []


def test_process_can_be_traced_after_a_late_interrupt() -> None:
    """In a separate process: Python 3.11 hangs here if it believes that an exception is pending."""
    code = """
import sys
from agentnb.runtime.workers.worker_calls import WorkerCall, worker_call
def interrupted():
    call = worker_call()
    with call.held():
        call.interrupt()
for function in (interrupted, lambda: worker_call().interrupt()):
    WorkerCall(function).run()
    sys.setprofile(lambda *event: None)
    (lambda: None)()
    sys.setprofile(None)
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=LONG)


def test_interrupt_during_a_hold_is_raised_after_it() -> None:
    begun, woken = threading.Event(), threading.Event()
    seen: list[str] = []

    def function() -> None:
        here = worker_call()
        assert here is not None
        with here.held():
            here.wake = woken.set
            begun.set()
            assert woken.wait(LONG)
            seen.append(f"held, told {here.is_interrupted}")
            try:
                with here.held(False):
                    seen.append("let through too late")
            except ToolInterrupted:
                seen.append("raised in the part that lets it through")
            sum(range(10_000))
            seen.append("held again")
        seen.append("after it")

    call = WorkerCall(function)
    thread = threading.Thread(target=lambda: seen.append(type(call.run().error).__name__))
    thread.start()
    assert begun.wait(LONG)
    call.interrupt()
    thread.join(LONG)
    assert seen == ["held, told True", "raised in the part that lets it through", "held again", "ToolInterrupted"]
