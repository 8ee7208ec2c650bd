"""The rounds table: the four decisions after each round, its speaker, and the use of the context window."""

from __future__ import annotations

from functools import partial
from typing import Any

import pandas as pd
import pytest
from run_builder import RunBuilder, begun, called, guidance_of, todos_are, todos_of
from scripted_runs import do, play, work

from agentnb import Matrix, Run, TodoBoard, save_trace, tables
from agentnb.core.log import events as e
from agentnb.core.messages import Message, Text
from agentnb.core.usage import Usage

run_of = partial(play, tools=[work])

DECISIONS = ["tools_called", "todos_open", "workflow_mode", "went_on"]


def rows(frame: pd.DataFrame, *columns: str) -> list[tuple[Any, ...]]:
    """Return these columns of all rows; missing values are None."""
    return [tuple(None if pd.isna(cell) else cell for cell in row) for row in frame[list(columns)].itertuples(index=False)]


def simple_fail() -> RunBuilder:
    """Return the documented failure: five stories as five todos; the last is told without its todo."""
    settings = {"policy": {"name": "matrix", "workflow_mode": False}}
    story = RunBuilder(settings=settings).round(called("todo_operations"), after=todos_of(*["not-started"] * 5))
    for number in range(1, 5):
        after = todos_of(*["completed"] * number, *["not-started"] * (5 - number))
        story.round(f"Story {number}", called("todo_operations"), called("todo_operations"), after=after)
    return story.round("Story 5")


@pytest.mark.req("R0.71")
def test_rounds_table_shows_the_decisions_of_a_documented_failure() -> None:
    run = simple_fail().add(e.RunFinished, status="completed", stop_reason="natural").run
    assert rows(tables.rounds(run), "round", *DECISIONS) == [
        (1, True, 5, False, True),
        (2, True, 4, False, True),
        (3, True, 3, False, True),
        (4, True, 2, False, True),
        (5, True, 1, False, True),
        (6, False, 1, False, False),
    ]


def test_open_todos_are_counted_at_the_time_of_the_decision(tmp_path: Any) -> None:
    story = RunBuilder(todos=todos_of("not-started", "not-started")).round("One.")
    story.extend(todos_are(*todos_of("completed", "not-started")))  # after the round, before the next
    story.extend(*begun(1, "todos"), todos_are(*todos_of("completed", "completed", "blocked")))
    assert rows(tables.rounds(story.run), "todos_open") == [(1,), (1,)]
    story.run.mark_interrupted()
    pd.testing.assert_frame_equal(tables.rounds(save_trace(story.run, tmp_path / "run.jsonl")), tables.rounds(story.run))


def test_rounds_table_counts_the_board_todos_the_policy_saw() -> None:
    board = TodoBoard(["One"])
    run = run_of("Hm.", lambda _: (board.complete(1), "Done.")[1], todos=board)
    assert rows(tables.rounds(run), "tools_called", "todos_open", "went_on") == [(False, 1, True), (False, 0, False)]


def test_open_todos_are_missing_without_list_and_zero_when_done() -> None:
    story = RunBuilder().round(called("look")).round(called("todo_operations"), after=todos_of("completed")).round("Done.")
    assert rows(tables.rounds(story.run), "todos_open") == [(None,), (0,), (0,)]


def test_workflow_mode_column_reflects_the_policy_or_is_missing(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[Any, bool | None]] = {
        "on": (Matrix(workflow_mode=True), True),
        "off": ("matrix", False),
        "minimal has no such mode": ("minimal", None),
    }
    for name, (policy, wanted) in cases.items():
        with subtests.test(name):
            frame = tables.rounds(run_of(do(1), "Done.\n[WORKFLOW_COMPLETE]", policy=policy))
            assert rows(frame, "workflow_mode") == [(wanted,)] * 2
    odd = RunBuilder(settings={"policy": {"workflow_mode": "yes"}}).round("Done.").run
    assert rows(tables.rounds(odd), "workflow_mode") == [(None,)]


