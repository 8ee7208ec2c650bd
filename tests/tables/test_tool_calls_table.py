"""The table of tool calls: their times, and their arguments as values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from property_settings import examples
from run_builder import RunBuilder, answered, blocked_call, called
from some_events import json_values, words

from agentnb import Run, ToolCall, save_trace, tables
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.messages import Message, ToolResult


def calling(*arguments: Any) -> Run:
    """Build a run with a call for each of these arguments."""
    return RunBuilder().round(*[ToolCall("look", one, f"c{n}") for n, one in enumerate(arguments)]).run


def values(frame: pd.DataFrame, name: str) -> list[Any]:
    """Return the values of an argument; missing ones are None."""
    column = frame[f"arguments.{name}"]
    return [None if missing else value for value, missing in zip(column, column.isna(), strict=True)]


def test_call_has_its_start_end_and_model() -> None:
    call, open_call, blocked = called("look", "c1"), called("look", "c2"), called("look", "c3")
    story = RunBuilder().add(e.RoundStarted, index=0, reason="prompt")
    story.add(e.ModelReplied, message=Message("assistant", (call, open_call, blocked)))
    story.extend(*answered(call), (e.ToolStarted, {"call": open_call}), *blocked_call(blocked))
    frame = tables.tool_calls(story.run)
    at = [event.at for event in story.events]
    assert frame["started_at"][:2].tolist() == [at[3], at[5]] and pd.isna(frame["started_at"][2])
    assert (frame["ended_at"][0], frame["ended_at"][2]) == (at[4], at[6]) and pd.isna(frame["ended_at"][1])
    assert pd.isna(frame["seconds"][1]) and set(frame["model"]) == {"scripted:hand"}


def test_calls_of_a_repeated_step_have_separate_times() -> None:
    step, inner = called("look", "again"), called("read", "again.1")
    story = RunBuilder(run_kind="workflow")
    for _ in range(2):
        story.add(w.StepStarted, step="again").add(e.ToolStarted, call=step, step="again")
        story.add(e.ToolStarted, call=inner, parent_call="again")
        story.add(e.ToolFinished, result=ToolResult("again.1", "read"), parent_call="again")
        story.add(e.ToolFinished, result=ToolResult("again", "look"), step="again").add(w.StepFinished, step="again")
    frame, at = tables.tool_calls(story.run), [event.at for event in story.events]
    assert frame["call_id"].tolist() == ["again", "again.1"] * 2
    assert frame["started_at"].tolist() == [at[2], at[3], at[8], at[9]]
    assert frame["ended_at"].tolist() == [at[5], at[4], at[11], at[10]]


def test_arguments_become_columns_when_requested() -> None:
    run = calling({"at": 1, "name": "a", "share": 0.5, "deep": True, "tags": ["x"]}, {"at": 2, "share": 1}, {"at": None})
    plain, frame = tables.tool_calls(run), tables.tool_calls(run, arguments=True)
    pd.testing.assert_frame_equal(frame[list(plain.columns)], plain)
    added = frame.drop(columns=list(plain.columns))
    assert {name: str(dtype) for name, dtype in added.dtypes.items()} == {
        "arguments.at": "Int64",
        "arguments.name": "str",
        "arguments.share": "float64",
        "arguments.deep": "boolean",
        "arguments.tags": "object",
    }
    assert values(frame, "at") == [1, 2, None] and values(frame, "share") == [0.5, 1.0, None]
    assert values(frame, "tags") == [["x"], None, None] and values(frame, "deep") == [True, None, None]
    assert frame.query("`arguments.at` > 1")["call_id"].tolist() == ["c1"]


def test_values_that_exceed_numeric_columns_stay_unchanged(subtests: pytest.Subtests) -> None:
    cases = {"too large": [2**70, 1], "too exact": [2**53 + 1, 0.5], "mixed": [1, "1"], "truth": [1, True]}
    for name, wanted in cases.items():
        with subtests.test(name):
            frame = tables.tool_calls(calling(*[{"at": one} for one in wanted]), arguments=True)
            assert str(frame["arguments.at"].dtype) == "object"
            assert [(type(one), one) for one in frame["arguments.at"]] == [(type(one), one) for one in wanted]


def test_missing_or_unparsed_arguments_add_no_column() -> None:
    plain = list(tables.tool_calls([]).columns)
    for run in ([], calling({}, "{broken")):
        assert list(tables.tool_calls(run, arguments=True).columns) == plain


@examples(40)
@given(json_values, words)
def test_argument_columns_return_the_passed_values(value: Any, name: str) -> None:
    frame = tables.tool_calls(calling({name: value}, {}), arguments=True)
    first, second = values(frame, name) if not isinstance(value, list | dict) else (frame[f"arguments.{name}"][0], None)
    assert first == value and second is None
    assert len(frame) == 2


def test_argument_columns_are_the_same_from_a_log(tmp_path: Path) -> None:
    run = calling({"at": 1, "where": {"x": 1}})
    run.mark_interrupted()
    saved = save_trace(run, tmp_path / "run.jsonl")
    pd.testing.assert_frame_equal(tables.tool_calls(saved, arguments=True), tables.tool_calls(run, arguments=True))
