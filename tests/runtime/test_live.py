"""The handle on a run in the background: steering it from another thread."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest
from run_checks import assert_closed
from scripted_runs import bare
from waiting import wait_until

from agentnb.agent.agent import Agent
from agentnb.core.log.events import CommandReceived
from agentnb.core.messages import ToolCall
from agentnb.detect.run import Run
from agentnb.errors import ModelError, SettingsError
from agentnb.models.scripted import ScriptedModel
from agentnb.runtime.host.live_run import LiveRun

LONG = 30


class Gate:
    """A tool that signals its start and waits for its release."""

    def __init__(self) -> None:
        self.entered, self.release = threading.Event(), threading.Event()
        self.__name__ = "gate"

    async def __call__(self) -> str:
        self.entered.set()
        while not self.release.is_set():
            await asyncio.sleep(0.001)
        return "open"


@pytest.fixture
def gate() -> Iterator[Gate]:
    gate = Gate()
    yield gate
    gate.release.set()


def begin(gate: Gate, *replies: str | ToolCall) -> LiveRun:
    live = Agent(ScriptedModel([ToolCall("gate"), *replies]), tools=[gate]).start("go")
    assert gate.entered.wait(LONG)
    return live


def commands(run: Run) -> list[str]:
    return [event.command for event in run.events if isinstance(event, CommandReceived)]


def test_background_run_can_be_inspected_while_it_grows(gate: Gate) -> None:
    live = begin(gate, "Done.")
    assert not live.done
    assert (live.run.status, live.run.id, len(live.run.rounds)) == ("running", live.run_id, 1)
    gate.release.set()
    assert live.result(LONG) is live.run
    assert (live.done, live.run.text) == (True, "Done.")


def test_waiting_too_briefly_raises_timeout_and_the_run_continues(gate: Gate) -> None:
    live = begin(gate, "Done.")
    with pytest.raises(TimeoutError):
        live.result(0.01)
    gate.release.set()
    assert live.result(LONG).text == "Done."


@pytest.mark.req("R0.13")
def test_stopping_twice_equals_stopping_once(gate: Gate) -> None:
    live = begin(gate, "never")
    live.stop()
    try:
        live.stop()
    except SettingsError:
        assert live.done  # the first may have been that quick
    run = live.result(LONG)
    assert run.status == "cancelled"
    assert_closed(run)


def test_paused_run_starts_no_round_until_resumed(gate: Gate) -> None:
    model = ScriptedModel([ToolCall("gate"), "Done."])
    live = Agent(model, tools=[gate]).start("go")
    assert gate.entered.wait(LONG)
    live.pause()
    gate.release.set()
    wait_until(lambda: live.run.status == "waiting_on_user")
    assert live.run.rounds[0].status == "success"
    with pytest.raises(TimeoutError):
        live.result(0.05)
    assert len(model.requests) == 1
    live.resume()
    run = live.result(LONG)
    assert (run.status, run.text, commands(run)) == ("completed", "Done.", ["pause", "resume"])


def test_message_during_a_pause_is_read_afterwards(gate: Gate) -> None:
    model = ScriptedModel([ToolCall("gate"), "Done."])
    live = bare(model, [gate]).start("go")
    assert gate.entered.wait(LONG)
    live.pause()
    gate.release.set()
    wait_until(lambda: live.run.status == "waiting_on_user")
    live.say("Look at the second column.")
    wait_until(lambda: "say" in commands(live.run))
    assert len(model.requests) == 1
    live.resume()
    live.result(LONG)
    assert model.requests[1].messages[-1].text == "Look at the second column."


def test_pause_followed_at_once_by_resume_has_no_effect(gate: Gate) -> None:
    live = begin(gate, "Done.")
    live.pause()
    live.resume()
    gate.release.set()
    assert live.result(LONG).status == "completed"


@pytest.mark.parametrize("command", ["pause", "resume", "say"])
def test_command_to_an_ended_run_is_refused_clearly(command: str) -> None:
    live = Agent(ScriptedModel(["Done."])).start("go")
    live.result(LONG)
    with pytest.raises(SettingsError, match=f"{live.run_id} has ended .natural.*continue_from=run"):
        getattr(live, command)(*(["more"] if command == "say" else []))


@pytest.mark.parametrize("words", ["", " \n"])
def test_empty_message_is_refused(gate: Gate, words: str) -> None:
    live = begin(gate, "Done.")
    with pytest.raises(SettingsError, match="message is empty"):
        live.say(words)


def test_background_run_can_be_awaited() -> None:
    async def main() -> tuple[Run, Run]:
        live = Agent(ScriptedModel(["Done."])).start("go")
        return await live, await live

    first, second = asyncio.run(main())
    assert first is second
    assert first.text == "Done."


def test_cancelled_wait_does_not_end_the_run(gate: Gate) -> None:
    async def main() -> Run:
        live = begin(gate, "Done.")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await live
        gate.release.set()
        return await live

    assert asyncio.run(main()).text == "Done."


def test_result_raises_a_failure_of_the_first_round() -> None:
    live = Agent(ScriptedModel([RuntimeError("boom")])).start("go")
    with pytest.raises(ModelError, match="boom"):
        live.result(LONG)
    assert (live.done, live.run.status) == (True, "failed")


def test_live_run_repr_is_one_line(gate: Gate) -> None:
    live = begin(gate, "Done.")
    assert repr(live) == f"<LiveRun {live.run_id} running>"
