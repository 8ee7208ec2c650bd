"""Routine is quiet, exceptions stand out: in the live card, in its saved form and on the page."""

from __future__ import annotations

import re

from hostile import visible_text
from msgspec.structs import replace
from run_builder import RunBuilder, called, guidance_of

from agentnb.core.guidance import Followed
from agentnb.core.log import events as e
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.run import Run
from agentnb.display.card.html import run_html
from agentnb.display.card.page import page_html
from agentnb.display.form import Form
from agentnb.display.parts.rounds import round_pieces


def one(*followed: bool | None) -> WorkflowRound:
    """A round with guidance, judged so."""
    built = RunBuilder().round("Well.", guidance=[guidance_of("todos_text") for _ in followed])
    return replace(built.run.rounds[0], followed=tuple([Followed(each, "no tool was called") for each in followed]))


def finished() -> Run:
    built = RunBuilder().round(called("look"), guidance=[guidance_of("todos_tools")]).round("Done.")
    return built.add(e.RunFinished, status="completed", stop_reason="natural", seconds=1.0).run


def test_guidance_that_was_followed_is_a_detail_and_what_was_not_stands_out() -> None:
    for form in (Form(), Form(live=True), Form(details=True)):
        ignored = round_pieces(one(True, False), form)["saw"]
        assert "agentnb-odd" in ignored and visible_text(ignored).startswith("Ignored guidance: no tool was called")
        assert "todos_text" not in visible_text(ignored)
        routine = round_pieces(one(True), form).get("saw", "")
        assert "agentnb-odd" not in routine and (not routine or routine.startswith('<div class="agentnb-detail">'))
    assert "saw" not in round_pieces(one(True), Form())


def test_a_saved_card_has_the_guidance_in_its_details_or_with_them_on_in_its_rounds() -> None:
    for details in (False, True):
        shown = visible_text(run_html(finished(), details=details))
        transcript, _, rest = shown.partition("Details")
        assert ("guidance todos_tools" in transcript) is details
        assert ("Round 1: guidance todos_tools" in rest) is not details
    assert "Round 1: guidance todos_tools" in visible_text(page_html(finished()))


def test_the_details_have_the_id_the_date_and_the_model() -> None:
    _, _, rest = visible_text(run_html(finished())).partition("Details")
    assert re.search(r"run: r-1 · started: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC · model: scripted:hand", rest)


def test_a_call_of_the_todo_tool_that_went_well_is_one_quiet_line() -> None:
    pieces = round_pieces(RunBuilder().round(called("todo_operations", operation="read")).run.rounds[0], Form())
    assert 'class="agentnb-tool agentnb-routine"' in pieces["call:0"] and "ok" not in visible_text(pieces["call:0"])
    failed = RunBuilder().round(called("todo_operations", operation="read"), error_code="tool_error").run.rounds[0]
    assert 'class="agentnb-tool agentnb-bad-call"' in round_pieces(failed, Form())["call:0"]
