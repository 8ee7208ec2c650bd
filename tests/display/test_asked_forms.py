"""Questions with a form or an address, and who asks, in every form in which a run is shown."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from asserted_sentences import Snapshot
from hostile import BREAKS, SCRIPTS, check_is_harmless
from shown_words import words_in
from some_questions import CANCELLED, PERSON, answered, asked, run_of

from agentnb.core.questions import DONE, AskedQuestion, WaitingOnUser
from agentnb.display.card.text import run_text
from agentnb.display.form import Form
from agentnb.display.parts.questions.question import question_html
from agentnb.display.parts.questions.schema_form import form_html

URL = "https://accounts.example.org/connect?state=a%20b&next=1"


def buttons(html: str) -> list[str]:
    return [words_in(match) for match in re.findall(r"<(?:button|a) .*?</(?:button|a)>", html)]


def question(schema: dict[str, Any], kind: Any = "elicitation", **fields: str) -> WaitingOnUser:
    return WaitingOnUser(kind, "Which?", schema, "q1", **fields)


def shown(question: WaitingOnUser, *, live: bool = True) -> str:
    return question_html(AskedQuestion(question=question, round=0), Form(live=live))


def test_form_field_has_label_default_and_limits_by_kind(snapshot: Snapshot) -> None:
    html = form_html(question(PERSON))
    fields = re.findall(r'<div class="agentnb-form-field">(.*?<div class="agentnb-field-error"[^>]*></div>)</div>', html)
    assert [words_in(one) for one in fields] == snapshot
    starts = {name: value for value, name in re.findall(r'<input [^>]*value="([^"]*)" [^>]*name="(\d+)"', html)}
    assert (starts["2"], starts["3"]) == ("2026-07-28", "2")
    assert re.findall(r'<option value="(?:true|false)"[^>]*selected>(\w+)', html) == ["no"]
    assert [unescape(one) for one in re.findall(r'type="checkbox" name="5" value="([^"]*)"', html)] == [
        '"breakfast"',
        '"dinner"',
    ]
    assert re.findall(r'name="(\d+)\.empty"', html) == ["7"], "only an optional text that may be empty has the mark"
    assert buttons(shown(question(PERSON))) == ["Answer", "Decline", "Cancel"]


def test_every_question_except_approvals_can_be_declined_or_cancelled(subtests: pytest.Subtests) -> None:
    many = {"enum": [str(number) for number in range(30)]}
    for name, schema in {"text": {"type": "string"}, "few": {"enum": ["a"]}, "many": many, "form": PERSON, "json": {}}.items():
        for kind in ("elicitation", "plan_review", "human_step"):
            with subtests.test(name, kind=kind):
                assert buttons(shown(question(schema, kind)))[-2:] == ["Decline", "Cancel"]


def test_title_names_the_asker(subtests: pytest.Subtests) -> None:
    cases = {
        ("elicitation", "book_hotel"): ("book_hotel asks you", "book_hotel asked you", "book_hotel asks: Which?"),
        ("elicitation", "MCP server clock"): (
            "MCP server clock asks you",
            "MCP server clock asked you",
            "MCP server clock asks:",
        ),
        ("elicitation", "ask_person"): ("The agent asks you", "It asked you", "It asks: Which?"),
        ("elicitation", ""): ("The agent asks you", "It asked you", "It asks: Which?"),
        ("elicitation", "a\nIt asked: b\u202e"): (
            "a It asked: b⟨U+202E⟩ asks you",
            "a It asked: b⟨U+202E⟩ asked",
            "a It asked: b⟨U",
        ),
        ("human_step", "review"): ("This step is yours: review", "This step was yours: review", "review asks: Which?"),
        ("plan_review", "planner"): ("planner asks you: may this plan run?", "planner asked you whether", "planner asks:"),
        ("approval", "bash"): ("The agent asks for your approval", "It asked for your approval", "It asks: Which?"),
    }
    for (kind, name), (open_title, closed_title, line) in cases.items():
        with subtests.test(kind, name=name):
            fact = asked(kind=kind, asked_by=name)
            assert words_in(shown(fact[1]["question"])).startswith(open_title)
            closed = AskedQuestion(question=fact[1]["question"], round=0, outcome="cancelled")
            assert words_in(question_html(closed, Form())).startswith(closed_title)
            assert line in run_text(run_of(fact))


def test_address_is_text_and_opens_only_on_click(subtests: pytest.Subtests) -> None:
    html = shown(question(DONE, url=URL))
    assert buttons(html) == ["Open accounts.example.org", "Done", "Decline", "Cancel"]
    (link,) = re.findall("<a [^>]*>", html)
    assert f'href="{URL.replace("&", "&amp;")}"' in link
    assert 'target="_blank"' in link and 'rel="noopener noreferrer"' in link and 'referrerpolicy="no-referrer"' in link
    assert not re.search(r"<(img|iframe|script|link|object|embed)|\ssrc=", html), "nothing is fetched before the click"
    for facts in ([], [answered("done")], [CANCELLED]):
        text = run_text(run_of(asked(schema=DONE, url=URL, asked_by="connect"), *facts))
        assert "Host: accounts.example.org" in text and f"Address: {URL}" in text
    for outcome, live in (("open", False), ("answered", True), ("declined", True)):
        with subtests.test(outcome, live=live):
            whole = question_html(AskedQuestion(question=question(DONE, url=URL), round=0, outcome=outcome), Form(live=live))  # type: ignore[arg-type]
            assert URL in words_in(whole) and "accounts.example.org " in words_in(whole) and "href" not in whole


def test_non_ascii_host_is_also_shown_in_ascii(subtests: pytest.Subtests) -> None:
    for url, expected, opened in (
        ("https://münchen.de/ä", "münchen.de (xn--mnchen-3ya.de) https://münchen.de/ä", "https://xn--mnchen-3ya.de/ä"),
        ("https://\u0430pple.com/", "\u0430pple.com (xn--pple-43d.com)", "https://xn--pple-43d.com/"),
        ("https://a.b/\u202etxt", "a.b https://a.b/⟨U+202E⟩txt", "https://a.b/"),
    ):
        with subtests.test(url):
            html = shown(question(DONE, url=url))
            assert expected in words_in(html) and f'href="{opened}' in html


def test_unsafe_address_in_a_log_is_not_a_link(subtests: pytest.Subtests) -> None:
    for url in ("javascript:alert(1)", "https://a@b.c", 'https://x"><script>', "data:text/html,x"):
        with subtests.test(url):
            html = shown(question(DONE, url=url))
            assert "<a " not in html and buttons(html) == ["Done", "Decline", "Cancel"] and url in words_in(html)


def test_form_fields_askers_and_addresses_never_become_markup(subtests: pytest.Subtests) -> None:
    for text in [sample.text[:1_000] for sample in (*SCRIPTS, *BREAKS)]:
        with subtests.test(text[:60]):
            field = {"type": "string", "title": text, "description": text, "pattern": text, "format": text, "default": text}
            several = {"type": "array", "items": {"enum": [text, "b"], "enumNames": [text, text]}, "title": text}
            schema = {"type": "object", "properties": {text[:90] or "a": field, "b": several, "c": {"enum": [text]}}}
            for live in (True, False):
                check_is_harmless(shown(question(schema, asked_by=text), live=live))
                check_is_harmless(shown(question(DONE, url=text or "a", asked_by=text), live=live))
