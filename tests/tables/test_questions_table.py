"""The questions table."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from run_builder import Fact, RunBuilder

from agentnb import save_trace, tables
from agentnb.core.log import events as e
from agentnb.core.messages import Message, ToolCall
from agentnb.core.questions import WaitingOnUser
from agentnb.detect.run import Run

SCHEMA = {"enum": ["red", {"rgb": [1, 2, 3]}]}


def asked(id: str, call_id: str = "", **fields: str) -> Fact:
    return e.QuestionAsked, {"question": WaitingOnUser("elicitation", f"{id}?", SCHEMA, id, call_id, **fields)}


def closed(id: str, **fields: object) -> Fact:
    return e.QuestionAnswered, {"question_id": id, **fields}


@pytest.fixture
def run() -> Run:
    """Build a run with five questions of different outcomes in its second round; the first has no call."""
    call = ToolCall("ask_person", {}, "c1")
    story = RunBuilder().round("Hello.").add(e.RoundStarted, index=1, reason="said").extend(asked("q1"))
    story.add(e.ModelReplied, message=Message("assistant", (call,))).add(e.ToolStarted, call=call)
    story.extend(asked("q2", "c1"), asked("q3", "c1"), asked("q4", "c1"))
    story.extend(asked("q5", "c1", asked_by="MCP server clock", url="https://a.b"))
    story.extend(closed("q1", declined=True), closed("q2", answer={"rgb": [1, 2, 3]}), closed("q3", withdrawn=True))
    return story.extend(closed("q5", declined=True, cancelled=True)).run


def test_table_without_questions_prints_an_empty_frame() -> None:
    assert repr(tables.questions(RunBuilder().round("Hello.").run)).startswith("Empty DataFrame\n")


def test_question_has_a_row_with_its_answer(run: Run) -> None:
    frame = tables.questions(run)
    assert frame["question_id"].tolist() == ["q1", "q2", "q3", "q4", "q5"]
    assert frame["answered"].tolist() == ["declined", "answered", "withdrawn", "open", "cancelled"]
    assert frame["message"].tolist() == ["q1?", "q2?", "q3?", "q4?", "q5?"]
    assert set(frame["round"]) == {2} and set(frame["kind"]) == {"elicitation"}
    assert [json.loads(one) for one in frame["schema"]] == [SCHEMA] * 5
    assert json.loads(frame["answer"][1]) == {"rgb": [1, 2, 3]} and frame["answer"].isna().tolist() == [
        True,
        False,
        True,
        True,
        True,
    ]
    assert frame["asked_by"].isna().tolist() == frame["url"].isna().tolist() == [True, True, True, True, False]
    assert (frame["asked_by"][4], frame["url"][4]) == ("MCP server clock", "https://a.b")
    assert frame["answered_by"].isna().tolist() == [False, False, True, True, False]


def test_question_row_names_the_tool_that_asked(run: Run) -> None:
    frame = tables.questions(run)
    assert frame["tool"].isna().tolist() == frame["call_id"].isna().tolist() == [True, False, False, False, False]
    assert (frame["tool"][1], frame["call_id"][1]) == ("ask_person", "c1")


def test_waiting_time_is_known_unless_the_question_is_open(run: Run) -> None:
    frame = tables.questions(run)
    at = {event.question.id: event.at for event in run.events if isinstance(event, e.QuestionAsked)}
    ends = {event.question_id: event.at for event in run.events if isinstance(event, e.QuestionAnswered)}
    assert frame["asked_at"].tolist() == [pd.Timestamp(one) for one in at.values()]
    assert frame["seconds"].tolist()[:3] == [(ends[id] - at[id]).total_seconds() for id in ("q1", "q2", "q3")]
    assert frame["answered_at"].isna().tolist() == [False, False, True, True, False]
    assert pd.isna(frame["seconds"][3])


def test_questions_table_of_a_log_equals_that_of_its_run(run: Run, tmp_path: Path) -> None:
    run.mark_interrupted()
    pd.testing.assert_frame_equal(tables.questions(save_trace(run, tmp_path / "run.jsonl")), tables.questions(run))


def test_old_column_name_warns_and_is_never_exported(run: Run) -> None:
    frame = tables.questions(run)
    expected = frame["answered"].tolist()
    with pytest.warns(DeprecationWarning, match="The column outcome is now called answered"):
        assert frame["outcome"].tolist() == expected
    with pytest.warns(DeprecationWarning, match="answered"):
        assert frame.outcome.tolist() == expected
    assert "outcome" not in frame and "outcome" not in frame.to_csv(index=False).splitlines()[0].split(",")
    part = frame[frame.answered == "answered"]
    assert type(part) is pd.DataFrame and len(part) == expected.count("answered")
    with pytest.raises(KeyError):
        frame["outcomes"]
