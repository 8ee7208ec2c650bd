"""The patterns table: completion, guidance and failures over all runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from foreign_traces import CHAT, TEAM, chat_run, team_run
from run_builder import RunBuilder, called, guidance_of, todos_of

from agentnb import Run, Store, save_trace, tables
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.outcome import Assessment
from agentnb.core.messages import Message
from agentnb.store.run_labels import Label, append_label

RATES = ["completion_rate", "todo_completion_rate", "followed_rate", "error_rate"]


def run_of(run_id: str, status: str, stop_reason: str, *, failing: int = 0, tool: str = "look", **fields: Any) -> Run:
    """Build a run of two tool calls with this many failures, and an answer after guidance."""
    fields = {"run_id": run_id, "model": "scripted:a", "settings": {"guidance": {"set": "matrix"}}, **fields}
    story = RunBuilder(**fields)
    for number in range(2):
        story.round(called(tool), error_code="tool_error" if number < failing else "")
    story.round("Done.", guidance=[guidance_of("text")])
    return story.add(e.RunFinished, status=status, stop_reason=stop_reason).run


@pytest.fixture
def runs() -> list[Run]:
    return [
        run_of("r-1", "completed", "natural", todos=todos_of("completed", "completed")),
        run_of("r-2", "limited", "max_rounds", failing=1, todos=todos_of("completed", "not-started")),
        run_of("r-3", "limited", "max_rounds"),
        run_of("r-4", "failed", "error", failing=2, tool="load", model="scripted:b"),
        RunBuilder(run_id="r-5", model="scripted:b").round("Still at it.").run,
    ]


def of(frame: pd.DataFrame, by: str, *columns: str) -> list[tuple[Any, ...]]:
    """Return these columns of the rows grouped by this; missing values are None."""
    found = frame[frame["by"] == by][list(columns)].itertuples(index=False)
    return [tuple(None if pd.isna(cell) else cell for cell in row) for row in found]


@pytest.mark.req("R0.82")
def test_all_runs_together_form_one_row_with_every_rate(runs: list[Run]) -> None:
    (row,) = tables.patterns(runs).query("by == 'all'").to_dict("records")
    assert pd.isna(row.pop("passing_rate"))  # outcomes are unknown
    assert row == {
        "by": "all",
        "value": "all",
        "runs": 5,
        "completed": 1,
        "completion_rate": 0.25,  # one run has not ended
        "not_completed": 3,
        "unknown": 0,
        "failed": 1,
        "passed": 0,
        "not_passed": 0,
        "outcome_unknown": 5,
        "todo_completion_rate": 0.75,
        "guidance_given": 4,
        "guidance_followed": 0,
        "followed_rate": 0.0,
        "tool_calls": 8,
        "tool_errors": 3,
        "error_rate": 0.375,
        "example_run": "r-4",
    }


@pytest.mark.req("R0.82")
def test_commonest_failure_comes_first(runs: list[Run]) -> None:
    frame = tables.patterns(runs)
    assert of(frame, "stop_reason", "value", "runs", "not_completed", "example_run") == [
        ("max_rounds", 2, 2, "r-3"),
        ("error", 1, 1, "r-4"),
        ("natural", 1, 0, "r-1"),
    ]
    assert of(frame, "status", "value", "failed") == [("limited", 0), ("failed", 1), ("completed", 0), ("running", 0)]
    assert of(frame, "model", "value", "completion_rate") == [("scripted:a", 1 / 3), ("scripted:b", 0.0)]
    assert list(dict.fromkeys(frame["by"])) == [
        *("all", "status", "stop_reason", "outcome"),
        *("breach", "tool", "guidance", "model", "agent"),
    ]


@pytest.mark.req("R0.82")
def test_tools_are_sorted_by_errors_with_call_counts(runs: list[Run]) -> None:
    found = of(tables.patterns(runs), "tool", "value", "runs", "tool_calls", "tool_errors", "error_rate", "example_run")
    assert found == [("load", 1, 2, 2, 1.0, "r-4"), ("look", 3, 6, 1, 1 / 6, "r-2")]


@pytest.mark.req("R0.82")
def test_guidance_counts_are_grouped_by_guidance_set() -> None:
    other = guidance_of("own", set="mine", asks=("answered",))
    mixed = RunBuilder(settings={"guidance": {"set": "matrix"}}).round("Hm.", guidance=[guidance_of("text"), other]).run
    off = RunBuilder(run_id="r-2", settings={"guidance": {"set": "off"}}).round("Done.").run
    found = of(
        tables.patterns([mixed, off]), "guidance", "value", "runs", "guidance_given", "guidance_followed", "followed_rate"
    )
    assert found == [("matrix", 1, 1, 0, 0.0), ("mine", 1, 1, 1, 1.0), ("off", 1, 0, 0, None)]


@pytest.mark.req("R0.82", "R0.63")
def test_findings_and_breaches_appear_as_patterns() -> None:
    story = RunBuilder(todos=todos_of("not-started")).round(called("look")).round(called("look", "c1"), blocked=("c1",))
    story.add(w.FindingMade, rule="mine", family="stall", first=0, last=0)
    frame = tables.patterns(story.run)
    assert of(frame, "finding", "value", "runs") == [("consecutive", 1), ("mine", 1)]
    assert of(frame, "breach", "value", "runs") == [("work_without_todo_in_progress", 1)]


def test_calls_made_by_a_tool_are_counted() -> None:
    story = RunBuilder().add(e.RoundStarted, index=0, reason="prompt")
    outer, inner = called("outer", "c1"), called("inner", "c2")
    story.add(e.ModelReplied, message=Message("assistant", (outer,))).add(e.ToolStarted, call=outer)
    story.add(e.ToolStarted, call=inner, parent_call="c1")
    assert of(tables.patterns(story.run), "tool", "value", "tool_calls", "error_rate") == [
        ("inner", 1, None),
        ("outer", 1, None),
    ]


def test_rate_is_missing_without_anything_to_count() -> None:
    frame = tables.patterns(RunBuilder().round("Still at it.").run)
    assert frame[RATES].isna().all(axis=None) and tables.patterns([]).empty
    assert of(frame, "stop_reason", "value") == [], "unknown values form no group"


@pytest.mark.req("R0.82")
def test_foreign_runs_without_known_guidance_are_grouped_together() -> None:
    frame = tables.patterns([*[chat_run(record, f"{n}") for n, record in enumerate(CHAT)], team_run(TEAM)])
    found = of(frame, "origin_format", "value", "runs", "completion_rate", "guidance_given", "tool_calls", "tool_errors")
    assert found == [("openai_chat", 2, 0.5, None, 3, 0), ("magentic_one", 1, 1.0, None, 0, 0)]
    assert of(frame, "tool", "value", "error_rate") == [("find", 0.0), ("cancel", 0.0)]


def test_runs_without_a_recorded_end_are_counted_separately(runs: list[Run]) -> None:
    unknown = run_of("r-6", "unknown", "")
    for together, expected in (([*runs, unknown], ("all", 6, 1, 3, 1, 0.25)), ([unknown], ("all", 1, 0, 0, 1, None))):
        columns = "value", "runs", "completed", "not_completed", "unknown", "completion_rate"
        assert of(tables.patterns(together), "all", *columns) == [expected]


def test_patterns_are_equal_for_runs_files_folders_and_stores(runs: list[Run], tmp_path: Path) -> None:
    runs[-1].mark_interrupted()
    for run in runs:
        save_trace(run, tmp_path / f"{run.id}.jsonl")
    whole = tables.patterns(runs)
    for source in (tmp_path, Store(tmp_path), f"{tmp_path}/*.jsonl", [tmp_path / f"r-{n}.jsonl" for n in range(1, 6)]):
        pd.testing.assert_frame_equal(tables.patterns(source), whole)


def test_settings_without_a_valid_name_belong_to_no_group() -> None:
    nameless = {"guidance": {"set": ["matrix"]}, "policy": {"name": {"a": 1}}}
    frame = tables.patterns([run_of("r-1", "completed", "natural", settings=nameless)])
    assert of(frame, "policy", "value") == []
    assert of(frame, "guidance", "value") == of(tables.patterns([run_of("r-1", "completed", "natural")]), "guidance", "value")


def test_completed_and_passed_runs_are_counted_separately_with_labels(tmp_path: Path) -> None:
    rewards = {"a": 0.0, "b": 0.0, "c": 1.0, "d": None}
    for run_id, reward in rewards.items():
        builder = RunBuilder(run_id=run_id).round("Done.")
        if reward is not None:
            outcome = "passed" if reward else "failed"
            builder.add(w.OutcomeGiven, assessment=Assessment(outcome, "trace", "reward", reward))
        save_trace(builder.add(e.RunFinished, status="completed", stop_reason="natural").run, tmp_path / f"{run_id}.jsonl")
    columns = ("runs", "completed", "completion_rate", "passed", "not_passed", "outcome_unknown", "passing_rate")
    for cache in (False, True, True):
        frame = tables.patterns(tmp_path, cache=cache)
        assert of(frame, "all", *columns) == [(4, 4, 1.0, 1, 2, 1, 1 / 3)]
        assert sorted(of(frame, "outcome", "value", "runs")) == [("failed", 2), ("passed", 1), ("unknown", 1)]
    append_label(tmp_path / "labels.csv", Label("a", "healthy"))
    frame = tables.patterns(tmp_path, cache=True)
    assert of(frame, "all", *columns) == [(4, 4, 1.0, 2, 1, 1, 2 / 3)]
    assert sorted(of(frame, "outcome", "value", "runs")) == [("failed", 1), ("passed", 2), ("unknown", 1)]
