"""Hostile text is harmless in every form of a run."""

from __future__ import annotations

from typing import Any

import pytest
from hostile import Harmful, check_is_harmless
from hostile_runs import PARTS, Pause, hostile_run, items, texts_of
from property_settings import AT_NIGHT, size

from agentnb.context.request_history import sent_request
from agentnb.detect.run import Run
from agentnb.display.card.html import run_html, running_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.request_view import request_view_html
from agentnb.display.card.run_page import page_html
from agentnb.display.form import Form
from agentnb.display.parts.tool_card import tool_body_html

ENDS = {"failed": None, "completed": 3, "limited": 3}
"""Ends of a run, with their number of rounds: the rounds do not depend on the end."""
ENDS_AND_PARTS = [
    (end, rounds, part)
    for number, (end, rounds) in enumerate(ENDS.items())
    for place, part in enumerate(PARTS)
    if AT_NIGHT or rounds is None or (number + place) % 2
]
"""By day the short runs have two parts each."""


@pytest.mark.slow("megabytes of HTML are made and checked")
def test_saved_form_is_harmless(subtests: pytest.Subtests) -> None:
    for end, rounds, part in ENDS_AND_PARTS:
        with subtests.test(end=end, part=part):
            run = hostile_run(part, end, rounds)
            check_is_harmless(run_html(run, prompt=True))
            check_is_harmless(run_html(run, details=True, folds={"saw:0": True, "call:0:0": True}))


def test_running_card_is_harmless_as_plain_html(subtests: pytest.Subtests) -> None:
    for part in PARTS:
        with subtests.test(part=part):
            run = hostile_run(part)
            check_is_harmless(running_html(Run.from_events(run.events[:-2]), hint=run.prompt))
            begun = Run.from_events(run.events[:2])
            for text in texts_of(part):
                check_is_harmless(running_html(begun, streaming=text))


def test_page_is_harmless(subtests: pytest.Subtests) -> None:
    for end, rounds, part in ENDS_AND_PARTS:
        with subtests.test(end=end, part=part):
            check_is_harmless(page_html(hostile_run(part, end, rounds)), document=True)


@pytest.mark.slow("a card is drawn and checked at every step of 16 hostile rounds, at night of 130")
def test_every_frame_of_a_live_card_is_harmless(subtests: pytest.Subtests) -> None:
    """Without controls the pieces equal those of the saved form, so a few rounds of each part suffice."""
    for controls, rounds in {True: None, False: 5}.items():
        for part in PARTS:
            with subtests.test(controls=controls, part=part):
                card = LiveCard(controls=controls)
                for item in items(texts_of(part)[:: size(8, nightly=1)], rounds=rounds):
                    if isinstance(item, Pause):
                        _check(card.frame())
                    else:
                        card.take(item)
                _check(card.frame())
                _check(card.whole())


def _check(frame: dict[str, Any] | None) -> None:
    if frame is None:
        return
    pieces = [*frame["slots"].values(), *frame["stream"].get("add", ()), *frame["stream"].get("settled", ())]
    pieces += [html for round_ in frame["rounds"] for html in round_["html"].values()]
    for html in pieces:
        check_is_harmless(html)


@pytest.mark.slow("every hostile text, in every form")
def test_expanded_parts_of_a_card_are_harmless(subtests: pytest.Subtests) -> None:
    for part in ["markup", "text", "links"]:
        with subtests.test(part=part):
            run = hostile_run(part)
            for round_ in run.rounds[:: max(1, len(run.rounds) // size(10, nightly=25))]:
                check_is_harmless(request_view_html(sent_request(run, round_.index), whole=True))
                for record in round_.records:
                    check_is_harmless(tool_body_html(record, Form(whole=True, live=True)))


def test_hostile_texts_appear_in_every_form() -> None:
    """Finds words of each text, so that the checks above are not vacuous."""
    run = hostile_run("markup", "completed")
    for html in (run_html(run, prompt=True), page_html(run)):
        assert html.count("alert(1)") > 500


def test_styles_from_elsewhere_are_detected() -> None:
    html = run_html(hostile_run("text", rounds=3))
    with pytest.raises(Harmful):
        check_is_harmless(html.replace('style="', 'style="position:fixed;', 1))
