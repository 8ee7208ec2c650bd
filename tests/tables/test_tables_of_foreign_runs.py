"""Foreign runs have the same tables; values that their traces lack are missing, never 0 or False."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest
from foreign_traces import CHAT, TEAM, chat_run, team_run
from run_builder import RunBuilder, begun, called, guidance_of, todos_of

from agentnb import Run, Store, ToolCall, save_trace, tables
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.run.rounds import LOST
from agentnb.core.usage import Usage
from agentnb.interchange.conversion.run_writer import RunWriter

ORIGIN = e.Origin("by_hand", "runs.json")
UNTOLD = {
    "runs": {
        "recovered",
        "compactions",
        "retries",
        "calls_blocked",
        "todos",
        "todos_completed",
        "all_completed",
        "breaches",
        "guidance_given",
        "guidance_followed",
        "input_tokens",
        "output_tokens",
        "cost",
        "spent",
        "seconds",
        "started_at",
        "ended_at",
    },
    "rounds": {
        "attempts",
        "compacted",
        "recovered",
        "todos_open",
        "workflow_mode",
        "guidance_cells",
        "input_tokens",
        "context_tokens",
        "context_window",
        "cost",
        "model_seconds",
        "seconds",
        "started_at",
        "ended_at",
    },
    "tool_calls": {"author", "rule", "started_at", "ended_at", "seconds", "traceback"},
    "usage": {"attempts", "waited", "seconds", "input_tokens", "cost", "error", "started_at"},
}
"""Columns without a value for a plain chat trace."""


@pytest.fixture
def chats() -> list[Run]:
    return [chat_run(record, f"{number}") for number, record in enumerate(CHAT)]


def test_values_absent_from_a_plain_trace_are_missing_values(chats: list[Run], subtests: pytest.Subtests) -> None:
    for name, untold in UNTOLD.items():
        with subtests.test(name):
            frame = getattr(tables, name)(chats)
            assert len(frame) and {column for column in untold if not frame[column].isna().all()} == set()


def test_values_present_in_a_plain_trace_are_shown(chats: list[Run]) -> None:
    runs, rounds, calls = tables.runs(chats), tables.rounds(chats), tables.tool_calls(chats, arguments=True)
    assert list(runs["origin_format"]) == ["openai_chat"] * 2 and list(runs["rounds"]) == [4, 1]
    assert list(rounds["round"]) == [1, 2, 3, 4, 1] and list(rounds["tools_called"]) == [True, False, True, False, True]
    assert [None if pd.isna(one) else one for one in rounds["went_on"]] == [True, True, True, False, None]
    assert list(calls["name"]) == ["find", "cancel", "find"]
    assert list(calls["arguments.order"][:2]) == ["W1", "W1"] and pd.isna(calls["arguments.order"][2])


def test_call_without_a_recorded_result_has_unknown_success(chats: list[Run]) -> None:
    calls = tables.tool_calls(chats)
    assert [None if pd.isna(one) else one for one in calls["success"]] == [True, True, None]
    assert calls["error_code"][2] == LOST
    assert tables.rounds(chats)["tool_errors"].sum() == tables.runs(chats)["tool_errors"].sum() == 0


def test_speakers_are_named_in_every_message_table() -> None:
    team = team_run(TEAM)
    speakers = ["Orchestrator", "WebSurfer", "Orchestrator"]
    for frame in (tables.rounds(team), tables.usage(team)):
        assert list(frame["author"]) == speakers
    assert list(tables.messages(team)["author"]) == ["human", *speakers]


def test_retries_guidance_and_todos_of_a_trace_are_counted(subtests: pytest.Subtests) -> None:
    """A foreign log can contain each event of agentnb, and then no recorded value is missing."""
    story = RunBuilder(origin=ORIGIN, todos=todos_of("completed"))
    story.extend(*begun(0, "", guidance_of())).add(e.RetryScheduled, attempt=1, seconds=2.0, reason="busy")
    run = story.add(e.RunFinished, status="failed", stop_reason="error").run
    row, first = tables.runs(run).iloc[0], tables.rounds(run).iloc[0]
    assert (row.retries, row.guidance_given, row.guidance_followed, row.todos, row.breaches) == (1, 1, 0, 1, 0)
    assert (first.attempts, first.todos_open) == (2, 0) and tables.usage(run)["waited"][0] == 2.0


def test_agentnb_runs_count_absent_things_as_zero() -> None:
    row = tables.runs(RunBuilder().round(called("look")).run).iloc[0]
    names = ["recovered", "compactions", "retries", "calls_blocked", "todos", "breaches", "guidance_given", "guidance_followed"]
    assert [int(row[name]) for name in names] == [0] * len(names)


def test_mixed_tables_keep_their_columns_and_types(chats: list[Run], tmp_path: Path) -> None:
    own = RunBuilder().round(called("look")).round("Done.").add(e.RunFinished, status="completed", stop_reason="natural").run
    for name in tables.NAMES:
        make = getattr(tables, name)
        both = make([own, *chats])
        assert dict(both.dtypes) == dict(make([]).dtypes)
        if name != "patterns":
            assert len(both) == len(make(own)) + len(make(chats))
    saved = [save_trace(run, tmp_path / f"{run.id}.jsonl") for run in chats]
    pd.testing.assert_frame_equal(tables.rounds(saved), tables.rounds(chats))


def test_recorded_findings_of_a_trace_have_rows() -> None:
    writer = RunWriter(ORIGIN, model="openai:x")
    writer.say("Go.")
    writer.reply("I look.", [ToolCall("look", {}, "c1")])
    writer.event(w.FindingMade, rule="stuck", family="stall", first=0, last=0, evidence={"calls": ["c1"]})
    (row,) = tables.loops(writer.finish()).to_dict("records")
    assert (row["family"], row["rule"], row["first"], row["last"], row["evidence"]) == (
        "stall",
        "stuck",
        1,
        1,
        '{"calls":["c1"]}',
    )


OWN = ["own_input_tokens", "own_output_tokens"]


def replied(run_id: str, *replies: tuple[str, int]) -> Run:
    """Build a run of replies with these ids and token counts."""
    writer = RunWriter(ORIGIN, run_id=run_id, model="m")
    writer.say("Go")
    for response_id, tokens in replies:
        usage = Usage(input=tokens, output=1, cost=tokens / 100)
        writer.reply(f"Reply {response_id} of {tokens}.", usage=usage, metadata={"response_id": response_id})
    return writer.finish()


def test_totals_count_replies_copied_between_sessions_once(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """Different replies are counted even under one server id, and a single run has all its own counts."""
    runs = [
        replied("first", ("a", 1), ("b", 10)),
        replied("resumed", ("a", 1), ("b", 10), ("c", 100)),
        replied("resumed again", ("b", 10), ("c", 100), ("d", 1000)),
        replied("one id", ("x", 2000), ("x", 3000)),
        replied("one id elsewhere", ("x", 4000)),
    ]
    store = Store(tmp_path)
    for run in runs:
        save_trace(run, store.path(run.id.replace(" ", "-")))
    for name, source in {"runs": runs, "one by one": iter(runs), "store": store, "folder": tmp_path}.items():
        with subtests.test(name):
            table = tables.runs(source)
            assert table[OWN].sum().to_list() == [10_111, 7] and table["own_cost"].sum() == pytest.approx(101.11)
    calls = tables.usage([*runs, runs[0]])
    assert (calls["input_tokens"].sum(), len(calls)) == (10_111, 7)
    assert tables.runs(runs[2])["own_input_tokens"][0] == tables.usage(runs[2])["input_tokens"].sum() == 1110
    assert dict(zip(calls["run_id"], calls["response_id"], strict=True))["resumed"] == "c"
