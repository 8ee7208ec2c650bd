"""A run that another product recorded: its end and source are shown, and no command continues it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentnb import Run, Store, ToolCall, import_traces
from agentnb.core.log.event import Status
from agentnb.core.log.events import Origin
from agentnb.display.card.compact import compact_pieces
from agentnb.display.card.html import run_html
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import run_text
from agentnb.interchange.conversion.run_writer import RunWriter

WHERE = Origin("by_hand", "folder/file.json", "line 7", "task-12", "3")


def run_of(status: Status | None, reason: str = "") -> Run:
    writer = RunWriter(WHERE, model="m")
    writer.say("Dig", author="planner")
    writer.reply("Where?", author="digger")
    writer.say("Here")
    writer.reply("I dig.", [ToolCall("dig", {})], author="digger")
    return writer.finish(status, reason) if status else writer.finish(None)


def test_foreign_runs_never_offer_commands(subtests: pytest.Subtests) -> None:
    for status in (None, "completed", "limited", "stopped", "cancelled", "failed"):
        with subtests.test(str(status)):
            run = run_of(status, "max_rounds" if status == "limited" else "")
            forms = [run_html(run), run_text(run), page_html(run), *compact_pieces(run, stored=False)]
            assert all("%agent" not in form and "by you" not in form for form in forms)


def test_user_of_a_foreign_run_is_not_called_you() -> None:
    assert "User: Here" in run_html(run_of("completed")) and "You:" not in run_html(run_of("completed"))


def test_truncated_trace_is_labelled_without_blaming_the_kernel() -> None:
    run = run_of(None)
    for form in (run_html(run), run_text(run)):
        assert "The trace ends before the run does." in form and "no result in the trace" in form
        assert "kernel" not in form


def test_details_name_the_source_and_the_speakers() -> None:
    text = re.sub(r"<[^>]+>", "", run_html(run_of("completed")).rpartition("Details")[2])
    places = {"format": "by_hand", "file": "folder/file.json", "position": "line 7", "task": "task-12", "trial": "3"}
    for name, value in places.items():
        assert f"{name}: {value}" in text
    assert "speakers: planner, digger" in text


def test_repairs_made_while_reading_a_trace_appear_only_in_details() -> None:
    run = run_of("completed")
    head, _, details = run_html(run).rpartition("Details")
    assert "were added" not in head and "was added" not in head and "agentnb-why" not in head
    assert "gaps: " in re.sub(r"<[^>]+>", "", details) and "1 call has no result: a placeholder was added." in details
    assert "placeholder" in run_text(run) and all("placeholder" not in piece for piece in compact_pieces(run, stored=False))


def test_stored_foreign_run_does_not_offer_recovery(tmp_path: Path) -> None:
    store = Store(tmp_path)
    import_traces(run_of(None), store)
    (found,) = store.each_summary()
    assert (found.status, found.foreign, found.can_be_recovered) == ("interrupted", True, False)
