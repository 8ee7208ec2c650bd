"""The usage ledger: a row per model call."""

from __future__ import annotations

import queue
from datetime import timedelta
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from asserted_sentences import Snapshot
from marked_logs import cut_log
from run_builder import RunBuilder, begun
from scripted_runs import even_failed
from streamed_replies import FOREVER, Streamed, Streaming
from test_tables import COLUMNS, add
from usage_sums import check_sums
from waiting import PATIENCE

from agentnb import Agent, Run, Store, ToolCall, fork_sync, save_trace, tables
from agentnb.core.log import events as e
from agentnb.core.messages import Message, Text
from agentnb.core.usage import Usage
from agentnb.errors import ProviderTrouble
from agentnb.models import Reply, TextDelta
from agentnb.models.model import Retry, StreamItem

BUSY = "anthropic: overloaded"


def retry(attempt: int, seconds: float, status: int | None = 529) -> Retry:
    return Retry(attempt, seconds, BUSY, status)


def reply(*parts: Any, stop_reason: str = "end_turn", model: Any = "claude-1", **usage: Any) -> Reply:
    return Reply(Message("assistant", parts), Usage(**usage), stop_reason, {"model": model} if model else {})


def run_of(*answers: list[StreamItem | Exception], store: Store | None = None) -> Run:
    agent = Agent(Streaming([Streamed(*answer) for answer in answers], name="anthropic:claude"), tools=[add], policy="minimal")
    return even_failed(lambda: agent.run_sync("Go", store=store))


CALL = ToolCall("add", {"a": 1, "b": 2})


def hard_won() -> Run:
    """Build two rounds: the first succeeds at the third attempt, the second immediately."""
    used = {"input": 100, "output": 20, "cache_read": 60, "cache_write": 30, "reasoning": 7, "cost": 0.5}
    first: list[Any] = [retry(1, 2.5), TextDelta("Le"), retry(2, 4.0, None), reply(CALL, stop_reason="tool_use", **used)]
    return run_of(first, [reply(Text("Three."), model="claude-2", input=130, output=10, cost=0.25)])


def failed_in_the_end() -> Run:
    """Build a successful round, and one whose second attempt fails too."""
    trouble = ProviderTrouble("anthropic: overloaded for long", "Try again later")
    return run_of([reply(CALL, input=9, output=3, cost=0.5)], [retry(1, 2.0), trouble])


def row(run: Run, number: int = 0) -> dict[str, Any]:
    """Return a row of the table; missing values are None."""
    found = tables.usage(run).iloc[number].to_dict()
    return {name: None if pd.isna(value) else value for name, value in found.items()}


@pytest.mark.req("KX.9")
@pytest.mark.parametrize("make", [hard_won, failed_in_the_end, list])
def test_columns_keep_their_types_with_any_data(make: Any) -> None:
    frame = tables.usage(make())
    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == COLUMNS["usage"]
    assert list(frame.columns) == list(COLUMNS["usage"])


@pytest.mark.req("KX.9")
def test_model_call_has_a_row_with_its_usage() -> None:
    run = hard_won()
    first = run.rounds[0]
    assert row(run) == {
        "run_id": run.id,
        "round": 1,
        "operation": "chat",
        "profile": None,
        "context": None,
        "execution_mode": None,
        "conversation": run.id,
        "call_id": None,
        "model": "anthropic:claude",
        "answered_by": "claude-1",
        "author": None,
        "attempts": 3,
        "waited": 6.5,
        "seconds": first.model_seconds,
        "input_tokens": 100,
        "output_tokens": 20,
        "cache_read_tokens": 60,
        "cache_write_tokens": 30,
        "reasoning_tokens": 7,
        "estimated": False,
        "cost": 0.5,
        "stop_reason": "tool_use",
        "error": None,
        "started_at": first.started_at,
        "response_id": None,
        "copied_from": None,
        "nested_run": None,
    }


def test_immediate_success_counts_as_one_attempt_without_waiting() -> None:
    second = row(hard_won(), 1)
    assert (second["attempts"], second["waited"], second["answered_by"], second["error"]) == (1, 0.0, "claude-2", None)
    assert (second["cache_read_tokens"], second["cache_write_tokens"], second["reasoning_tokens"]) == (None, None, None)


@pytest.mark.req("KX.9")
def test_failed_model_call_has_a_row_with_the_reason(snapshot: Snapshot) -> None:
    run = failed_in_the_end()
    last = row(run, 1)
    assert (last["round"], last["operation"], last["attempts"], last["waited"]) == (2, "chat", 2, 2.0)
    assert last["error"] == snapshot
    unknown = ("answered_by", "seconds", "input_tokens", "output_tokens", "cost", "stop_reason")
    assert [last[name] for name in unknown] == [None] * len(unknown)
    assert row(run, 0)["error"] is None and row(run, 0)["seconds"] is not None


def test_row_of_an_interrupted_stream_has_reply_and_error() -> None:
    run = run_of([TextDelta("I begin"), ConnectionError("cut")])
    only = row(run)
    assert (only["stop_reason"], only["cost"], only["answered_by"]) == ("broken_off", None, None)
    assert "cut" in only["error"] and only["seconds"] == run.rounds[0].model_seconds


