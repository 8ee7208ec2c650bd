"""Runs with failing and retried model calls."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from counted_limiter import counted_limiters
from run_checks import kinds
from scripted_runs import add
from waiting import PATIENCE, wait_until

from agentnb import Agent, Run, Store, ToolCall, tables
from agentnb.core.log.events import ModelReplied, RetryScheduled, TextDelta
from agentnb.core.run.rounds import Retry
from agentnb.display.texts.labels import duration
from agentnb.display.texts.round_notes import retry_line
from agentnb.errors import KeyRefused, ModelError, ProviderTrouble, RateLimited
from agentnb.models import RemoteModel, make_model
from agentnb.models.defaults import MAX_AT_ONCE
from agentnb.models.transport import limiter, retry
from agentnb.models.transport.retry import RetryPolicy
from agentnb.testing import Cut, ErrorInStream, LoopbackServer, Stall, Status

QUICK = RetryPolicy(rate_limit_first=0.001, trouble_first=0.001)
LONG_WAIT = 50.0
LONG = RetryPolicy(rate_limit_first=100.0, trouble_first=100.0)
pytestmark = pytest.mark.usefixtures("own_limiters")
each_format = pytest.mark.parametrize("wire", ["anthropic", "openai", "openai-responses", "compatible"])


def model_of(server: LoopbackServer, wire: str, retries: RetryPolicy = QUICK, **options: Any) -> RemoteModel:
    model = make_model(server.model(wire, **options))
    assert isinstance(model, RemoteModel)
    model.retries = retries
    return model


def agent_of(server: LoopbackServer, wire: str, retries: RetryPolicy = QUICK, **options: Any) -> Agent:
    return Agent(model_of(server, wire, retries, **options), tools=[add], todos=False, guidance="off")


ADD = ToolCall("add", {"a": 1, "b": 2})


@pytest.fixture
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the waits for retries and limiters by advancing their clock."""
    passed, sleep = 0.0, asyncio.sleep

    async def skip(seconds: float) -> None:
        nonlocal passed
        passed += seconds
        await sleep(0)

    for module in (limiter, retry):
        monkeypatch.setattr(module, "monotonic", lambda: time.monotonic() + passed)
    monkeypatch.setattr(asyncio, "sleep", skip)


def scheduled(run: Run) -> list[RetryScheduled]:
    return [event for event in run.events if isinstance(event, RetryScheduled)]


# Reports


