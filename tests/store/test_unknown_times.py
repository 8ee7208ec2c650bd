"""Runs with unknown times and durations: they stay unknown, and are nowhere shown as 0."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest
from msgspec.structs import replace
from run_builder import RunBuilder, a_round, called, guidance_of, todo

from agentnb import Run, Store, load_trace, save_trace, tables
from agentnb.core.compaction_records import Compacted
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.messages import Message, Text
from agentnb.core.usage import Usage
from agentnb.display.card.compact import compact_html
from agentnb.display.card.html import run_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import run_text
from agentnb.display.lists.history_list import history_html, history_text, run_list_html
from agentnb.runtime.clock import seconds_taken

TIMED = (e.ModelReplied, e.ToolFinished, e.RoundFinished, e.RunFinished, e.ContextCompacted, w.ModelCalled, w.StepFinished)


@pytest.fixture
def timeless() -> Run:
    """Build a run with all kinds of timed events, all of unknown time."""
    story = RunBuilder(todos=(todo(1, "in-progress"),))
    story.add(w.StepStarted, step="a").add(w.StepFinished, step="a")
    story.add(w.ModelCalled, operation="planner", usage=Usage(5, 5, cost=0.25))
    story.extend(*a_round(0, called("look"), guidance=[guidance_of()], after=(todo(1, "completed"),)))
    story.add(e.RoundStarted, index=1, reason="tool_results")
    story.add(e.CompactionStarted, why="share", messages=2)
    story.add(e.ContextCompacted, why="share", compacted=Compacted(1, 2, 1, "So far."), usage=Usage(1, 1, cost=0.1))
    story.add(e.RetryScheduled, attempt=1, seconds=2.0, reason="busy", status=529)
    story.add(e.ModelReplied, message=Message("assistant", (Text("Done."),)), usage=Usage(9, 1, cost=0.5))
    story.add(e.RoundFinished, index=1, status="success").add(e.RunFinished, status="completed", stop_reason="natural")
    events = [replace(event, at=None, **({"seconds": None} if isinstance(event, TIMED) else {})) for event in story.events]
    return Run.from_events(events)


def test_unknown_time_stays_unknown_in_its_log(timeless: Run, tmp_path: Path) -> None:
    assert (timeless.started_at, timeless.ended_at, timeless.seconds) == (None, None, None)
    assert {(round_.seconds, round_.model_seconds, round_.started_at, round_.ended_at) for round_ in timeless.rounds} == {
        (None,) * 4
    }
    assert load_trace(save_trace(timeless, tmp_path / "r-1.jsonl")) == timeless
    assert seconds_taken(timeless.events) == 0.0


def test_unknown_time_is_missing_in_every_table(timeless: Run, subtests: pytest.Subtests) -> None:
    for name in tables.NAMES:
        with subtests.test(name):
            frame = getattr(tables, name)(timeless)
            assert len(frame) or name in ("loops", "plans", "questions", "steps")
            for column in frame.columns:
                if column in ("seconds", "model_seconds", "at", "started_at", "ended_at"):
                    assert frame[column].isna().all(), column
    assert list(tables.usage(timeless).operation) == ["planner", "chat", "compaction", "chat"]
    assert tables.usage(timeless).cost.sum() == timeless.spent == pytest.approx(0.85)


def test_known_duration_survives_an_unknown_time(timeless: Run) -> None:
    run = Run.from_events([*timeless.events[:-1], replace(timeless.events[-1], seconds=3.0)])  # type: ignore[call-arg]
    assert list(tables.runs(run).seconds) == [3.0] and "3.0 s" in run_text(run) and "3.0 s" in run_html(run)


def test_unknown_times_show_no_duration_or_date(timeless: Run, tmp_path: Path, subtests: pytest.Subtests) -> None:
    save_trace(timeless, tmp_path / "r-1.jsonl")
    listed = Store(tmp_path).summaries()
    card = LiveCard()
    for event in timeless.events:
        card.take(event)
        card.frame()
    whole = card.whole()
    forms = {
        "saved": run_html(timeless),
        "page": page_html(timeless),
        "text": run_text(timeless),
        "compact": compact_html(timeless),
        "live": str(whole["slots"]) + str(whole["rounds"]),
        "list": history_text(listed, "1 run") + history_html(listed, "1 run", lambda _: compact_html(timeless)),
        "panel": run_list_html(listed),
    }
    for name, shown in forms.items():
        with subtests.test(name):
            words = re.sub("<[^>]*>", " ", shown)
            found = re.findall(r"\b\d+(?:\.\d+)? m?s\b|under 1 ms|\b(?:19|20)\d\d-|\d\d:\d\d|None|NaT", words)
            assert [one for one in found if one != "2.0 s"] == []  # the wait between two attempts is known
    assert listed[0].started_at is None and listed[0].seconds is None


def test_table_time_columns_keep_their_type_with_unknown_times(timeless: Run) -> None:
    known = RunBuilder(run_id="r-2").extend(*a_round(0, "Done.")).run
    frame = tables.rounds([timeless, known])
    assert str(frame.started_at.dtype) == "datetime64[us, UTC]" and list(frame.started_at.notna()) == [False, False, True]
    assert pd.isna(frame.seconds.iloc[0])
