"""Runs whose model falls silent in the middle of its reply: what came is kept, and the conversation goes on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from threading import Semaphore
from typing import Any

import pytest
from run_checks import assert_closed, assert_every_call_has_one_result, kinds
from scripted_runs import add
from virtual_time import SkippedClock
from waiting import PATIENCE

from agentnb import Agent, Run, Store, ToolCall
from agentnb.core.events import ModelReplied, RetryScheduled
from agentnb.errors import ProviderTrouble
from agentnb.models import RemoteModel, make_model
from agentnb.models.retry import RetryPolicy
from agentnb.runtime.live import LiveRun
from agentnb.testing import LoopbackServer, Stall
from agentnb.testing.connection import _Handler
from agentnb.testing.wire import Delivery

ONCE_MORE = RetryPolicy(trouble_first=0.001, trouble_retries=1)
pytestmark = pytest.mark.usefixtures("own_limiters")
each_format = pytest.mark.parametrize("wire", ["anthropic", "openai", "openai-responses", "compatible"])
each_sign = pytest.mark.parametrize("pings", ["", "comments", "events"])
LIMIT = 60.0
"""Seconds of silence after which an attempt is given up."""
SAID = "One two three four"
ADD = ToolCall("add", {"a": 1, "b": 2})


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> Semaphore:
    """How often a server of this test has fallen silent."""
    begun, pause = Semaphore(0), _Handler._pause

    def noted(self: _Handler, delivery: Delivery) -> None:
        begun.release()
        pause(self, delivery)

    monkeypatch.setattr(_Handler, "_pause", noted)
    return begun


def run_through(live: LiveRun, pauses: Semaphore, clock: SkippedClock) -> Run:
    """The run, which waits no time where its model has fallen silent: the time that it would wait is skipped, twice."""
    for attempt in (1, 2):
        assert pauses.acquire(timeout=PATIENCE)
        given_up = partial(has_given_up, live, attempt)
        while not given_up():
            clock.skip(LIMIT, unless=given_up)
    return live.result(PATIENCE)


def has_given_up(live: LiveRun, attempt: int) -> bool:
    return live.done or sum(isinstance(one, RetryScheduled) for one in live.run.events) >= attempt


def agent_of(server: LoopbackServer, wire: str, pings: str) -> Agent:
    limits = {"timeout": 1_000 * LIMIT, "stall": LIMIT} if pings else {"timeout": LIMIT, "stall": 1_000 * LIMIT}
    model = make_model(server.model(wire, **limits))
    assert isinstance(model, RemoteModel)
    model.retries = ONCE_MORE
    return Agent(model, tools=[add], todos=False, guidance="off")


def stalls(wire: str, line: Any, pings: Any) -> Stall:
    """One in the middle of what the line says."""
    return Stall(600, {"anthropic": 5, "openai-responses": 6}.get(wire, 3), line, pings)


@each_format
@each_sign
@pytest.mark.req("R0.12", "R2.40")
def test_what_came_of_each_attempt_is_in_the_log_and_the_run_can_be_gone_on_with(
    wire: str, pings: str, tmp_path: Path, pauses: Semaphore, skipped: SkippedClock
) -> None:
    store = Store(tmp_path / "runs")
    script = [ADD, stalls(wire, SAID, pings), stalls(wire, SAID, pings), "Here and whole."]
    with LoopbackServer(script) as server:
        agent = agent_of(server, wire, pings)
        run = run_through(agent.start("go", store=store), pauses, skipped)
        (retry,) = [event for event in run.events if isinstance(event, RetryScheduled)]
        replies = [event for event in run.events if isinstance(event, ModelReplied)]
        assert SAID.startswith(retry.heard) and 0 < len(retry.heard) < len(SAID)
        assert (replies[-1].stop_reason, replies[-1].message.text, run.text) == ("broken_off", retry.heard, retry.heard)
        assert (run.status, run.stop_reason) == ("failed", "error") and run.rounds[0].results[0].text == "3"
        assert run.error is not None and run.error.type == "ProviderTrouble" and run.error.message == retry.reason
        assert "--continue" in run.error.hint
        assert_closed(run)
        assert_every_call_has_one_result(run)
        assert store.load(run.id) == run
        again = agent.run_sync("again", store=store, continue_from=store.load(run.id))
    assert (again.status, again.text) == ("completed", "Here and whole.")
    assert server.requests[-1].problems == ()


@each_format
@each_sign
@pytest.mark.req("R0.12", "KX.11")
def test_a_call_whose_arguments_stop_in_the_middle_is_never_run(
    wire: str, pings: str, pauses: Semaphore, skipped: SkippedClock
) -> None:
    half = stalls(wire, ["I add.", ToolCall("add", {"a": 123456789, "b": 987654321})], pings)
    further = Stall(600, {"anthropic": 9, "openai-responses": 10}.get(wire, 5), half.line, half.pings)
    with LoopbackServer([further, further, "Never mind."]) as server:
        agent = agent_of(server, wire, pings)
        with pytest.raises(ProviderTrouble) as caught:
            run_through(agent.start("go"), pauses, skipped)
        run = caught.value.run
        assert run is not None and (run.text, run.rounds[0].stop_reason) == ("I add.", "broken_off")
        assert "ToolStarted" not in kinds(run) and not run.rounds[0].calls
        assert agent.run_sync("again", continue_from=run).text == "Never mind."
    assert server.requests[-1].problems == ()
