"""Runs as tables."""

from __future__ import annotations

import asyncio
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from marked_logs import cut_log
from run_builder import RunBuilder, begun, called, guidance_of, run_of, todos_of
from scripted_runs import add, play

from agentnb import Agent, Run, Store, ToolCall, save_trace, tables
from agentnb.core.log import events as e
from agentnb.core.messages import Message, Text
from agentnb.core.todos import TodoStatus
from agentnb.core.usage import Usage
from agentnb.models import Reply, ScriptedModel, SimulatedModel

TIME = "datetime64[us, UTC]"
COLUMNS = {
    "runs": {
        "run_id": "str",
        "started_at": TIME,
        "ended_at": TIME,
        "agent": "str",
        "model": "str",
        "policy": "str",
        "guidance": "str",
        "guidance_version": "str",
        "guidance_propensity": "float64",
        "status": "str",
        "stop_reason": "str",
        "end": "str",
        "outcome": "str",
        "score": "float64",
        "outcome_from": "str",
        "limit": "str",
        "limit_value": "float64",
        "recovered": "Int64",
        "rounds": "int64",
        "steps": "int64",
        "compactions": "Int64",
        "retries": "Int64",
        "tool_calls": "int64",
        "tool_errors": "int64",
        "calls_blocked": "Int64",
        "todos": "Int64",
        "todos_completed": "Int64",
        "all_completed": "boolean",
        "breaches": "Int64",
        "guidance_given": "Int64",
        "guidance_followed": "Int64",
        "input_tokens": "Int64",
        "output_tokens": "Int64",
        "own_input_tokens": "Int64",
        "own_output_tokens": "Int64",
        "stated_input_tokens": "Int64",
        "stated_output_tokens": "Int64",
        "stated_cost": "float64",
        "tokens_estimated": "bool",
        "cost": "float64",
        "own_cost": "float64",
        "spent": "float64",
        "budget": "float64",
        "seconds": "float64",
        "prompt": "str",
        "text": "str",
        "error": "str",
        "parent_id": "str",
        "continued_from": "str",
        "conversation": "str",
        "kind": "str",
        "tags": "str",
        "context_type": "str",
        "entity": "str",
        "origin_format": "str",
        "origin_file": "str",
        "origin_position": "str",
        "benchmark": "str",
        "task": "str",
        "trial": "str",
        "recorded": "str",
        "forked_from": "str",
        "forked_at_round": "Int64",
    },
    "events": {"run_id": "str", "seq": "int64", "at": TIME, "kind": "str", "round": "Int64", "fields": "str"},
    "rounds": {
        "run_id": "str",
        "round": "int64",
        "reason": "str",
        "status": "str",
        "stop_reason": "str",
        "author": "str",
        "text": "str",
        "tools_called": "boolean",
        "todos_open": "Int64",
        "workflow_mode": "boolean",
        "went_on": "boolean",
        "attempts": "Int64",
        "compacted": "boolean",
        "recovered": "boolean",
        "guidance_cells": "str",
        "tool_calls": "int64",
        "tool_errors": "int64",
        "metadata": "str",
        "input_tokens": "Int64",
        "output_tokens": "Int64",
        "tokens_estimated": "bool",
        "context_tokens": "Int64",
        "context_window": "Int64",
        "context_share": "float64",
        "cost": "float64",
        "model_seconds": "float64",
        "seconds": "float64",
        "started_at": TIME,
        "ended_at": TIME,
    },
    "messages": {
        "run_id": "str",
        "position": "int64",
        "role": "str",
        "author": "str",
        "text": "str",
        "thinking": "str",
        "tool_calls": "int64",
        "tool_results": "int64",
        "inherited": "bool",
    },
    "tool_calls": {
        "run_id": "str",
        "round": "Int64",
        "step": "str",
        "position": "int64",
        "call_id": "str",
        "name": "str",
        "model": "str",
        "author": "str",
        "arguments": "str",
        "success": "boolean",
        "error_code": "str",
        "rule": "str",
        "result": "str",
        "started_at": TIME,
        "ended_at": TIME,
        "seconds": "float64",
        "traceback": "str",
        "parent_call": "str",
    },
    "guidance": {
        "run_id": "str",
        "model": "str",
        "policy": "str",
        "round": "int64",
        "set": "str",
        "version": "str",
        "cell": "str",
        "level": "int64",
        "trigger": "str",
        "tokens": "int64",
        "followed": "boolean",
        "why": "str",
        "ignored_in_a_row": "int64",
        "times_ignored": "int64",
        "rounds_until_followed": "Int64",
        "text": "str",
    },
    "questions": {
        "run_id": "str",
        "round": "int64",
        "question_id": "str",
        "call_id": "str",
        "tool": "str",
        "asked_by": "str",
        "kind": "str",
        "message": "str",
        "schema": "str",
        "url": "str",
        "answered": "str",
        "answer": "str",
        "answered_by": "str",
        "asked_at": TIME,
        "answered_at": TIME,
        "seconds": "float64",
    },
    "steps": {
        "run_id": "str",
        "step": "str",
        "kind": "str",
        "agent": "str",
        "parent": "str",
        "iteration": "Int64",
        "attempt": "Int64",
        "status": "str",
        "substituted": "bool",
        "error": "str",
        "reason": "str",
        "wait": "float64",
        "output": "str",
        "nested": "str",
        "started_at": TIME,
        "ended_at": TIME,
        "seconds": "float64",
    },
    "plans": {
        "run_id": "str",
        "plan": "int64",
        "plan_id": "str",
        "mode": "str",
        "context": "str",
        "status": "str",
        "verdict": "str",
        "edits": "int64",
        "steps": "Int64",
        "calls": "int64",
        "cost": "float64",
        "seconds": "float64",
    },
    "loops": {
        "run_id": "str",
        "model": "str",
        "family": "str",
        "rule": "str",
        "first": "int64",
        "last": "int64",
        "severity": "str",
        "sentence": "str",
        "evidence": "str",
    },
    "todos": {
        "run_id": "str",
        "round": "Int64",
        "at": TIME,
        "what": "str",
        "by": "str",
        "todo_id": "Int64",
        "title": "str",
        "before": "str",
        "after": "str",
        "changed": "str",
        "breach": "bool",
        "call_id": "str",
    },
    "usage": {
        "run_id": "str",
        "round": "Int64",
        "operation": "str",
        "profile": "str",
        "context": "str",
        "execution_mode": "str",
        "conversation": "str",
        "call_id": "str",
        "model": "str",
        "answered_by": "str",
        "author": "str",
        "attempts": "Int64",
        "waited": "float64",
        "seconds": "float64",
        "input_tokens": "Int64",
        "output_tokens": "Int64",
        "cache_read_tokens": "Int64",
        "cache_write_tokens": "Int64",
        "reasoning_tokens": "Int64",
        "estimated": "bool",
        "cost": "float64",
        "stop_reason": "str",
        "error": "str",
        "response_id": "str",
        "copied_from": "str",
        "nested_run": "str",
        "started_at": TIME,
    },
}