@each_format
@pytest.mark.req("R0.10", "R2.40", "K0.12", "KX.3", "KX.9")
def test_each_retried_attempt_is_an_event_with_its_reason(wire: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    with LoopbackServer([Status(503, "Busy."), ADD, Status(429), Cut(line="It is not the sum", after=5), "It is 3."]) as server:
        run = agent_of(server, wire).run_sync("go", store=store)
        assert len(server.requests) == 5
    told = scheduled(run)
    assert [(event.attempt, event.status, bool(event.heard)) for event in told] == [
        (1, 503, False),
        (1, 429, False),
        (2, None, True),
    ]
    assert told[0].reason.startswith(f"{wire}: the request failed (503") and told[0].reason.endswith("Busy.")
    assert "too many requests (429" in told[1].reason and "the connection was lost" in told[2].reason
    assert all(0 < event.seconds < 1 for event in told)
    assert [[one.attempt for one in round_.retries] for round_ in run.rounds] == [[1], [1, 2]]
    assert run.rounds[0].retries == (Retry(1, told[0].seconds, told[0].reason, 503, ""),)
    assert (run.text, run.status, run.rounds[0].results[0].text) == ("It is 3.", "completed", "3")
    assert store.load(run.id) == run == Run.from_events(run.events)


@each_format
@pytest.mark.req("R2.40")
def test_interrupted_reply_is_kept_with_its_retry_and_streaming_restarts(wire: str) -> None:
    seen: list[Any] = []
    with LoopbackServer([Cut(line="One two three four", after=5), "Five six."]) as server:
        run = agent_of(server, wire).run_sync("go", watch=seen.append)
    (retry,) = scheduled(run)
    place = seen.index(retry)
    heard = ["".join(item.text for item in part if isinstance(item, TextDelta)) for part in (seen[:place], seen[place:])]
    assert heard == [retry.heard, "Five six."] and "One two three four".startswith(retry.heard) and retry.heard
    assert [event.message.text for event in run.events if isinstance(event, ModelReplied)] == ["Five six."] == [run.text]
    assert run.messages[-1].text == "Five six."


@each_format
@pytest.mark.req("R2.40")
def test_retry_is_logged_before_its_wait(wire: str, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    with LoopbackServer([Status(500)]) as server:
        live = agent_of(server, wire, LONG).start("go", store=store)
        wait_until(lambda: scheduled(live.run))
        lines = [json.loads(line) for line in store.path(live.run_id).read_text(encoding="utf-8").splitlines()]
        assert lines[-1]["kind"] == "retry_scheduled" and lines[-1]["seconds"] >= 50
        assert lines[-1]["status"] == 500
        live.stop()
        live.result(PATIENCE)


@each_format
@pytest.mark.req("R0.12", "K0.12")
@pytest.mark.parametrize(("line", "attempts", "kind"), [(Status(429), 6, RateLimited), (Status(529), 5, ProviderTrouble)])
def test_last_failure_becomes_the_error_of_the_run(
    wire: str, line: Any, attempts: int, kind: type[ModelError], tmp_path: Path
) -> None:
    store = Store(tmp_path / "runs")
    with LoopbackServer([ADD] + [line] * 20) as server:
        run = agent_of(server, wire).run_sync("go", store=store)
        assert len(server.requests) == 1 + attempts
    assert (run.status, run.stop_reason) == ("failed", "error")
    assert run.error is not None and run.error.type == kind.__name__ and run.error.message == scheduled(run)[-1].reason
    assert len(run.rounds[1].retries) == attempts - 1 and run.rounds[1].reply is None
    assert kinds(run)[-4:] == ["RetryScheduled", "ErrorRaised", "RoundFinished", "RunFinished"]
    assert store.load(run.id) == run


@each_format
@pytest.mark.req("R0.12", "R2.40")
def test_permanent_failure_fails_the_run_at_once(wire: str) -> None:
    with LoopbackServer([Status(401)] * 3) as server:
        with pytest.raises(KeyRefused) as caught:
            agent_of(server, wire).run_sync("go")
        assert len(server.requests) == 1
    assert caught.value.run is not None and scheduled(caught.value.run) == [] == list(caught.value.run.rounds[0].retries)


@pytest.mark.req("R0.12")
def test_content_of_the_last_attempt_is_kept_as_interrupted() -> None:
    with LoopbackServer([ErrorInStream(line="One two three four", after=6)] * 5) as server:
        with pytest.raises(ProviderTrouble) as caught:
            agent_of(server, "openai").run_sync("go")
    run = caught.value.run
    assert run is not None and run.rounds[0].stop_reason == "broken_off" and run.text == run.rounds[0].retries[0].heard != ""


@each_format
@pytest.mark.req("R0.11")
def test_streamed_and_unstreamed_requests_are_retried_alike(wire: str) -> None:
    script = [Status(500), ADD, Status(429), "It is 3."]
    with LoopbackServer(script) as one, LoopbackServer(script) as other:
        streamed, whole = agent_of(one, wire).run_sync("go"), agent_of(other, wire, stream="no").run_sync("go")
    assert kinds(streamed) == kinds(whole) and streamed.text == whole.text == "It is 3."
    plain = [[(event.attempt, event.status, event.reason) for event in scheduled(run)] for run in (streamed, whole)]
    assert plain[0] == plain[1]


# Many at once


@each_format
@pytest.mark.req("R2.40", "K0.12")
def test_many_rate_limited_runs_end_with_every_attempt_logged(wire: str) -> None:
    lock, count = threading.Lock(), 0

    def answer(body: Any) -> Any:
        nonlocal count
        with lock:
            count += 1
            return Status(429) if count <= 8 else "Here."

    async def crowd(agent: Agent) -> list[Run]:
        async with asyncio.timeout(60):
            return await asyncio.gather(*(agent.run("go") for _ in range(20)))

    with LoopbackServer(answer) as server:
        runs = asyncio.run(crowd(agent_of(server, wire, RetryPolicy(rate_limit_first=0.01))))
        assert len(server.requests) == 28
    assert {run.text for run in runs} == {"Here."}
    assert sum(len(run.rounds[0].retries) for run in runs) == 8


# Delayed by other calls


@each_format
@pytest.mark.req("R2.40", "KX.3")
def test_wait_before_the_first_attempt_is_reported_as_attempt_0(wire: str, no_waits: None, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    with LoopbackServer(["Warm.", Status(503), "Here."]) as server, counted_limiters() as limiters:
        agent = agent_of(server, wire)
        agent.run_sync("go")  # imports are slow
        limiters[0].was_refused(LONG_WAIT)
        run = agent.run_sync("go", store=store)
    assert [one.attempt for one in run.rounds[0].retries] == [0, 1] and run.text == "Here."
    waited = run.rounds[0].retries[0]
    assert waited.reason == f"{wire} has asked all calls to wait" and waited.status is None and 0 < waited.seconds <= LONG_WAIT
    assert retry_line(waited) == f"waited {duration(waited.seconds)}: {waited.reason}"
    assert retry_line(run.rounds[0].retries[1]).startswith("attempt 1 failed, retried after ")
    (row,) = tables.usage(run).itertuples()
    assert row.attempts == 2 == len(server.requests) - 1 and row.waited >= waited.seconds
    assert store.load(run.id) == run


@each_format
@pytest.mark.req("K0.12")
def test_run_during_a_long_provider_wait_fails_at_once(wire: str) -> None:
    with LoopbackServer([Status(429, retry_after=900)] * 9) as server:
        agent = agent_of(server, wire)
        for words in ("asks you to wait 900 s", "the next call is allowed at", "the next call is allowed at"):
            with pytest.raises(RateLimited, match=words) as caught:
                agent.run_sync("go")
            assert caught.value.run is not None and not scheduled(caught.value.run)
        assert len(server.requests) == 1


@pytest.mark.req("R0.13", "K0.12")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning", "ignore:unclosed:ResourceWarning")
def test_runs_continue_after_closing_a_loop_with_many_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(limiter, "LOOK_AGAIN", 0.01)

    def answer(body: Any) -> Any:
        return Stall(100) if "hang" in json.dumps(body) else "Here."

    with LoopbackServer(answer) as server:
        agent = agent_of(server, "openai")
        loop = asyncio.new_event_loop()
        tasks = [loop.create_task(agent.run("hang")) for _ in range(MAX_AT_ONCE + 8)]

        async def until_full() -> None:
            async with asyncio.timeout(PATIENCE):
                while len(server.requests) < MAX_AT_ONCE:
                    await asyncio.sleep(0.01)

        loop.run_until_complete(until_full())
        loop.close()
        for task in asyncio.all_tasks(loop):
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        live = agent.start("go")
        assert live.result(PATIENCE).text == "Here."
        tasks.clear()
        gc.collect()
