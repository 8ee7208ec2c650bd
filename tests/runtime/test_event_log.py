"""Writing the log: an event is stored, folded and sent to watchers, in this order."""

from __future__ import annotations

import asyncio
import errno
import logging
from collections.abc import Callable
from typing import Any

import pytest
from scripted_runs import add

from agentnb import Agent, Run, ToolCall
from agentnb.advice import Plain, SetKey
from agentnb.core.log import events as e
from agentnb.core.messages import user
from agentnb.errors import StoreError
from agentnb.models import ScriptedModel
from agentnb.runtime.event_log import EventLog


class Memory:
    """A store and its writer: keeps events in a list, with a full disk from event ``fails_at`` on."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.kept: list[e.AnyEvent] = []
        self.fails_at = fails_at
        self.closed = 0

    async def open(self, run_id: str, *, nested: bool = False) -> Memory:
        return self

    def append(self, event: e.AnyEvent) -> None:
        if self.fails_at is not None and len(self.kept) >= self.fails_at:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.kept.append(event)

    def close(self) -> None:
        self.closed += 1


def an_agent() -> Agent:
    """Return an agent with two rounds and eleven events."""
    return Agent(ScriptedModel([["See.", ToolCall("add", {"a": 1, "b": 2})], "Three."]), tools=[add])


def do(agent: Agent, store: Any = None, watch: Callable[[Any], Any] | None = None) -> Run:
    return asyncio.run(agent.run("Go", store=store, watch=watch))


KINDS = [
    e.RunStarted,
    e.RoundStarted,
    e.ModelReplied,
    e.ToolStarted,
    e.ToolFinished,
    e.RoundFinished,
    e.RoundStarted,
    e.GuidanceGiven,
    e.ModelReplied,
    e.RoundFinished,
    e.RunFinished,
]


@pytest.mark.req("KX.10")
def test_every_event_has_its_run_sequence_number_and_time() -> None:
    run = do(an_agent())
    assert [type(event) for event in run.events] == KINDS
    assert [event.seq for event in run.events] == list(range(len(KINDS)))
    assert {event.run_id for event in run.events} == {run.id}
    times = [event.at for event in run.events]
    assert times == sorted(times) and all(str(at.tzinfo) == "UTC" for at in times)


def test_event_is_stored_before_it_reaches_watchers_and_state() -> None:
    store = Memory()
    seen: list[tuple[int, int]] = []
    log = EventLog("run-1", watchers=[lambda event: seen.append((len(store.kept), len(log.run.events)))])
    log.keep_in(store)
    log.emit(e.RunStarted, schema=1, prompt=user("x"), model="m")
    log.emit(e.Warned, message="mind")
    assert seen == [(1, 1), (2, 2)]


def test_watchers_receive_all_events_and_deltas_in_order() -> None:
    heard: list[Any] = []
    run = do(an_agent(), watch=heard.append)
    assert [item for item in heard if isinstance(item, e.Event)] == list(run.events)
    deltas = [item.text for item in heard if isinstance(item, e.TextDelta)]
    assert deltas == ["See.", "Three."]


@pytest.mark.req("R0.11")
def test_deltas_arrive_during_the_round_before_the_complete_reply() -> None:
    heard: list[str] = []
    do(an_agent(), watch=lambda item: heard.append(type(item).__name__))
    assert heard[1:4] == ["RoundStarted", "TextDelta", "ModelReplied"]


def test_deltas_are_never_stored() -> None:
    store = Memory()
    run = do(an_agent(), store)
    assert store.kept == list(run.events) and {type(event) for event in store.kept} <= set(e.KINDS)


def test_failing_watcher_is_dropped_and_the_run_continues(caplog: pytest.LogCaptureFixture) -> None:
    items: list[Any] = []

    def bad(item: Any) -> None:
        items.append(item)
        if len(items) == 3:
            raise ValueError("I broke")

    with caplog.at_level(logging.INFO, logger="agentnb"):
        run = do(an_agent(), watch=bad)
    assert (run.status, len(items)) == ("completed", 3)
    assert [record.getMessage() for record in caplog.records] == [f"A watcher of run {run.id} failed and was dropped"]


def test_failing_watcher_does_not_affect_the_others() -> None:
    before: list[Any] = []
    after: list[Any] = []

    def bad(item: Any) -> None:
        raise ValueError("I broke")

    log = EventLog("run-1", watchers=[before.append, bad, after.append])
    log.emit(e.RunStarted, schema=1, prompt=user("x"), model="m")
    log.emit(e.Warned, message="mind")
    assert [event.seq for event in before] == [event.seq for event in after] == [0, 1]


def test_store_failure_stops_the_run_after_watchers_see_every_event(
    subtests: pytest.Subtests,
) -> None:
    for fails_at in range(len(KINDS)):
        with subtests.test(fails_at=fails_at):
            store, items, agent = Memory(fails_at), [], an_agent()
            with pytest.raises(StoreError, match=r"could not be written: .*No space left on device") as caught:
                do(agent, store, items.append)
            run = caught.value.run
            assert run is not None
            numbers = [item.seq for item in items if isinstance(item, e.Event)]
            assert numbers == list(range(len(numbers)))  # without gaps, so that a view can fold them
            assert len(numbers) == len(run.events)
            assert [event.seq for event in store.kept] == list(range(fails_at))
            assert store.closed == 1
            assert len(agent.model.requests) <= 2  # type: ignore[union-attr]


def test_run_in_memory_stays_usable_after_a_store_failure(subtests: pytest.Subtests) -> None:
    for fails_at in range(len(KINDS)):
        with subtests.test(fails_at=fails_at):
            with pytest.raises(StoreError) as caught:
                do(an_agent(), Memory(fails_at))
            run = caught.value.run
            assert run is not None
            kept = min(fails_at + 1, len(KINDS) - 1)  # an unwritten end is not part of the run
            assert [type(event) for event in run.events[:kept]] == KINDS[:kept]
            assert Run.from_events(run.events) == run
            assert not run.should_continue
            assert (run.status, run.stop_reason) == ("failed", "error")
            assert run.error is not None and run.error.type == "StoreError"
            assert all(len(round_.results) == len(round_.calls) for round_ in run.rounds)


def test_run_ends_once_even_when_the_store_fails(subtests: pytest.Subtests) -> None:
    for fails_at in range(len(KINDS)):
        with subtests.test(fails_at=fails_at):
            with pytest.raises(StoreError) as caught:
                do(an_agent(), Memory(fails_at))
            assert caught.value.run is not None
            assert [type(event) for event in caught.value.run.events].count(e.RunFinished) == 1


def test_conversation_can_continue_after_a_store_failure() -> None:
    with pytest.raises(StoreError) as caught:
        do(an_agent(), Memory(4))
    again = asyncio.run(Agent(ScriptedModel(["Well then."])).run("And now?", continue_from=caught.value.run))
    assert (again.status, again.text) == ("completed", "Well then.")


def test_store_failure_is_logged_with_store_as_its_place() -> None:
    with pytest.raises(StoreError) as caught:
        do(an_agent(), Memory(2))
    assert caught.value.run is not None
    places = [event.where for event in caught.value.run.events if isinstance(event, e.ErrorRaised)]
    assert places == ["store"]


def test_writer_is_closed_when_the_run_ends() -> None:
    store = Memory()
    do(an_agent(), store)
    assert store.closed == 1


def test_log_without_a_store_stays_in_memory() -> None:
    run = do(an_agent())
    assert (run.status, run.text) == ("completed", "Three.")


def test_unstored_event_is_not_announced_before_the_store_failure() -> None:
    numbers: list[int] = []
    log = EventLog("run-1", watchers=[lambda item: numbers.append(item.seq)])  # type: ignore[union-attr]
    log.keep_in(Memory(1))
    log.emit(e.RunStarted, schema=1, prompt=user("x"), model="m")
    with pytest.raises(StoreError):
        log.emit(e.Warned, message="mind")
    assert numbers == [0]
    log.emit(e.Warned, message="the log has failed")
    assert numbers == [0, 1, 2]


def test_closed_log_accepts_no_events() -> None:
    store = Memory()
    log = EventLog("run-1")
    log.keep_in(store)
    log.emit(e.RunStarted, schema=1, prompt=user("x"), model="m")
    log.close()
    with pytest.raises(asyncio.CancelledError):
        log.emit(e.Warned, message="of a tool that nobody waits for any more")
    assert len(store.kept) == len(log.run.events) == 1


def test_warnings_with_the_same_advice_are_logged_once() -> None:
    log = EventLog("run-1")
    log.emit(e.RunStarted, schema=1, prompt=user("x"), model="m")
    for advice in ("Wait", "Wait", "", SetKey("A")):
        log.warn_once("Slow", advice)
    assert [warning.advice for warning in log.run.warned] == [(Plain("Wait"),), (), (SetKey("A"),)]
