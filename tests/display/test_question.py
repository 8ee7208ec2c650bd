"""A question as it is asked in a card."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from hostile import BREAKS, SCRIPTS, check_is_harmless
from shown_words import words_in
from some_questions import CANCELLED, DECLINED, WITHDRAWN, answered, asked, asking_call, declined_by, run_of

from agentnb.core.log import events as e
from agentnb.core.messages import ToolCall
from agentnb.core.questions import MAX_CHOICES, AskedQuestion, WaitingOnUser, answer_in_words
from agentnb.core.run.approvals import approval_schema, judged_call
from agentnb.detect.run import Run
from agentnb.display.card.compact import compact_html
from agentnb.display.card.html import run_html, running_html
from agentnb.display.card.live_card import LiveCard
from agentnb.display.card.many_runs import ManyRuns
from agentnb.display.card.run_page import page_html
from agentnb.display.card.text import run_text
from agentnb.display.form import Form
from agentnb.display.parts.questions.call_view import MAX_OF_A_QUESTION, MAX_UNFOLDED_LINES, call_part_html
from agentnb.display.parts.questions.question import question_html
from agentnb.display.texts.question_labels import ASKS, HAD_ASKED

FEW = ["red", 1, None]
ODD = [1, True, None, " a ", "B\n\tb", "\x1b[2J", '"quoted"', {"a": [1]}, "<b>"]
MANY = [*[f"colour {number}" for number in range(MAX_CHOICES)], *ODD]


def approval(arguments: Any, message: str = "May shell run?") -> AskedQuestion:
    about = judged_call(ToolCall("shell", arguments), "ask")
    return AskedQuestion(question=WaitingOnUser("approval", message, approval_schema(("always",)), "q1", "c1", about), round=3)


def test_short_call_is_shown_in_full_with_a_plain_button() -> None:
    html = question_html(approval({"command": f"ls{' ' * 320}; rm"}), Form(live=True))
    assert "ls⟨320 spaces⟩; rm" in words_in(html) and "question-rest" not in html and "not shown" not in html


def test_long_call_is_folded_and_approve_states_the_hidden_amount() -> None:
    asks = approval({"command": "ls\n" + "<b>echo</b>  \x1b[2J\n" * 2_500 + "rm -rf /"})
    html, whole = question_html(asks, Form(live=True)), call_part_html(asks.question, "arguments")
    count = len(words_kept(whole))
    assert count > 50_000 and len(html) < 5_000, "the card keeps its size"
    fold = re.search(r'<details[^>]*data-fold="question:q1"[^>]*data-ask="question"[^>]*data-round="3"', html)
    assert fold and f"Show all {count:,} characters" in html and 'data-fill="question:q1"' in html
    buttons = [words_in(one) for one in re.findall("<button.*?</button>", html)]
    unfolded = words_kept(re.findall("<pre.*?</pre>", html, re.DOTALL)[0]).removesuffix("…")
    assert unfolded.count("\n") == MAX_UNFOLDED_LINES - 1 and words_kept(whole).startswith(unfolded)
    rest = words_kept(whole).removeprefix(unfolded).strip("\n")
    note = f"({len(rest.splitlines()):,} lines not shown)"
    assert buttons[:3] == [f"Approve {note}", f"always {note}", "Reject…"]
    assert "rm -rf /" in whole and "<b>" not in whole and "\x1b" not in whole and "&lt;b&gt;echo" in whole


def test_saved_card_truncates_a_long_call_at_a_limit() -> None:
    html = question_html(approval({"command": "x" * 50_000}), Form())
    assert "<details" in html and len(html) < 2 * MAX_OF_A_QUESTION and "more characters" in html
    assert len(question_html(approval({"command": "x" * 50_000}), Form(whole=True))) > 50_000


def words_kept(html: str) -> str:
    return unescape(re.sub(r"<[^>]+>", "", html))


def live_card_of(run: Run) -> LiveCard:
    card = LiveCard()
    for event in run.events:
        card.take(event)
    return card


def question(schema: dict[str, Any]) -> AskedQuestion:
    return AskedQuestion(question=WaitingOnUser("elicitation", "Which?", schema, "q1"), round=0)


@pytest.mark.req("KX.5")
def test_few_choices_are_shown_as_buttons() -> None:
    html = question_html(question({"enum": FEW}), Form(live=True))
    assert [unescape(one) for one in re.findall('data-value="([^"]*)"', html)] == ['"red"', "1", "null"]
    assert "<select" not in html and "<textarea" not in html
    of_two = question_html(question({"type": "boolean"}), Form(live=True))
    assert [words_in(one) for one in re.findall("<button.*?</button>", of_two)] == ["Yes", "No", "Decline", "Cancel"]


@pytest.mark.req("KX.5")
def test_many_choices_are_shown_in_a_readable_select_field() -> None:
    html = question_html(question({"enum": MANY}), Form(live=True))
    assert re.search('<form [^>]*data-do="answer" data-id="q1"><select [^>]*name="text"', html) and "<textarea" not in html
    options = re.findall('<option value="([^"]*)">(.*?)</option>', html, re.DOTALL)
    assert options[0] == ("", "Choose an answer")  # nothing is sent before the person has chosen
    assert [answer_in_words({"enum": MANY}, unescape(value)) for value, _ in options[1:]] == MANY
    assert [unescape(label) for _, label in options[1:4]] == MANY[:3]


@pytest.mark.req("KX.5")
def test_question_without_choices_has_a_text_field() -> None:
    assert 'aria-label="Your answer"' in question_html(question({"type": "string"}), Form(live=True))
    assert 'aria-label="Your answer, as JSON"' in question_html(question({"type": "object"}), Form(live=True))
    assert 'aria-label="Your answer"' in question_html(question({"enum": "none"}), Form(live=True))


@pytest.mark.req("KX.5")
def test_number_question_has_a_number_field_with_its_limits(subtests: pytest.Subtests) -> None:
    for schema, attributes in (
        ({"type": "integer"}, 'step="1" aria-label="Your answer, a whole number"'),
        ({"type": "number"}, 'step="any" aria-label="Your answer, a number"'),
        ({"type": "integer", "minimum": 0, "maximum": 9}, 'min="0" max="9"'),
        ({"type": "integer", "minimum": "<b>", "maximum": True}, 'placeholder="Your answer, a whole number">'),
    ):
        with subtests.test(schema=schema):
            html = question_html(question(schema), Form(live=True))
            assert 'type="number"' in html and attributes in html and "<textarea" not in html
    for schema in ({"type": ["integer", "null"]}, {"type": "integer", "enum": list(range(20))}):
        with subtests.test(schema=schema):
            assert 'type="number"' not in question_html(question(schema), Form(live=True))


@pytest.mark.parametrize("choices", [FEW, MANY])
def test_saved_card_lists_the_choices_as_text(choices: list[Any]) -> None:
    told = words_in(question_html(question({"enum": choices}), Form()))
    assert told.startswith(f"The agent asks you Which? Answers: {choices[0]}, ") and ", null" in told
    assert not re.search("<(button|form|select|textarea)", question_html(question({"enum": choices}), Form()))


def test_question_of_an_ended_run_is_in_the_past_tense(subtests: pytest.Subtests) -> None:
    for kind in ASKS:
        with subtests.test(kind=kind):
            ended = run_of(asked(kind=kind))
            assert ASKS[kind] in words_in(run_html(ended))  # it goes on
            ended.mark_interrupted()
            for html in (run_html(ended), page_html(ended)):
                assert f"{HAD_ASKED[kind]} Which?" in words_in(html) and ASKS[kind] not in words_in(html)
            assert "It had asked: Which?" in run_text(ended)


CLOSED = {
    "answered": (answered("Vienna"), "You: Vienna"),
    "answered with data": (answered({"city": ["Vienna"]}), 'You: {"city":["Vienna"]}'),
    "answered with yes": (answered(True), "You: yes"),
    "declined": (DECLINED, "You declined to answer"),
    "cancelled": (CANCELLED, "You closed it without deciding"),
    "declined by a program": (declined_by("program"), "No answer from the function that answers for you"),
    "declined by nobody": (declined_by("nobody"), "Nobody could answer here"),
    "withdrawn": (WITHDRAWN, "Withdrawn before it was answered"),
}


def test_answered_question_stays_visible_with_its_answer_in_every_form(subtests: pytest.Subtests) -> None:
    for name, (closed, told) in CLOSED.items():
        for where, facts in {
            "in a call": asking_call(asked(schema={"enum": ["Vienna", "Graz"]}, call_id="c1"), closed),
            "in a round": [asked(schema={"enum": ["Vienna", "Graz"]}), closed],
        }.items():
            run = run_of(*facts)
            (live,) = live_card_of(run).whole()["rounds"]
            forms = {"live": "".join(live["html"].values()), "plain": running_html(run)}
            run.mark_interrupted()
            for form, html in (forms | {"saved": run_html(run), "page": page_html(run)}).items():
                with subtests.test(name, where=where, form=form):
                    assert f"It asked you Which? Answers: Vienna, Graz {told}" in words_in(html)
                    assert not re.search("<(button|form|select|textarea)", html)
            with subtests.test(name, where=where, form="text"):
                lines = [line.strip() for line in run_text(run).splitlines()]
                assert lines[lines.index("It asked: Which? (Vienna, Graz)") + 1] == told


def test_call_waits_while_its_question_is_open() -> None:
    run = run_of(*asking_call(asked(call_id="c1")))
    (live,) = live_card_of(run).whole()["rounds"]
    cards = ["".join(live["html"].values()), running_html(run), compact_html(run)]
    for shown in (*map(words_in, cards), run_text(run)):
        assert "… waiting" in shown and "… running" not in shown
    many = ManyRuns()
    many.add("a", run)
    assert "agentnb-asking" in many.html() and "1 waiting for you" in many.text


def test_run_list_shows_the_answer() -> None:
    run = run_of(*asking_call(asked(call_id="c1"), answered("Vienna")))
    assert "ask_person … running (You: Vienna)" in words_in(compact_html(run))


def test_call_that_asks_twice_shows_both_questions() -> None:
    run = run_of(*asking_call(asked("First?", call_id="c1"), asked("Second?", id="q2", call_id="c1"), answered("1")))
    (shown,) = live_card_of(run).whole()["rounds"]
    html = words_in(shown["html"]["call:0"])
    assert "It asked you First? You: 1 The agent asks you Second?" in html


def test_answer_replaces_the_question_in_the_live_card() -> None:
    events = run_of(*asking_call(asked(call_id="c1"), answered("Vienna"))).events
    card = LiveCard()
    for event in events[:-1]:
        card.take(event)
    assert "<textarea" in card.whole()["rounds"][0]["html"]["call:0"]
    card.take(events[-1])
    frame = card.frame()
    assert frame is not None
    (changed,) = frame["rounds"]
    assert "<textarea" not in changed["html"]["call:0"] and "You: Vienna" in words_in(changed["html"]["call:0"])


def test_answer_to_an_earlier_question_appears_in_its_round() -> None:
    ended = (e.RoundFinished, {"index": 0, "status": "success"})
    events = run_of(asked(), ended, (e.RoundStarted, {"index": 1, "reason": "said"}), answered("Vienna")).events
    card = LiveCard()
    for event in events[:-1]:
        card.take(event)
    card.frame()
    card.take(events[-1])
    frame = card.frame()
    assert frame is not None
    assert "You: Vienna" in words_in(next(one for one in frame["rounds"] if one["index"] == 0)["html"]["question:q1"])


def test_questions_and_answers_never_become_markup(subtests: pytest.Subtests) -> None:
    for text in [one.text[:1_000] for one in (*SCRIPTS, *BREAKS)]:
        with subtests.test(text[:60]):
            run = run_of(asked(text, {"enum": [text]}), answered({text: text}), asked(text, id="q2"), answered(text, "q2"))
            for html in (run_html(run), live_card_of(run).whole()["rounds"][0]["html"]["question:q1"]):
                check_is_harmless(html)


def test_question_text_cannot_fake_an_answer() -> None:
    run = run_of(asked("Delete it?\n       You: yes", {"type": "boolean"}), answered(False))
    assert run_text(run).count("\n       You: ") == 1


def test_long_questions_and_answers_are_truncated_except_on_pages() -> None:
    run = run_of(asked("why " * 2_000 + "END1?"), answered("because " * 2_000 + "END2."))
    assert "END1?" not in run_html(run) and "END2." not in run_html(run)
    assert "END1?" in page_html(run) and "END2." in page_html(run)


def test_live_card_shows_the_question_while_the_run_waits() -> None:
    (one,) = live_card_of(run_of(asked())).whole()["rounds"]
    assert "The agent asks you Which?" in words_in(one["html"]["question:q1"]) and "<textarea" in one["html"]["question:q1"]


def test_open_question_is_shown_even_without_a_live_card() -> None:
    html = running_html(run_of(asked("Which <b>way</b>?", {"enum": ["left", "right"]})))
    assert "Which &lt;b&gt;way&lt;/b&gt;?" in html and "left, right" in html
    check_is_harmless(html)


TITLES = {
    "approval": ("The agent asks for your approval", "It had asked for your approval", "It asked for your approval"),
    "elicitation": ("The agent asks you", "It had asked you", "It asked you"),
    "plan_review": (
        "The agent asks you: may this plan run?",
        "It had asked you whether this plan may run",
        "It asked you whether this plan may run",
    ),
    "human_step": ("This step is yours", "This step was yours", "This step was yours"),
}


def test_question_title_depends_on_kind_and_state(subtests: pytest.Subtests) -> None:
    for kind, titles in TITLES.items():
        with subtests.test(kind):
            (waits,), (closed,) = run_of(asked(kind=kind)).questions, run_of(asked(kind=kind), answered("yes")).questions
            forms = [
                question_html(waits, Form()),
                question_html(waits, Form(over=True)),
                question_html(closed, Form()),
            ]
            for html, title in zip(forms, titles, strict=True):
                assert words_in(html).startswith(f"{title} Which?")
