"""A question to the person, as a card shows it: open, or with its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from agentnb.core.questions import MAX_CHOICES, AskedQuestion, WaitingOnUser, answer_form, choice_in_words
from agentnb.core.run.approvals import DENY
from agentnb.display.markup import NOTHING, Html, joined, tag, words
from agentnb.display.texts.judged_call import call_text, question_text
from agentnb.display.texts.question_labels import ASKED, ASKS, HAD_ASKED, LATER, LATER_TITLE, answer_told, author

MAX_OF_A_QUESTION = 10_000
MAX_UNFOLDED_CHARACTERS, MAX_UNFOLDED_LINES = 600, 12
"""The beginning of the call that a question is about, which is shown without opening the fold that holds the rest."""
MAX_OF_A_CALL = 2_000_000
"""Characters of the call that the fold of a live card gets from the kernel when it is opened."""
FILL = "question"
"""The action that fills this fold, and the beginning of its key."""
MAX_OF_A_CHOICE = 120
MAX_LISTED = 2_000
"""Characters of the choices in a saved card."""
MAX_OF_A_CLOSED_ONE = 2_000
"""Characters of a closed question, and of its answer; a page of its own has all."""
MAX_LISTED_OF_A_CLOSED_ONE = 300


def question_html(asked: AskedQuestion, *, live: bool, over: bool = False, whole: bool = False, may_wait: bool = False) -> Html:
    """Return the question: while it is open with buttons for its choices, or a field for an answer; else with its answer.

    A saved card has only the question, with the choices in words. ``over``: the run has ended and no longer awaits an answer;
    ``whole``: nothing of a closed question is cut; ``may_wait``: the run can be suspended until there is an answer.
    """
    if asked.outcome != "open":
        return _closed(asked, None if whole else MAX_OF_A_CLOSED_ONE)
    question = asked.question
    head = tag("div", "asked", _title(question, HAD_ASKED if over else ASKS))
    body = tag("div", "question-text", words(question_text(question), MAX_OF_A_QUESTION))
    call = call_text(question)
    shown = _call(question, call, asked.round, live=live and not over, whole=whole)
    answers = _answers(question, may_wait, call) if live and not over else [_listed(question, MAX_LISTED)]
    return tag("div", "question", head, body, *shown, *answers, role="group", aria_label="A question to you")


def _call(question: WaitingOnUser, call: str, index: int, *, live: bool, whole: bool) -> list[Html]:
    """Return the whole call that is asked about; if it is long, its beginning, and all of it in a fold."""
    if not call:
        return []
    beginning = _beginning(call)
    if beginning == call or whole:
        return [tag("pre", "question-call", words(call))]
    start = tag("pre", "question-call", words(beginning), "…")
    summary, key = tag("summary", "", f"Show all {len(call):,} characters"), f"{FILL}:{question.id}"
    if live:
        place = tag("div", "", data_fill=key)
        return [start, tag("details", "question-rest", summary, place, data_fold=key, data_ask=FILL, data_round=str(index))]
    return [start, tag("details", "question-rest", summary, tag("pre", "question-call", words(call, MAX_OF_A_QUESTION)))]


def whole_call_html(question: WaitingOnUser) -> Html:
    """Return the call that a question is about, for its fold."""
    return tag("pre", "question-call", words(call_text(question), MAX_OF_A_CALL))


def _beginning(call: str) -> str:
    """Return the part of the call that is shown without opening its fold; all of a short one."""
    return "\n".join(call[:MAX_UNFOLDED_CHARACTERS].split("\n")[:MAX_UNFOLDED_LINES])


def _unread_note(call: str) -> Html:
    """Return the note on an approving button about the part not opened; opening the fold hides its first half."""
    left = len(call) - len(_beginning(call))
    if not left:
        return NOTHING
    folded = tag("span", "unopened", f" ({left:,} characters not opened)")
    unsent = len(call) - MAX_OF_A_CALL
    return joined(folded, tag("span", "", f" ({unsent:,} characters only in the log)")) if unsent > 0 else folded


def _closed(asked: AskedQuestion, most: int | None) -> Html:
    """Return a closed question with its answer, or why it has none."""
    question = asked.question
    head = tag("div", "quiet", _title(question, ASKED))
    body = tag("div", "question-asked", words(question_text(question), most))
    listed = _listed(question, MAX_LISTED_OF_A_CLOSED_ONE)
    return tag("div", "question-closed", head, body, listed, _answer(asked, most), role="group", aria_label="A question to you")


def _answer(asked: AskedQuestion, most: int | None) -> Html:
    if asked.outcome == "answered":
        return tag("div", "said", tag("b", "", f"{author(asked)}: "), words(choice_in_words(asked.answer), most))
    return tag("div", "quiet", answer_told(asked))


def _title(question: WaitingOnUser, titles: dict[str, str]) -> str:
    return titles.get(question.kind, titles["elicitation"])


def _listed(question: WaitingOnUser, most: int) -> Html:
    choices = answer_form(question.schema).choices
    if not choices:
        return NOTHING
    return tag("div", "quiet", "To choose from: ", words(", ".join(map(choice_in_words, choices)), most))


def _answers(question: WaitingOnUser, may_wait: bool, call: str) -> list[Html]:
    form = answer_form(question.schema)
    if form.choices and len(form.choices) <= MAX_CHOICES:
        note = _unread_note(call)
        buttons = [
            _button(question, choice, NOTHING if choice == DENY else note, first=not place)
            for place, choice in enumerate(form.choices)
        ]
        if question.kind != "approval":  # where no answer is a denial, which has a button already
            buttons.append(_decline(question))
        if may_wait:
            buttons.append(_later(question))
        answers = tag("div", "buttons", *buttons)
        return [answers, _form(question, _field(question))] if form.has_others else [answers]
    field = _select(form.choices) if form.choices else _field(question)
    return [_form(question, field), tag("div", "buttons", _decline(question))]


def _form(question: WaitingOnUser, field: Html) -> Html:
    send = tag("button", "button primary", "Answer", type="submit")
    error = tag("div", "field-error", role="alert")  # the page puts there why an answer was refused, and keeps what was typed
    return tag("form", "say", field, send, error, data_do="answer", data_id=question.id)


def _select(choices: Sequence[Any]) -> Html:
    """Return a menu of many choices. Each is sent as JSON, so that it is read as exactly this choice, whatever its text."""
    label = "Your answer"
    options = [tag("option", "", words(choice_in_words(one), MAX_OF_A_CHOICE), value=_json(one)) for one in choices]
    return tag("select", "field", tag("option", "", "Choose an answer", value=""), *options, name_="text", aria_label=label)


def _field(question: WaitingOnUser) -> Html:
    kind = answer_form(question.schema).kind
    if kind == "number" and question.kind != "approval":
        return _number_field(question.schema)
    label = "Your answer, as JSON" if kind == "json" else "Your answer"
    if question.kind == "approval":
        label = 'Or: deny: REASON, or as JSON: {"edit": ARGUMENTS}'
    return tag("textarea", "field", name_="text", rows="2", aria_label=label, placeholder=label)


def _number_field(schema: dict[str, Any]) -> Html:
    """Return a field for numbers, with the limits that the schema sets."""
    whole = schema["type"] == "integer"
    label = "Your answer, a whole number" if whole else "Your answer, a number"
    limits = {name: _limit(schema.get(key)) for name, key in (("min", "minimum"), ("max", "maximum"))}
    step = "1" if whole else "any"
    return tag("input", "field", name_="text", type="number", step=step, aria_label=label, placeholder=label, **limits)


def _limit(value: Any) -> str | None:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _button(question: WaitingOnUser, choice: Any, note: Html, *, first: bool) -> Html:
    label = choice_in_words(choice)
    label = label.capitalize() if isinstance(choice, bool) else label
    kind = "button primary" if first else "button"
    about = {"data_do": "choose", "data_id": question.id, "data_value": _json(choice)}
    return tag("button", kind, words(label, MAX_OF_A_CHOICE), note, type="button", **about)


def _json(choice: Any) -> str:
    return msgspec.json.encode(choice).decode()


def _later(question: WaitingOnUser) -> Html:
    return tag("button", "button quiet", LATER, type="button", title=LATER_TITLE, data_do="suspend", data_id=question.id)


def _decline(question: WaitingOnUser) -> Html:
    label = "Decline" if question.kind == "human_step" else "Leave it to the agent"
    return tag("button", "button quiet", label, type="button", data_do="decline", data_id=question.id)
