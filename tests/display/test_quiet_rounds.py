"""Routine is quiet and exceptions are prominent: in the live card, its saved form and the page."""

from __future__ import annotations

import re

import pytest
from hostile import visible_text
from msgspec.structs import replace
from run_builder import RunBuilder, called, guidance_of

from agentnb.core.guidance import Followed
from agentnb.core.log import events as e
from agentnb.core.run.rounds import TodoViolation, WorkflowRound
from agentnb.detect.guidance_rules import SENTENCES
from agentnb.detect.judgements import UNTRACKED_WORK
from agentnb.detect.run import Run
from agentnb.display.card.html import run_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import head_line
from agentnb.display.form import Form
from agentnb.display.lists.browser import browser_text, rows_html
from agentnb.display.lists.run_rows import row_of
from agentnb.display.parts.round_pieces import round_pieces
from agentnb.display.texts.round_notes import round_warnings


def with_todos(*, work: int, updates: int) -> Run:
    """Return a finished run of three rounds with this many calls of a tool and the todo tool; the last one failed."""
    calls = [called("look", f"c-{number}") for number in range(work)]
    listed = [called("todo_operations", f"t-{number}", operation="read") for number in range(updates)]
    built = RunBuilder().round(*calls, *listed[1:]) if calls or listed[1:] else RunBuilder()
    built = built.round(*listed[:1], error_code="tool_error") if listed else built
    return built.round("Done.").add(e.RunFinished, status="completed", stop_reason="natural", seconds=1.0).run


def one(*followed: bool | None) -> WorkflowRound:
    """Return a round with guidance and these verdicts."""
    built = RunBuilder().round("Well.", guidance=[guidance_of("todos_text") for _ in followed])
    return replace(built.run.rounds[0], followed=tuple([Followed(each, "no tool was called") for each in followed]))


def finished() -> Run:
    built = RunBuilder().round(called("look"), guidance=[guidance_of("todos_tools")]).round("Done.")
    return built.add(e.RunFinished, status="completed", stop_reason="natural", seconds=1.0).run


def test_followed_guidance_is_a_detail_but_ignored_guidance_stands_out() -> None:
    for form in (Form(), Form(live=True), Form(details=True)):
        ignored = round_pieces(one(True, False), form)["saw"]
        assert "agentnb-odd" in ignored and visible_text(ignored).startswith("Ignored guidance: no tool was called")
        assert "todos_text" not in visible_text(ignored)
        routine = round_pieces(one(True), form).get("saw", "")
        assert "agentnb-odd" not in routine and (not routine or routine.startswith('<div class="agentnb-detail">'))
    assert "saw" not in round_pieces(one(True), Form())


def test_saved_card_shows_guidance_in_details_or_rounds() -> None:
    for details in (False, True):
        shown = visible_text(run_html(finished(), details=details))
        transcript, _, rest = shown.partition("Details")
        assert ("guidance todos_tools" in transcript) is details
        assert ("Round 1: guidance todos_tools" in rest) is not details
    assert "Round 1: guidance todos_tools" in visible_text(page_html(finished()))


def test_run_details_show_id_date_and_model() -> None:
    _, _, rest = visible_text(run_html(finished())).partition("Details")
    assert re.search(r"run: r-1 · started: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC · model: scripted:hand", rest)


def test_successful_todo_updates_are_folded_into_a_mark(subtests: pytest.Subtests) -> None:
    update = called("todo_operations", operation="update", todoUpdates=[{"id": 1, "status": "completed"}])
    for name, (parts, has_words) in {
        "beside a text": (("I look.", update), False),
        "beside a call": ((called("look"), update), False),
        "alone": ((update, called("todo_operations", operation="read")), True),
    }.items():
        with subtests.test(name):
            pieces = round_pieces(RunBuilder().round(*parts).run.rounds[0], Form())
            mark = pieces["todos"]
            assert next(iter(pieces)) == "todos" and not re.match(r"<details[^>]* open", mark)
            assert "todos: update 1 completed" in mark.split("</summary>")[0] and "✓" not in visible_text(mark)
            assert ("agentnb-updates-line" in mark, "agentnb-updates-mark" in mark) == (has_words, not has_words)
            assert mark.count("agentnb-tool agentnb-routine") == len([part for part in parts if "todo" in str(part)])
            assert sum(key.startswith("call:") for key in pieces) == (name == "beside a call")
    opened = round_pieces(RunBuilder().round("I look.", update).run.rounds[0], Form(folds={"call:0:0": True}))
    assert re.match(r'<details[^>]* data-fold="todos:0" open', opened["todos"])