do = partial(play, tools=[add], prompt="Go")


def said(text: str, *parts: Any, **usage: Any) -> Reply:
    return Reply(Message("assistant", (Text(text), *parts)), Usage(**usage), "end_turn")


@pytest.fixture
def failed(tmp_path: Path) -> Run:
    """Two rounds: two calls, one of which fails; then the model breaks down."""
    calls = [ToolCall("add", {"a": 1, "b": 2}, "c1"), ToolCall("gone", {}, "c2")]
    return do(said("See.", *calls, input=10, output=5, cost=0.25), RuntimeError("boom"), store=Store(tmp_path / "runs"))


def make(name: str, source: Any) -> pd.DataFrame:
    return getattr(tables, name)(source)


def types(frame: pd.DataFrame) -> dict[str, str]:
    return {str(column): str(dtype) for column, dtype in frame.dtypes.items()}


def test_table_has_exactly_these_columns_and_types(subtests: pytest.Subtests, failed: Run) -> None:
    for name, columns in COLUMNS.items():
        with subtests.test(name):
            assert types(make(name, failed)) == columns
            assert list(make(name, failed).columns) == list(columns)


def test_empty_table_has_the_same_columns_and_types(subtests: pytest.Subtests, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, columns in COLUMNS.items():
        with subtests.test(name):
            for source in ([], tmp_path / "empty", Store(tmp_path / "none")):
                frame = make(name, source)
                assert len(frame) == 0 and types(frame) == columns


def test_table_accepts_runs_paths_folders_patterns_and_stores(subtests: pytest.Subtests, failed: Run, tmp_path: Path) -> None:
    store = Store(tmp_path / "runs")
    path = store.path(failed.id)
    for name in COLUMNS:
        with subtests.test(name):
            once = make(name, failed)
            sources: list[Any] = [[failed], path, str(path), store.folder, str(store.folder), f"{store.folder}/*.jsonl", store]
            for source in sources:
                pd.testing.assert_frame_equal(make(name, source), once)
            twice = make(name, [failed, path])
            pd.testing.assert_frame_equal(twice, pd.concat([once, once], ignore_index=True))


def test_rows_are_numbered_from_zero(subtests: pytest.Subtests, failed: Run) -> None:
    for name in COLUMNS:
        with subtests.test(name):
            frame = make(name, [failed, failed])
            assert list(frame.index) == list(range(len(frame)))


def test_table_is_rebuilt_each_time(subtests: pytest.Subtests, failed: Run) -> None:
    for name in COLUMNS:
        with subtests.test(name):
            first = make(name, failed)
            del first["run_id"]
            assert "run_id" in make(name, failed).columns


def test_list_of_table_names_is_complete() -> None:
    assert sorted(tables.NAMES) == sorted([*COLUMNS, "patterns"])
    assert sorted(tables.__all__) == sorted(["NAMES", "columns", "detections", "relation", *tables.NAMES])


@pytest.mark.req("R0.71", "R2.14")
def test_run_row_has_status_and_cost(failed: Run) -> None:
    row = tables.runs(failed).iloc[0]
    assert (row.run_id, row.agent, row.model, row.prompt) == (failed.id, "agent", "scripted:script", "Go")
    assert (row.status, row.stop_reason, row.error) == ("failed", "error", str(failed.error))
    assert (row.rounds, row.tool_calls, row.tool_errors, row.input_tokens, row.output_tokens) == (2, 2, 1, 10, 5)
    assert (row.text, row.started_at.to_pydatetime(), row.seconds) == ("See.", failed.started_at, failed.seconds)
    assert pd.isna(row.parent_id) and pd.isna(row.continued_from) and not row.tokens_estimated


@pytest.mark.req("R0.71")
def test_failed_round_has_a_row(failed: Run) -> None:
    frame = tables.rounds(failed)
    assert list(frame["round"]) == [1, 2] and list(frame.status) == ["success", "error"]
    assert list(frame.tool_calls) == [2, 0] and list(frame.tool_errors) == [1, 0]
    assert len(frame) == len(failed.rounds) == int(tables.runs(failed).rounds.iloc[0])


@pytest.mark.req("R0.71")
def test_round_that_failed_at_once_has_a_row() -> None:
    with pytest.raises(Exception, match="boom") as caught:
        do(RuntimeError("boom"))
    frame = tables.rounds(caught.value.run)  # type: ignore[attr-defined]
    assert list(frame.status) == ["error"]


@pytest.mark.req("R0.71", "R0.69")
def test_call_has_a_row_with_its_success(failed: Run) -> None:
    frame = tables.tool_calls(failed)
    assert list(frame.call_id) == ["c1", "c2"] and list(frame.name) == ["add", "gone"]
    assert list(frame["round"]) == [1, 1] and list(frame.position) == [0, 1]
    assert list(frame.arguments) == ['{"a":1,"b":2}', "{}"]
    assert list(frame.success) == [True, False]
    assert pd.isna(frame.error_code[0]) and frame.error_code[1] == "unknown_tool"
    assert frame.result[0] == "3" and frame.result[1].startswith("tool not found: gone")


def test_failed_call_row_has_the_user_traceback() -> None:
    def halve(number: int) -> int:
        """Halve a number."""
        return number // 0

    agent = Agent(ScriptedModel([[ToolCall("halve", {"number": 4}), ToolCall("gone", {})], "Done."]), tools=[halve])
    frame = tables.tool_calls(agent.run_sync("Halve 4.")).query("not success")
    assert list(frame.error_code) == ["tool_error", "unknown_tool"]
    assert "return number // 0" in frame.traceback[0] and "ZeroDivisionError" in frame.traceback[0]
    assert pd.isna(frame.traceback[1])


def test_blocked_calls_are_counted_over_all_rounds() -> None:
    run = do(*[ToolCall("add", {"a": 1, "b": 2})] * 4, "Done.")
    assert [bool(round_.records[0].rule) for round_ in run.rounds[:4]] == [False, False, True, True]
    assert tables.runs(run).calls_blocked[0] == 2


def test_call_of_an_interrupted_run_has_unknown_success(failed: Run, tmp_path: Path) -> None:
    path = save_trace(failed, tmp_path / "cut.jsonl")
    frame = tables.tool_calls(cut_log(path, "tool_started"))
    assert len(frame) == 2 and frame.success.isna().all() and frame.result.isna().all()
    assert pd.isna(tables.runs(path).seconds[0]) and tables.runs(path).status[0] == "interrupted"


def test_each_message_has_a_row(failed: Run) -> None:
    frame = tables.messages(failed)
    assert list(frame.role) == ["user", "assistant", "tool"] and list(frame.position) == [0, 1, 2]
    assert list(frame.text[:2]) == ["Go", "See."] and frame.text[2].startswith("3\ntool not found")
    assert list(frame.tool_calls) == [0, 2, 0] and list(frame.tool_results) == [0, 0, 2]


def test_messages_of_the_earlier_conversation_are_marked(failed: Run) -> None:
    again = do("Done.", continue_from=failed)
    frame = tables.messages(again)
    assert list(frame.inherited) == [True] * 3 + [False] * (len(frame) - 3)
    assert len(frame) == len(again.messages)
    assert tables.runs(again).continued_from[0] == failed.id


@pytest.mark.req("R2.14")
def test_unknown_values_are_missing_instead_of_zero() -> None:
    frame = tables.rounds(do(said("x")))
    assert frame.input_tokens.isna().all() and frame.output_tokens.isna().all() and frame.cost.isna().all()
    row = tables.runs(do(said("x", input=3))).iloc[0]
    assert row.input_tokens == 3 and pd.isna(row.output_tokens) and pd.isna(row.cost)


def test_estimated_usage_is_marked() -> None:
    run = asyncio.run(Agent(SimulatedModel()).run("Hello"))
    row = tables.runs(run).iloc[0]
    assert row.tokens_estimated and row.input_tokens > 0 and row.cost == 0.0


def test_counts_beyond_float_precision_stay_exact() -> None:
    large = 2**53 + 1
    assert tables.runs(do(said("x", input=large, output=0))).input_tokens[0] == large


def test_times_keep_their_microseconds_and_their_zone(failed: Run) -> None:
    frame = tables.rounds(failed)
    assert [at.to_pydatetime() for at in frame.started_at] == [round_.started_at for round_ in failed.rounds]


@pytest.mark.req("R0.71")
def test_run_row_totals_blocks_retries_and_completions() -> None:
    built = RunBuilder(todos=todos_of("completed", "completed", "in-progress"))
    built.round(called("look", "a"), called("look", "b"), blocked=("b",), guidance=[guidance_of()])
    built.round(called("look", "c"), called("look", "d"), blocked=("c", "d")).round("Well.", guidance=[guidance_of()])
    built.extend(*begun(3, "", guidance_of()))  # no reply comes: nobody knows whether this was followed
    for attempt in (1, 0, 2):  # 0: a wait that is no attempt
        built.add(e.RetryScheduled, attempt=attempt, seconds=2.0, reason="overloaded")
    row = tables.runs(built.add(e.RoundFinished, index=3, status="error").run).iloc[0]
    assert (row.calls_blocked, row.retries) == (3, 2)
    assert (row.guidance_given, row.guidance_followed) == (3, 1)
    assert (row.todos, row.todos_completed) == (3, 2)


def test_todo_completion_is_missing_without_a_list(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[list[TodoStatus], bool | None]] = {
        "no list": ([], None),
        "all completed": (["completed", "completed"], True),
        "one open": (["completed", "blocked"], False),
    }
    for name, (statuses, told) in cases.items():
        with subtests.test(name):
            found = tables.runs(run_of(todos=todos_of(*statuses))).all_completed[0]
            assert pd.isna(found) if told is None else found == told


def test_values_absent_from_a_run_are_missing_values() -> None:
    row = tables.runs(
        RunBuilder().round("Done.").add(e.RunFinished, status="completed", stop_reason="natural", seconds=1.0).run
    )
    has = {name for name in row.columns if not pd.isna(row[name][0])}
    nothing = {"limit", "limit_value", "all_completed", "cost", "budget", "error", "parent_id", "continued_from", "tags"}
    nothing |= {"context_type", "entity", "origin_format", "origin_file", "origin_position", "forked_from", "forked_at_round"}
    nothing |= {"benchmark", "task", "trial", "recorded", "stated_input_tokens", "stated_output_tokens", "stated_cost"}
    assert not has & nothing and {"run_id", "status", "stop_reason", "seconds", "prompt", "text"} <= has


def test_result_message_text_equals_the_text_of_its_results() -> None:
    run = RunBuilder().round(called("look"), text="seen").run
    assert list(tables.messages(run).text)[-1] == "seen"
