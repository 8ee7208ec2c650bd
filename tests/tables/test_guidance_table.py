"""The guidance ledger: a row for each ephemeral message."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from marked_logs import cut_log
from scripted_runs import do, play, work
from test_tables import COLUMNS

from agentnb import GuidanceSet, Matrix, Run, TodoBoard, ToolCall, save_trace, tables
from agentnb.models.estimate import tokens_of_text

run_of = partial(play, tools=[work])

TODOS = "todo_operations"


def one_todo() -> ToolCall:
    return ToolCall(TODOS, {"operation": "write", "todoList": [{"id": 1, "title": "One", "status": "not-started"}]})


def marked(status: str) -> ToolCall:
    return ToolCall(TODOS, {"operation": "update", "todoUpdates": [{"id": 1, "status": status}]})


def heeding_late() -> Run:
    """Ignore three interventions, then work through the list and close it."""
    return run_of(one_todo(), "Hm.", "Well.", "So.", marked("in-progress"), do(1), marked("completed"), "Done.")


def rows(frame: pd.DataFrame, *columns: str, **where: Any) -> list[tuple[Any, ...]]:
    """Return these columns of the rows that match the values; missing values are None."""
    for name, value in where.items():
        frame = frame[frame[name] == value]
    cells = zip(*(frame[name] for name in columns), strict=True)
    return [tuple(None if pd.isna(cell) else cell for cell in row) for row in cells]


@pytest.mark.req("R0.82")
@pytest.mark.parametrize("source", [[], "a run"])
def test_columns_keep_their_types_with_any_data(source: Any) -> None:
    frame = tables.guidance(heeding_late() if source else source)
    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == COLUMNS["guidance"]
    assert len(frame) == (10 if source else 0)


@pytest.mark.req("R0.82")
def test_guidance_texts_are_rows_in_order() -> None:
    run = heeding_late()
    said = [(round_.index, piece) for round_ in run.rounds for piece in round_.guidance]
    frame = tables.guidance(run)
    assert rows(frame, "round", "cell", "level", "trigger", "text", "set", "version") == [
        (index + 1, piece.cell, piece.level, piece.trigger, piece.text, piece.set, piece.version) for index, piece in said
    ]
    assert set(frame["run_id"]) == {run.id}
    assert set(frame["model"]) == {"scripted:script"}
    assert set(frame["policy"]) == {"matrix"}


@pytest.mark.req("R0.82", "R0.79")
def test_ignored_interventions_are_counted_until_one_is_followed() -> None:
    frame = tables.guidance(heeding_late())
    found = rows(frame, "round", "level", "followed", "ignored_in_a_row", "rounds_until_followed", cell="intervention")
    assert found == [(3, 1, False, 1, None), (4, 2, False, 2, None), (5, 3, False, 3, None)]


@pytest.mark.req("R0.82")
def test_followed_intervention_resets_the_ignored_count() -> None:
    run = run_of(one_todo(), "Hm.", "Well.", do(1), "So.", marked("completed"), "Done.")
    frame = tables.guidance(run)
    found = rows(frame, "round", "followed", "why", "ignored_in_a_row", "rounds_until_followed", cell="intervention")
    assert found == [
        (3, False, "nothing new was done or completed", 1, 2),
        (4, True, "a work tool ran", 0, 1),
        (6, True, "a todo was completed after its work", 0, 1),
    ]


@pytest.mark.req("R0.82", "R0.79")
def test_times_ignored_are_counted_over_the_entire_run() -> None:
    frame = tables.guidance(run_of(one_todo(), "Hm.", do(1), "Well.", "So.", marked("completed"), "Done."))
    found = rows(frame, "followed", "ignored_in_a_row", "times_ignored", cell="intervention")
    assert found == [(True, 0, 0), (False, 1, 1), (True, 0, 1)]
    cells = frame[frame["cell"] != "intervention"]
    assert cells["times_ignored"].is_monotonic_increasing
    assert cells["times_ignored"].max() == (~cells["followed"]).sum() > cells["ignored_in_a_row"].max()


@pytest.mark.req("R0.82")
def test_guidance_tokens_are_estimated_from_its_text() -> None:
    frame = tables.guidance(heeding_late())
    assert list(frame["tokens"]) == [tokens_of_text(text) for text in frame["text"]] and frame["tokens"].min() > 0


@pytest.mark.req("R0.82")
def test_ignored_count_covers_all_four_cells_but_not_interventions() -> None:
    run = run_of(one_todo(), "Hm.", "Well.", marked("in-progress"), do(1), marked("completed"), "Done.")
    frame = tables.guidance(run)
    cells = frame[frame["cell"] != "intervention"]
    assert rows(cells, "round", "cell", "followed", "ignored_in_a_row", "rounds_until_followed") == [
        (2, "todos_tools", False, 1, 3),
        (3, "todos_text", False, 2, 2),
        (4, "todos_text", True, 0, 1),
        (5, "todos_tools", True, 0, 1),
        (6, "todos_tools", True, 0, 1),
        (7, "tools", True, 0, 1),
    ]
    assert rows(frame, "round", "ignored_in_a_row", "rounds_until_followed", cell="intervention") == [
        (3, 1, None),
        (4, 2, None),
    ]


@pytest.mark.req("R0.82", "R0.81")
def test_already_said_and_workflow_guidance_are_separate_kinds() -> None:
    again = "The table has three columns and twelve rows, and none of its values is missing."
    run = run_of(again, again, do(1), "Done.\n[WORKFLOW_COMPLETE]", policy=Matrix(workflow_mode=True))
    frame = tables.guidance(run)
    assert rows(frame, "round", "cell", "followed", "ignored_in_a_row") == [
        (2, "workflow", False, 1),
        (2, "text", False, 1),
        (3, "workflow", True, 0),
        (3, "already_said", True, 0),
        (3, "text", True, 0),
        (4, "tools", True, 0),
    ]


@pytest.mark.req("R0.82", "R0.75")
def test_guidance_about_failing_tools_has_its_own_names() -> None:
    missing = [ToolCall("missing", {"number": number}) for number in range(4)]
    frame = tables.guidance(run_of(*missing, do(1), "Done."))
    failed = frame[frame["cell"].isin(["tool_failed", "failure_loop"])]
    assert rows(failed, "round", "cell", "level", "trigger", "followed", "ignored_in_a_row", "rounds_until_followed") == [
        (2, "tool_failed", 1, "missing failed for the first time", True, 0, 1),
        (3, "tool_failed", 1, "missing failed again", True, 0, 1),
        (4, "failure_loop", 3, "missing failed in 3 rounds in a row", False, 1, 2),
        (5, "failure_loop", 3, "missing failed in 4 rounds in a row", True, 0, 1),
    ]


@pytest.mark.req("R0.82")
def test_missing_reply_leaves_followed_unknown() -> None:
    run = run_of(one_todo(), "Hm.", RuntimeError("the line broke"))
    frame = tables.guidance(run)
    assert rows(frame, "round", "cell", "followed", "why", "ignored_in_a_row", "rounds_until_followed") == [
        (2, "todos_tools", False, "no tool was called", 1, None),
        (3, "intervention", None, "the model did not reply", 0, None),
        (3, "todos_text", None, "the model did not reply", 1, None),
    ]


@pytest.mark.req("R0.82")
def test_log_ending_mid_round_has_guidance_without_a_verdict(tmp_path: Path) -> None:
    path = save_trace(run_of(one_todo(), "Hm.", "Well.", do(1), "[WORKFLOW_COMPLETE]"), tmp_path / "run.jsonl")
    cut_log(path, "guidance_given", -1)
    assert rows(tables.guidance(path), "round", "followed", "why")[-1] == (5, None, "the round did not end")


@pytest.mark.req("R0.82")
def test_saved_run_has_the_same_guidance_table(tmp_path: Path) -> None:
    first, second = heeding_late(), run_of("[CONTINUE]", "Done.", guidance=GuidanceSet("own", {"text": "Go."}), policy=Matrix())
    pd.testing.assert_frame_equal(tables.guidance(save_trace(first, tmp_path / "one.jsonl")), tables.guidance(first))
    both = tables.guidance([first, second])
    assert list(both["run_id"]) == [first.id] * 10 + [second.id]
    assert rows(both, "text", "ignored_in_a_row", set="own") == [("Go.", 1)]


@pytest.mark.req("R0.82")
def test_runs_table_counts_given_and_followed_guidance() -> None:
    run = heeding_late()
    frame, summary = tables.guidance(run), tables.runs(run).iloc[0]
    assert summary["guidance_given"] == len(frame) == 10
    assert summary["guidance_followed"] == int(frame["followed"].sum()) == 4
    assert (summary["guidance"], summary["guidance_version"]) == ("matrix", frame["version"].iloc[0])


def test_run_without_guidance_has_no_rows() -> None:
    assert tables.guidance(run_of(do(1), "Done.", guidance="off")).empty


def test_runs_table_counts_only_followed_guidance_as_followed() -> None:
    run = run_of("Hm.", marked("in-progress"), do(1), marked("completed"), "Done.", todos=TodoBoard(["One"]))
    followed = [verdict.followed for round_ in run.rounds for verdict in round_.followed]
    assert {True, False, None} == set(followed), "the initial list requires nothing"
    row = tables.runs(run).iloc[0]
    assert (row["guidance_given"], row["guidance_followed"]) == (len(followed), followed.count(True))