def test_continued_column_is_missing_for_the_open_last_round(subtests: pytest.Subtests) -> None:
    for name, wanted in {"running": None, "interrupted": None, "ended": False}.items():
        with subtests.test(name):
            story = RunBuilder().round(called("look")).round("Done.")
            if name == "ended":
                story.add(e.RunFinished, status="completed", stop_reason="natural")
            elif name == "interrupted":
                story.run.mark_interrupted()
            assert rows(tables.rounds(story.run), "went_on") == [(True,), (wanted,)]


def test_round_without_a_reply_has_missing_values() -> None:
    open_round = RunBuilder().extend(*begun(0)).run
    assert rows(tables.rounds(open_round), "tools_called", "model_seconds", "seconds", "ended_at", "author") == [(None,) * 5]


def test_round_row_lists_the_cells_of_its_guidance() -> None:
    given = guidance_of("intervention"), guidance_of("todos_text")
    run = RunBuilder().round("Hm.").round("Done.", guidance=given).run
    assert rows(tables.rounds(run), "guidance_cells") == [(None,), ("intervention, todos_text",)]


def replied(*authors: str) -> Run:
    story = RunBuilder()
    for index, author in enumerate(authors):
        message = Message("assistant", (Text("Hi."), called("look", f"c{index}")), author)
        story.add(e.RoundStarted, index=index, reason="prompt").add(e.ModelReplied, message=message)
        story.add(e.ToolStarted, call=message.calls[0])
    return story.run


def test_each_speaker_is_named_in_rounds_calls_and_usage() -> None:
    run = replied("Orchestrator", "")
    for frame in (tables.rounds(run), tables.tool_calls(run), tables.usage(run)):
        assert rows(frame, "author") == [("Orchestrator",), (None,)]


def test_round_row_has_its_end_time() -> None:
    run = RunBuilder().round(called("look")).round("Done.").run
    frame = tables.rounds(run)
    assert [at.to_pydatetime() for at in frame["ended_at"]] == [round_.ended_at for round_ in run.rounds]


def used(model: str = "scripted:hand", metadata: dict[str, Any] | None = None, **settings: Any) -> Run:
    story = RunBuilder(model=model, settings=settings).add(e.RoundStarted, index=0, reason="prompt")
    message = Message("assistant", (Text("Hi."),))
    return story.add(e.ModelReplied, message=message, usage=Usage(600, 150), metadata=metadata or {}).run


def test_tokens_are_compared_with_the_context_window_if_known(subtests: pytest.Subtests) -> None:
    cases: dict[str, tuple[Run, tuple[Any, ...]]] = {
        "as the agent was told": (used(history={"window": 1_000}), (750, 1_000, 0.75)),
        "unknown": (used(), (750, None, None)),
        "a server of one's own": (used("ollama:llama3"), (750, None, None)),
        "by the price table": (used("anthropic:claude-sonnet-4-5"), (750, 200_000, 750 / 200_000)),
        "by the price table, as others name it": (used("anthropic/claude-sonnet-4-5"), (750, 200_000, 750 / 200_000)),
        "by the price table, without a provider": (used("gpt-4o"), (750, 128_000, 750 / 128_000)),
        "no model": (used("unknown"), (750, None, None)),
        "an invalid window": (used(history={"window": True}), (750, None, None)),
        "a reply of several calls": (used(metadata={"context_tokens": 500}, history={"window": 1_000}), (500, 1_000, 0.5)),
        "odd metadata": (used(metadata={"context_tokens": "many"}), (750, None, None)),
    }
    for name, (run, wanted) in cases.items():
        with subtests.test(name):
            assert rows(tables.rounds(run), "context_tokens", "context_window", "context_share") == [wanted]


def test_conversation_tokens_are_missing_unless_both_counts_are_known() -> None:
    story = RunBuilder().add(e.RoundStarted, index=0, reason="prompt")
    story.add(e.ModelReplied, message=Message("assistant", (Text("Hi."),)), usage=Usage(600))
    assert rows(tables.rounds(story.run), "input_tokens", "context_tokens") == [(600, None)]
