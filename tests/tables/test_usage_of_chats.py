"""Usage of chat turns: the purpose of each model call, with its profile, context and mode."""

from __future__ import annotations

import asyncio
from typing import Any

import pandas as pd
import pytest
from chat_examples import loaded
from run_builder import Fact, RunBuilder, a_round, answered, begun, called
from streamed_replies import FOREVER, Streamed, Streaming
from virtual_time import VirtualTimeLoop

from agentnb import Agent, Run, tables
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.messages import Message, Text
from agentnb.core.usage import Usage

EXAMPLE = loaded("usage.json")
PLAN = called("agent_create_plan", "call_1")


def rows(*runs: Run) -> list[dict[str, Any]]:
    """Return the rows with the columns of the example and rounds from 0; missing values are None."""
    table = tables.usage([*runs])[EXAMPLE["columns"][1:]].assign(round=lambda frame: frame["round"] - 1).astype(object)
    return table.where(table.notna(), None).to_dict("records")


def expected(turn: str, *runs: str) -> list[dict[str, Any]]:
    """Return the rows of a turn in the example."""
    found = [dict(zip(EXAMPLE["columns"], row, strict=True)) for row in EXAMPLE["rows"] if row[0] == turn and row[1] in runs]
    return [{name: value for name, value in row.items() if name != "turn"} for row in found]


def turn_of(run_id: str, context: str, profile: str = "balanced", **fields: Any) -> RunBuilder:
    """Build a run in a context, before its first round."""
    fields = {"run_id": run_id, "model": "scripted:planner", "context_type": context, **fields}
    return RunBuilder(settings={"profile": profile}, **fields)


def replied(usage: tuple[int, int], stop_reason: str, *parts: Any) -> Fact:
    return e.ModelReplied, {"message": Message("assistant", parts), "usage": used(*usage), "stop_reason": stop_reason}


def used(sent: int, received: int) -> Usage:
    return Usage(input=sent, output=received, cost=0.0)


def side_call(operation: str, usage: tuple[int, int], **fields: Any) -> Fact:
    return w.ModelCalled, {"operation": operation, "usage": used(*usage), "call_id": "call_1", **fields}


def planned(built: RunBuilder, first: tuple[int, int], last: tuple[int, int], *side_calls: Fact) -> Run:
    """Build two rounds: a call of the plan tool with these model calls inside, and words."""
    start, end = answered(PLAN)
    built.extend(*begun(0), replied(first, "tool_calls", PLAN), start, *side_calls, end)
    built.add(e.RoundFinished, index=0, status="success").extend(*begun(1), replied(last, "stop", Text("Done.")))
    return built.add(e.RoundFinished, index=1, status="success").run


def blank() -> Run:
    """Build the run of a blank message, which calls no model."""
    built = turn_of("run-30", "global")
    return built.add(w.ModelCalled, operation="clarify_blank", usage=used(0, 0)).run


def out_of_time() -> Run:
    """Build a run whose model is cut off by the time limit."""
    built = turn_of("run-40", "project_audit", "quality").extend(*begun(0))
    built.add(e.RoundFinished, index=0, status="cancelled").add(e.LimitReached, limit="max_seconds", value=90)
    return built.add(e.RunFinished, status="limited", stop_reason="max_seconds", seconds=90.0).run


def draft() -> Run:
    mode = {"execution_mode": "draft_only", "model": "scripted:planner"}
    plan = side_call("plan_generation", (700, 210), **mode)
    return planned(turn_of("run-33", "project", conversation="run-31"), (900, 60), (1200, 40), plan)


def reviewed() -> Run:
    mode = {"execution_mode": "agent_review"}
    plan = side_call("plan_generation", (700, 190), model="scripted:planner", **mode)
    review = side_call("plan_review", (400, 20), model="scripted:reviewer", profile="quality", **mode)
    return planned(turn_of("run-35", "project", conversation="run-31"), (1300, 60), (1600, 45), plan, review)


@pytest.mark.req("R3.10", "R3.11", "R3.34", "R3.41", "KX.9")
def test_turn_has_the_usage_rows_of_the_example(subtests: pytest.Subtests) -> None:
    for turn, make in {
        "blank message": blank,
        "time limit": out_of_time,
        "draft_only": draft,
        "agent_review, approved": reviewed,
    }.items():
        with subtests.test(turn):
            run = make()
            wanted = expected(turn, run.id)
            for row in wanted:
                if row["operation"].startswith("plan_"):  # no event has the stop reason of a reply outside the rounds
                    row["stop_reason"] = ""
            assert rows(run) == wanted and wanted


