"""Runs whose model falls silent during a reply: the partial reply is kept, and the conversation continues."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from threading import Semaphore
from typing import Any

import pytest
from run_checks import checked, kinds
from scripted_runs import add
from virtual_time import SkippedClock
from waiting import PATIENCE, wait_until

from agentnb import Agent, Run, Store, ToolCall
from agentnb.core.log.events import ModelReplied, RetryScheduled
from agentnb.display.texts.notebook_commands import in_notebook
from agentnb.errors import ProviderTrouble
from agentnb.models import RemoteModel, make_model
from agentnb.models.transport.retry import RetryPolicy
from agentnb.runtime.host.live_run import LiveRun
from agentnb.testing import LoopbackServer, Stall
from agentnb.testing.listener import _Handler
from agentnb.testing.replies.reply_format import Delivery

ONCE_MORE = RetryPolicy(trouble_first=0.001, trouble_retries=1)
pytestmark = pytest.mark.usefixtures("own_limiters")
each_format = pytest.mark.parametrize("wire", ["anthropic", "openai", "openai-responses", "compatible"])
each_sign = pytest.mark.parametrize("pings", ["", "comments", "events"])
LIMIT = 60.0
"""Seconds of silence after which an attempt is abandoned."""
MAX_SKIPS = 16
SAID = "One two three four"
ADD = ToolCall("add", {"a": 1, "b": 2})


class Silence:
    """Skips server silences; keepalives continue."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, clock: SkippedClock) -> None:
        self._clock = clock
        self._begun = Semaphore(0)
        self._writes = 0
        pause, write = _Handler._pause, _Handler._write

        def noted_pause(handler: _Handler, delivery: Delivery) -> None:
            self._begun.release()
            pause(handler, delivery)

        def noted_write(handler: _Handler, chunk: bytes, in_pieces: bool) -> None:
            write(handler, chunk, in_pieces)
            self._writes += 1

        monkeypatch.setattr(_Handler, "_pause", noted_pause)
        monkeypatch.setattr(_Handler, "_write", noted_write)

    def skip(self, live: LiveRun, pings: str) -> Run:
        """Return a run whose model falls silent twice: each attempt times out despite keepalives."""
        for attempt in (1, 2):
            assert self._begun.acquire(timeout=PATIENCE)
            given_up = partial(has_given_up, live, attempt)
            for _ in range(MAX_SKIPS):
                self._clock.skip(LIMIT / 4, unless=given_up)
                if pings:
                    sent = self._writes + 2
                    wait_until(lambda sent=sent, given_up=given_up: self._writes >= sent or given_up())
                if given_up():
                    break
            wait_until(given_up)
        return live.result(PATIENCE)


@pytest.fixture
def silence(monkeypatch: pytest.MonkeyPatch, skipped: SkippedClock) -> Silence:
    return Silence(monkeypatch, skipped)


def has_given_up(live: LiveRun, attempt: int) -> bool:
    return live.done or sum(isinstance(event, RetryScheduled) for event in live.run.events) >= attempt


def agent_of(server: LoopbackServer, wire: str, pings: str) -> Agent:
    limits = {"timeout": 1_000 * LIMIT, "stall": LIMIT} if pings else {"timeout": LIMIT, "stall": 1_000 * LIMIT}
    model = make_model(server.model(wire, **limits))
    assert isinstance(model, RemoteModel)
    model.retries = ONCE_MORE
    return Agent(model, tools=[add], todos=False, guidance="off")


def stalls(wire: str, line: Any, pings: Any) -> Stall:
    """Return stalls in the middle of the line."""
    return Stall(600, {"anthropic": 5, "openai-responses": 6}.get(wire, 3), line, pings)


@each_format
@each_sign
@pytest.mark.req("R0.12", "R2.40")
def test_each_attempt_is_logged_and_the_run_can_be_continued(wire: str, pings: str, tmp_path: Path, silence: Silence) -> None:
    store = Store(tmp_path / "runs")
    script = [ADD, stalls(wire, SAID, pings), stalls(wire, SAID, pings), "Here and whole."]
    with LoopbackServer(script) as server:
        agent = agent_of(server, wire, pings)
        run = silence.skip(agent.start("go", store=store), pings)
        (retry,) = [event for event in run.events if isinstance(event, RetryScheduled)]
        replies = [event for event in run.events if isinstance(event, ModelReplied)]
        assert SAID.startswith(retry.heard) and 0 < len(retry.heard) < len(SAID)
        assert (replies[-1].stop_reason, replies[-1].message.text, run.text) == ("broken_off", retry.heard, retry.heard)
        assert (run.status, run.stop_reason) == ("failed", "error") and run.rounds[0].results[0].text == "3"
        assert run.error is not None and run.error.type == "ProviderTimedOut" and run.error.message == retry.reason
        assert "--continue" in in_notebook(run.error.advice)
        checked(run)
        assert store.load(run.id) == run
        again = agent.run_sync("again", store=store, continue_from=store.load(run.id))
    assert (again.status, again.text) == ("completed", "Here and whole.")
    assert server.requests[-1].problems == ()


@each_format
@each_sign
@pytest.mark.req("R0.12", "KX.11")
def test_timed_out_call_with_incomplete_arguments_never_runs(wire: str, pings: str, silence: Silence) -> None:
    half = stalls(wire, ["I add.", ToolCall("add", {"a": 123456789, "b": 987654321})], pings)
    further = Stall(600, {"anthropic": 9, "openai-responses": 10}.get(wire, 5), half.line, half.pings)
    with LoopbackServer([further, further, "Never mind."]) as server:
        agent = agent_of(server, wire, pings)
        with pytest.raises(ProviderTrouble) as caught:
            silence.skip(agent.start("go"), pings)
        run = caught.value.run
        assert run is not None and (run.text, run.rounds[0].stop_reason) == ("I add.", "broken_off")
        assert "ToolStarted" not in kinds(run) and not run.rounds[0].calls
        assert agent.run_sync("again", continue_from=run).text == "Never mind."
    assert server.requests[-1].problems == ()