def test_unusual_todo_updates_keep_their_lines(subtests: pytest.Subtests) -> None:
    update = called("todo_operations", "c-1", operation="read")
    failed = RunBuilder().round(update, error_code="tool_error").run.rounds[0]
    refused = RunBuilder().round(update, blocked=["c-1"]).run.rounds[0]
    well = RunBuilder().round(update).run.rounds[0]
    untracked = replace(well, todo_violations=(TodoViolation("completed_without_in_progress", "c-1", 1),))
    for name, (one, kind) in {
        "failed": (failed, "bad-call"),
        "refused": (refused, "odd"),
        "completed what was not in progress": (untracked, "routine"),
    }.items():
        with subtests.test(name):
            pieces = round_pieces(one, Form())
            assert "todos" not in pieces and f'class="agentnb-tool agentnb-{kind}"' in pieces["call:0"]


def test_live_card_folds_todo_updates_like_the_saved_form() -> None:
    run = with_todos(work=2, updates=3)
    card = LiveCard()
    for event in run.events:
        card.take(event)
        assert all("todo_operations" not in html for html in calls_of(card, 0))
    assert next(iter(card.whole()["rounds"][0]["html"])) == "todos" and len(calls_of(card, 0)) == 2
    assert ["agentnb-bad-call" in html for html in calls_of(card, 1)] == [True]


def calls_of(card: LiveCard, index: int) -> list[str]:
    """Return the calls of a live card's round that have their own lines."""
    rounds = card.whole()["rounds"][index : index + 1]
    return [html for round_ in rounds for key, html in round_["html"].items() if key.startswith("call:")]


def test_calls_and_todo_updates_are_counted_separately_everywhere(subtests: pytest.Subtests) -> None:
    for (work, updates), expected in {
        (4, 6): "4 calls and 6 todo updates",
        (1, 1): "1 call and 1 todo update",
        (2, 0): "2 calls",
        (0, 3): "3 todo updates",
    }.items():
        with subtests.test(expected):
            run = with_todos(work=work, updates=updates)
            card, row = visible_text(run_html(run)), row_of(0, run)
            head, _, rest = card.partition("Transcript")
            assert f"· {expected} ·" in head and f"calls: {expected}" in rest.partition("Details")[2]
            assert f" · {expected}" in visible_text(rows_html([row])) and f", {expected}" in browser_text([row], 1, "One")
            assert f", {expected.replace('call', 'tool call')}" in head_line(run)
            assert len(re.findall(r"\d+ (?:tool )?call", re.sub("failed call|1 call failed", "", card))) == (2 if work else 0)


def test_transcript_expands_to_the_rounds_it_counts() -> None:
    html = run_html(with_todos(work=1, updates=1))
    assert "Transcript, 3 rounds" in html and re.findall(r'data-round="(\d+)"', html) == ["0", "1", "2"]
    assert "Answer: shown above." in html and html.count("Done.") == 1
    alone = run_html(with_todos(work=0, updates=0))
    assert "Transcript" not in alone and "Done." in alone


def test_work_without_todo_in_progress_is_reported_once(subtests: pytest.Subtests) -> None:
    worked = replace(one(False), todo_violations=(TodoViolation(UNTRACKED_WORK, "c-1"),))
    ignored = replace(worked, followed=(Followed(False, SENTENCES["undisciplined"]),))
    for name, (shown, warnings) in {"guidance says so": (ignored, 0), "guidance says another thing": (worked, 1)}.items():
        with subtests.test(name):
            assert len(round_warnings(shown)) == warnings