def test_failure_after_the_reply_is_not_attributed_to_the_call() -> None:
    run = run_of([reply(CALL)], [reply(Text("Half an ans"), stop_reason="model_context_window_exceeded")])
    assert run.status == "failed" and run.error is not None
    assert tables.usage(run)["error"].isna().all()


def test_call_stopped_while_waiting_counts_its_attempts() -> None:
    waits: queue.SimpleQueue[e.RetryScheduled] = queue.SimpleQueue()
    model = Streaming([Streamed(retry(1, 3_000.0), FOREVER)])
    live = Agent(model).start("Go", watch=lambda item: waits.put(item) if isinstance(item, e.RetryScheduled) else None)
    waits.get(timeout=PATIENCE)
    live.stop()
    only = row(live.result(PATIENCE))
    assert (only["attempts"], only["error"], only["stop_reason"]) == (1, "cancelled", None)
    assert 0 <= only["waited"] < 3_000.0


def test_responding_model_is_missing_if_the_provider_omits_it(subtests: pytest.Subtests) -> None:
    for name in [None, 7, "", ["claude"]]:
        with subtests.test(name=name):
            assert row(run_of([reply(Text("x"), model=name)]))["answered_by"] is None


def test_estimated_usage_is_marked_for_each_call() -> None:
    run = run_of([reply(CALL, input=1, output=1, estimated=True)], [reply(Text("x"), input=1, output=1)])
    assert list(tables.usage(run).estimated) == [True, False]


def test_rows_of_a_truncated_log_have_the_known_values(tmp_path: Path) -> None:
    path = save_trace(hard_won(), tmp_path / "cut.jsonl")
    frame = tables.usage(cut_log(path, "model_replied", before=True))
    assert list(frame.attempts) == [3] and (frame.error == "interrupted").all() and frame.input_tokens.isna().all()


def test_retries_are_in_the_tables_of_rounds_and_runs() -> None:
    runs = [hard_won(), failed_in_the_end()]
    assert list(tables.rounds(runs).attempts) == [3, 1, 1, 2]
    assert list(tables.runs(runs).retries) == [2, 1]


def test_wait_before_the_first_attempt_is_not_a_retry() -> None:
    run = run_of([retry(0, 3.0, None), retry(1, 2.5), reply(Text("Done."))])
    assert tables.runs(run).retries[0] == 1 and tables.rounds(run).attempts[0] == 2


def test_failed_attempt_details_survive_the_log(tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    run = run_of([TextDelta("Let me"), retry(1, 2.0), reply(Text("Done."))], store=store)
    assert [one.heard for one in run.rounds[0].retries] == ["Let me"]
    pd.testing.assert_frame_equal(tables.usage(store), tables.usage(run))


@pytest.mark.req("KX.9", "R2.14")
def test_usage_totals_of_calls_equal_those_of_runs() -> None:
    check_sums([hard_won(), failed_in_the_end(), run_of([TextDelta("I"), ConnectionError("cut")])])


def test_calls_are_in_the_order_they_were_made() -> None:
    frame = tables.usage([hard_won(), failed_in_the_end()])
    assert list(frame["round"]) == [1, 2, 1, 2]
    for _, mine in frame.groupby("run_id", sort=False):
        assert (mine.started_at.diff().dropna() >= timedelta(0)).all()


def test_stopped_call_counts_only_its_own_waiting_time() -> None:
    """The events are one second apart: the call failed after two seconds, and was stopped two seconds later."""
    built = RunBuilder().extend(*begun(0)).add(e.Warned, message="The model takes its time")
    built.add(e.RetryScheduled, attempt=1, seconds=60.0, reason=BUSY).add(e.CommandReceived, command="stop")
    built.add(e.RoundFinished, index=0, status="cancelled", seconds=4.0)
    only = row(built.add(e.RunFinished, status="cancelled", stop_reason="cancelled", seconds=6.0).run)
    assert (only["attempts"], only["waited"]) == (1, 2.0)


def test_totals_count_rounds_repeated_by_forks_once() -> None:
    def answers(tokens: int) -> Streaming:
        return Streaming([Streamed(reply(Text("Three."), input=tokens, output=1, cost=tokens / 100))], name="anthropic:claude")

    run = run_of([reply(CALL, input=1, output=1, cost=0.01)], [reply(Text("Three."), input=10, output=1, cost=0.1)])
    fork = fork_sync(run, 2, model=answers(100))
    again = fork_sync(fork, 2, model=answers(1000))
    for source, tokens in (
        ([run, fork, again], 1111),
        ([again, run, fork], 1111),
        ([run, fork], 111),
        ([fork], 101),
        ([again, fork], 1101),
    ):
        calls, runs = tables.usage(source), tables.runs(source)
        assert calls["input_tokens"].sum() == runs["own_input_tokens"].sum() == tokens
        assert runs["own_cost"].sum() == pytest.approx(tokens / 100)
    assert tables.usage(fork)["copied_from"].to_list()[:1] == [run.id] and runs["input_tokens"].sum() == 1001 + 101
