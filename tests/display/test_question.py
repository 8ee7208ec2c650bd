"""A question as it is asked in a card."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from hostile import check_is_harmless
from some_questions import asked, run_of

from agentnb.core.questions import MAX_CHOICES, WaitingOnUser, answer_in_words
from agentnb.display.html import run_html, running_html
from agentnb.display.live_card import LiveCard
from agentnb.display.page import page_html
from agentnb.display.question import ASKED, ASKS, question_html
from agentnb.display.text import run_text

FEW = ["red", 1, None]
ODD = [1, True, None, " a ", "B\n\tb", "\x1b[2J", '"quoted"', {"a": [1]}, "<b>"]
MANY = [*[f"colour {number}" for number in range(MAX_CHOICES)], *ODD]


def words(html: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", html)).split())


def question(schema: dict[str, Any], kind: Any = "elicitation") -> WaitingOnUser:
    return WaitingOnUser(kind, "Which?", schema, "q1")


@pytest.mark.req("KX.5")
def test_few_choices_are_buttons() -> None:
    html = question_html(question({"enum": FEW}), live=True)
    assert [unescape(one) for one in re.findall('data-value="([^"]*)"', html)] == ['"red"', "1", "null"]
    assert "<select" not in html and "<textarea" not in html
    of_two = question_html(question({"type": "boolean"}), live=True)
    assert [words(one) for one in re.findall("<button.*?</button>", of_two)] == ["Yes", "No", "Leave it to the agent"]


@pytest.mark.req("KX.5")
def test_of_many_choices_one_is_selected_and_what_is_sent_is_read_as_it() -> None:
    html = question_html(question({"enum": MANY}), live=True)
    assert re.search('<form [^>]*data-do="answer" data-id="q1"><select [^>]*name="text"', html) and "<textarea" not in html
    options = re.findall('<option value="([^"]*)">(.*?)</option>', html, re.DOTALL)
    assert options[0] == ("", "Choose an answer")  # nothing is sent before the person has chosen
    assert [answer_in_words({"enum": MANY}, unescape(value)) for value, _ in options[1:]] == MANY
    assert [unescape(label) for _, label in options[1:4]] == MANY[:3]


@pytest.mark.req("KX.5")
def test_without_choices_there_is_a_field() -> None:
    assert 'aria-label="Your answer"' in question_html(question({"type": "string"}), live=True)
    assert 'aria-label="Your answer, as JSON"' in question_html(question({"type": "integer"}), live=True)
    assert 'aria-label="Your answer"' in question_html(question({"enum": "none"}), live=True)


@pytest.mark.parametrize("choices", [FEW, MANY])
def test_a_saved_card_tells_the_choices_in_words(choices: list[Any]) -> None:
    told = words(question_html(question({"enum": choices}), live=False))
    assert told.startswith(f"The agent asks you Which? To choose from: {choices[0]}, ") and ", null" in told
    assert not re.search("<(button|form|select|textarea)", question_html(question({"enum": choices}), live=False))


def test_a_run_that_is_over_had_asked(subtests: pytest.Subtests) -> None:
    for kind in ASKS:
        with subtests.test(kind=kind):
            ended = run_of(asked(kind=kind))
            assert ASKS[kind] in words(run_html(ended))  # it goes on
            ended.mark_interrupted()
            for html in (run_html(ended), page_html(ended)):
                assert f"{ASKED[kind]} Which?" in words(html) and ASKS[kind] not in words(html)
            assert "It had asked: Which?" in run_text(ended)


def test_a_live_card_asks_while_the_run_waits() -> None:
    card = LiveCard()
    for event in run_of(asked()).events:
        card.take(event)
    (one,) = card.whole()["rounds"]
    assert "The agent asks you Which?" in words(one["html"]["question:q1"]) and "<textarea" in one["html"]["question:q1"]


def test_an_open_question_stands_where_no_live_card_can_be() -> None:
    html = running_html(run_of(asked("Which <b>way</b>?", {"enum": ["left", "right"]})))
    assert "Which &lt;b&gt;way&lt;/b&gt;?" in html and "left, right" in html
    check_is_harmless(html)
