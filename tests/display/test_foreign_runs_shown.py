"""A run that another product recorded: what is said of its end and where it comes from, and that no command continues it."""

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


def test_no_form_of_a_foreign_run_offers_a_command(subtests: pytest.Subtests) -> None:
    for status in (None, "completed", "limited", "stopped", "cancelled", "failed"):
        with subtests.test(str(status)):
            run = run_of(status, "max_rounds" if status == "limited" else "")
            forms = [run_html(run), run_text(run), page_html(run), *compact_pieces(run, stored=False)]
            assert all("%agent" not in form and "by you" not in form for form in forms)


def test_what_its_user_said_is_not_said_by_you() -> None:
    assert "User: Here" in run_html(run_of("completed")) and "You:" not in run_html(run_of("completed"))


def test_a_trace_that_breaks_off_says_so_and_not_that_a_kernel_died() -> None:
    run = run_of(None)
    for form in (run_html(run), run_text(run)):
        assert "The trace ends before the run does." in form and "no result in the trace" in form
        assert "kernel" not in form


def test_the_details_say_where_it_comes_from_and_who_spoke() -> None:
    told = re.sub(r"<[^>]+>", "", run_html(run_of("completed")).rpartition("Details")[2])
    places = {"format": "by_hand", "file": "folder/file.json", "position": "line 7", "task": "task-12", "trial": "3"}
    for name, value in places.items():
        assert f"{name}: {value}" in told
    assert "speakers: planner, digger" in told


def test_what_the_reader_filled_in_stands_in_the_details_and_not_above_the_answer() -> None:
    run = run_of("completed")
    head, _, details = run_html(run).rpartition("Details")
    assert "were added" not in head and "was added" not in head and "agentnb-why" not in head
    assert "gaps: " in re.sub(r"<[^>]+>", "", details) and "1 call has no result: a placeholder was added." in details
    assert "placeholder" in run_text(run) and all("placeholder" not in piece for piece in compact_pieces(run, stored=False))


def test_a_stored_foreign_run_is_not_offered_to_be_recovered(tmp_path: Path) -> None:
    store = Store(tmp_path)
    import_traces(run_of(None), store)
    (found,) = store.each_summary()
    assert (found.status, found.foreign, found.can_be_recovered) == ("interrupted", True, False)