@pytest.mark.req("R3.34")
def test_canned_answer_has_a_row_without_attempts() -> None:
    (row,) = tables.usage(blank()).to_dict("records")
    assert (row["attempts"], row["waited"], row["estimated"]) == (0, 0.0, False)
    (other,) = tables.usage(RunBuilder().add(w.ModelCalled, operation="planner").run).to_dict("records")
    assert (other["attempts"], other["model"]) == (1, "scripted:hand")


@pytest.mark.req("R3.11", "R3.41")
def test_context_column_is_the_one_active_during_the_call() -> None:
    side = w.ModelCalled, {"operation": "judge"}
    built = RunBuilder(context_type="project_create").extend(*a_round(0, "One."), side)
    built.add(w.ContextShifted, context_type="project").extend(side, *a_round(1, "Two."))
    built.extend(*begun(2)).add(w.ContextShifted, context_type="task").extend(*a_round(3, "Four.")[1:])
    assert [(row["operation"], row["context"]) for row in rows(built.run)] == [
        *[("chat", "project_create"), ("judge", "project_create")],
        *[("judge", "project"), ("chat", "project"), ("chat", "project")],
    ]
    assert [row["context"] for row in rows(RunBuilder().round("Well.").run)] == [None]


@pytest.mark.req("R3.41")
def test_loop_call_has_the_execution_mode_of_the_last_plan() -> None:
    def call(**fields: Any) -> Fact:
        return w.ModelCalled, {"operation": "plan_generation", **fields}

    built = RunBuilder().extend(*a_round(0, "One."), call(execution_mode="draft_only"), *a_round(1, "Two."), call())
    built.extend(*a_round(2, "Three."), call(execution_mode="auto_execute"), *a_round(3, "Four."))
    modes = [row["execution_mode"] for row in rows(built.run)]
    assert modes == [None, "draft_only", "draft_only", None, "draft_only", "auto_execute", "auto_execute"]


@pytest.mark.req("R3.11")
def test_only_rounds_of_profiled_runs_are_planner_streams() -> None:
    for profile, in_rounds in {"": "chat", "speed": "planner_stream"}.items():
        built = turn_of("r-1", "task", profile).extend(*a_round(0, "One."), *begun(1, "final_answer"))
        built.add(e.CompactionStarted, why="share", messages=2)
        found = rows(built.run)
        assert sorted(row["operation"] for row in found) == sorted(["compaction", "final_answer", in_rounds])
        assert {row["profile"] for row in found} == {profile or None} and built.run.profile == profile


@pytest.mark.req("R3.10")
def test_call_cut_off_by_the_time_limit_is_marked(subtests: pytest.Subtests) -> None:
    for heard in ([], ["I be"]):
        for on_limit in ("stop", "final_answer"):
            with subtests.test(heard=heard, on_limit=on_limit):
                model = Streaming([Streamed(*heard, FOREVER), "This is what I have."])
                agent = Agent(model, policy="minimal", max_seconds=9, on_limit=on_limit)  # type: ignore[arg-type]
                with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
                    table = tables.usage(runner.run(agent.run("Go")))
                assert list(table.operation) == ["chat", "final_answer"][: len(table)]
                assert (table.stop_reason[0], table.error[0]) == ("broken_off", "max_seconds")
                assert pd.isna(table.error[1:]).all()


def test_failed_final_answer_is_not_marked_as_cut_off() -> None:
    built = RunBuilder().extend(*begun(0)).add(e.RoundFinished, index=0, status="cancelled")
    built.add(e.LimitReached, limit="max_seconds", value=90).extend(*begun(1, "final_answer"))
    built.add(e.RoundFinished, index=1, status="error")
    found = rows(built.add(e.RunFinished, status="limited", stop_reason="max_seconds", seconds=90.0).run)
    assert [row["stop_reason"] for row in found] == ["broken_off", None]


def test_call_stopped_by_the_user_has_no_stop_reason() -> None:
    built = RunBuilder().extend(*begun(0)).add(e.RoundFinished, index=0, status="cancelled")
    (row,) = rows(built.add(e.RunFinished, status="cancelled", stop_reason="cancelled", seconds=1.0).run)
    assert (row["stop_reason"], row["error"]) == (None, "cancelled")
