"""The table of events, and the columns with the origin of a run."""

from __future__ import annotations

import json

import pandas as pd
from run_builder import RunBuilder, a_round, called

from agentnb import tables
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.messages import Message, Text
from agentnb.core.usage import Usage


def test_table_has_a_row_for_each_event_and_kind() -> None:
    story = RunBuilder().add(w.OtherEvent, name="weather_turned", data={"sky": "clear"}).extend(*a_round(0, called("look")))
    run = story.add(e.RunFinished, status="completed", stop_reason="natural").run
    frame = tables.events(run)
    assert list(frame.seq) == list(range(len(run.events))) and set(frame.run_id) == {run.id}
    assert list(frame.kind[:3]) == ["run_started", "weather_turned", "round_started"]
    assert json.loads(frame.fields[1]) == {"sky": "clear"} and json.loads(frame.fields[2])["reason"] == "prompt"
    assert [None if pd.isna(one) else int(one) for one in frame["round"]] == [None, None, 1, 1, 1, 1, 1, None]


def test_message_row_names_its_author() -> None:
    story = RunBuilder().add(e.RoundStarted, index=0, reason="prompt")
    story.add(e.ModelReplied, message=Message("assistant", (Text("Hi."),), author="Orchestrator"))
    assert [None if pd.isna(one) else one for one in tables.messages(story.run).author] == [None, "Orchestrator"]


def test_runs_table_includes_the_metadata_of_a_run() -> None:
    run = RunBuilder(
        run_kind="judge",
        tags=("night", "a b"),
        origin=e.Origin("openai_chat", "runs.json", "3"),
        forked_from=e.ForkedFrom("r-0", 2),
        conversation="r-00",
        context_type="review",
        entity="p-1",
    ).run
    row = tables.runs(run).iloc[0]
    assert (row.kind, row.tags, row.conversation) == ("judge", "night, a b", "r-00")
    assert (row.origin_format, row.origin_file, row.origin_position) == ("openai_chat", "runs.json", "3")
    assert (row.forked_from, row.forked_at_round, row.context_type, row.entity) == ("r-0", 3, "review", "p-1")
    plain = tables.runs(RunBuilder().run).iloc[0]
    assert (plain.kind, plain.conversation) == ("agent", "r-1")
    assert all(pd.isna(plain[name]) for name in ("tags", "origin_format", "forked_from", "forked_at_round", "entity"))


def test_guidance_table_has_the_propensity_of_drawn_sets() -> None:
    drawn = RunBuilder().add(w.GuidanceDrawn, set="matrix", propensity=0.25).run
    assert tables.runs(drawn).guidance_propensity[0] == 0.25
    assert tables.runs(RunBuilder().run).guidance_propensity.isna().all()


def test_usage_table_lists_calls_outside_the_loop_in_order() -> None:
    story = RunBuilder()
    story.add(w.ModelCalled, operation="planner", model="openai:big", usage=Usage(4, 1, cost=0.5), seconds=2.0)
    story.add(e.RoundStarted, index=0, reason="prompt").add(w.ModelCalled, operation="guard", error="busy")
    story.add(e.ModelReplied, message=Message("assistant", (Text("Hi."),))).add(w.ModelCalled, operation="judge")
    story.add(e.RoundFinished, index=0, status="success")
    frame = tables.usage(story.run)
    assert list(frame.operation) == ["planner", "guard", "chat", "judge"]
    assert [None if pd.isna(one) else int(one) for one in frame["round"]] == [None, 1, 1, 1]
    assert list(frame.model) == ["openai:big", *["scripted:hand"] * 3]
    assert [None if pd.isna(one) else one for one in frame.error] == [None, "busy", None, None]
    assert list(frame.seconds.isna()) == [False, True, False, False]
