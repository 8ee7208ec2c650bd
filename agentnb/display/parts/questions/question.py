"""A question to the person, as shown in a card: open, or with its answer."""

from __future__ import annotations

from collections.abc import Iterable

from agentnb.core.questions import AskedQuestion, JudgedCall, WaitingOnUser
from agentnb.core.run.approvals import decision
from agentnb.display.form import Form
from agentnb.display.markup import NOTHING, Html, fold_tag, join_html, tag, words
from agentnb.display.parts.questions.address_view import address_html
from agentnb.display.parts.questions.answer_controls import answer_controls
from agentnb.display.parts.questions.call_view import MAX_OF_A_QUESTION, call_html
from agentnb.display.texts.judged_call import call_title, question_text
from agentnb.display.texts.question_labels import (
    ASKED,
    ASKS,
    HAD_ASKED,
    address_of,
    answer_parts,
    answer_told,
    author,
    decision_pieces,
    listed_choices,
    title_of,
)
from agentnb.display.texts.visible_text import visible

MAX_LISTED = 2_000
"""Maximum characters of the choices in a saved card."""
MAX_OF_A_CLOSED_ONE = 2_000
"""Maximum characters of a closed question and its answer; a page of its own shows everything."""
MAX_LISTED_OF_A_CLOSED_ONE = 300


def question_html(asked: AskedQuestion, form: Form, *, may_wait: bool = False) -> Html:
    """Return the question: while it is open, with buttons, a form or a field for answering it; after that, with its answer.

    A saved card has only the question and the choices as text. ``may_wait``: whether the run can be suspended until answered.
    """
    if asked.outcome != "open":
        return _closed_html(asked, None if form.whole else MAX_OF_A_CLOSED_ONE)
    question = asked.question
    title = title_of(question, HAD_ASKED if form.over else ASKS)
    head = tag("div", "asked", title if question.about is None or form.over else call_title(question.about))
    body = tag("div", "question-text", words(question_text(question), MAX_OF_A_QUESTION))
    is_asked = form.live and not form.over
    call = call_html(question, asked.round, live=is_asked, whole=form.whole)
    answers = answer_controls(question, may_wait=may_wait) if is_asked else [_listed_html(question, MAX_LISTED)]
    return tag(
        "div", "question", head, body, _address(question), *call, *answers, role="group", aria_label="A question for you"
    )


def question_pieces(asked: Iterable[AskedQuestion], form: Form) -> dict[str, Html]:
    """Return the questions as pieces of a card, by key."""
    return {f"question:{asked_question.question.id}": question_html(asked_question, form) for asked_question in asked}


def _closed_html(asked: AskedQuestion, most: int | None) -> Html:
    """Return a closed question with its answer, or the reason why it has none. If it concerns a call, the call is
    folded below that line.
    """
    question = asked.question
    body = tag("div", "question-asked", words(question_text(question), most))
    if question.kind == "approval" and question.about is not None:
        return fold_tag("question-closed", "", _decision(asked, question.about, most), body)
    head = tag("div", "quiet", title_of(question, ASKED))
    listed = _listed_html(question, MAX_LISTED_OF_A_CLOSED_ONE)
    parts = [head, body, _address(question), listed, _answer(asked, most)]
    return tag("div", "question-closed", *parts, role="group", aria_label="A question for you")


def _answer(asked: AskedQuestion, most: int | None) -> Html:
    if asked.outcome == "answered":
        who, answer = answer_parts(asked)
        return tag("div", "said", tag("b", "", who), words(answer, most))
    return tag("div", "quiet", answer_told(asked))


def _decision(asked: AskedQuestion, about: JudgedCall, most: int | None) -> Html:
    """Return the decision about a call on one line, with later calls that it allows shown as code."""
    if asked.outcome != "answered":
        return join_html(answer_told(asked))
    before, calls, after = decision_pieces(asked.question, about, asked.answer)
    kind, mark = ("good", "✓") if decision(asked.answer).approved else ("warn", "✗")
    code = tag("code", "", words(calls, most)) if calls else NOTHING
    sign = tag("span", kind, mark, aria_hidden="true")
    return join_html(sign, words(f" {author(asked)} {before}", most), code, words(after, most))


def _address(question: WaitingOnUser) -> Html:
    """Return, as text, the host and full address that the question asks the person to open. Nothing here opens it."""
    if not question.url:
        return NOTHING
    return address_html(address_of(question), visible(question.url))


def _listed_html(question: WaitingOnUser, most: int) -> Html:
    choices = listed_choices(question)
    return tag("div", "quiet", "Answers: ", words(choices, most)) if choices else NOTHING
