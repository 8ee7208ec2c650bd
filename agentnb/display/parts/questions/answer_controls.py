"""The buttons and fields for answering a question in a live card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from agentnb.core.questions import MAX_CHOICES, WaitingOnUser, answer_form, choice_in_words
from agentnb.core.run.approvals import ALWAYS, APPROVE, DENY
from agentnb.display.markup import NOTHING, Html, fold_tag, tag, words
from agentnb.display.parts.questions.address_view import link_html
from agentnb.display.parts.questions.call_view import unread_note
from agentnb.display.parts.questions.later_calls import later_calls_html
from agentnb.display.parts.questions.schema_form import EDIT_FORM, form_html
from agentnb.display.texts.question_labels import (
    CANCEL,
    CANCEL_TITLE,
    DECLINE,
    DECLINE_TITLE,
    LATER,
    LATER_TITLE,
    address_of,
    approving_choices,
)
from agentnb.display.texts.visible_text import visible
from agentnb.runtime.questions.question_forms import question_form

CANCEL_QUESTION = "cancel"
"""The action that closes a question without deciding."""
MAX_OF_A_CHOICE = 120


def answer_controls(question: WaitingOnUser, *, may_wait: bool) -> list[Html]:
    """Return the controls for an open question: buttons, a form or a field. ``may_wait``: whether it can be left open."""
    form = answer_form(question.schema)
    if question.kind == "approval" and DENY in form.choices and form.has_others:
        return approval_controls(question, may_wait=may_wait, may_edit=question.about is not None)
    others = _without_answer(question, may_wait=may_wait)
    if question.url:
        done = [_button(question, choice, choice_in_words(choice).capitalize()) for choice in form.choices]
        return [tag("div", "buttons", _link(question), *done, *others)]
    if form.choices and len(form.choices) <= MAX_CHOICES:
        buttons = [_button(question, choice) for choice in form.choices]
        answers = tag("div", "buttons", *buttons, *others)
        return [answers, _say(question, _field(question))] if form.has_others else [answers]
    if question_form(question) is not None:
        return [form_html(question, others)]
    field = _select(form.choices) if form.choices else _field(question)
    return [_say(question, field), tag("div", "buttons", *others)]


def _without_answer(question: WaitingOnUser, *, may_wait: bool) -> list[Html]:
    """Return the buttons for not answering. An approval has none, as it has a button of its own for denial."""
    no_answer = [(DECLINE, DECLINE_TITLE, "decline"), (CANCEL, CANCEL_TITLE, CANCEL_QUESTION)]
    buttons = [] if question.kind == "approval" else [_quiet_button(question, *choice) for choice in no_answer]
    return [*buttons, *([_later(question)] if may_wait else [])]


def _link(question: WaitingOnUser) -> Html:
    """Return the link for the person to open; empty if the address is unusable."""
    address = address_of(question)
    return NOTHING if address is None else link_html(address, "button primary", f"Open {visible(address.ascii_host)}")


def approval_controls(question: WaitingOnUser, *, may_wait: bool, may_edit: bool = False) -> list[Html]:
    """Return the answers to the question whether a call or a draft may run, in one row that stays in view.

    Anything that needs more than a click opens in a fold next to the row.
    """
    note = unread_note(question)
    edit, reject, always = (f"{kind}:{question.id}" for kind in (EDIT_FORM, "reject", ALWAYS))
    later = later_calls_html(question, note)
    approving = [
        _button(question, choice, "Approve" if choice == APPROVE else "", note, is_first=not position)
        for position, choice in enumerate(approving_choices(question))
    ]
    row = tag(
        "div",
        "buttons",
        *approving,
        _opener(reject, "Reject…"),
        _opener(edit, "Edit") if may_edit else NOTHING,
        _later(question) if may_wait else NOTHING,
        _opener(always, "Also allow later calls", "more") if later else NOTHING,
    )
    answers = tag("div", "answers", row, _panel(reject, _reject(question)), _panel(always, later) if later else NOTHING)
    container = tag("div", "", data_fill=edit)
    return [*([_panel(edit, container, data_ask=EDIT_FORM, data_round="0")] if may_edit else []), answers]


def _opener(key: str, label: str, look: str = "") -> Html:
    """Return the button that opens and closes a fold."""
    return tag("button", f"button {look}", label, type="button", aria_expanded="false", data_opens=key, data_key=f"open:{key}")


def _panel(key: str, body: Html, **about: str) -> Html:
    """Return a fold that a button in the row opens; only then is its content requested from the kernel."""
    return fold_tag("panel", "", "", body, data_fold=key, **about)


def _reject(question: WaitingOnUser) -> Html:
    label, key = "Reason, for the model (may be empty)", f"reason:{question.id}"
    attributes = {"aria_label": label, "placeholder": label, "data_key": key, "autocomplete": "off"}
    reason = tag("input", "field", name_="text", type="text", **attributes)
    button = tag("button", "button", "Reject", type="submit")
    return tag("form", "say", reason, button, _error(), data_do="reject", data_id=question.id)


def _say(question: WaitingOnUser, field: Html) -> Html:
    send = tag("button", "button primary", "Answer", type="submit")
    return tag("form", "say", field, send, _error(), data_do="answer", data_id=question.id)


def _error() -> Html:
    """Return the element in which the page says why an answer was refused. The typed text is kept."""
    return tag("div", "field-error", role="alert")


def _select(choices: Sequence[Any]) -> Html:
    """Return a menu for many choices. Each is sent as JSON, so that it is read as exactly that choice, whatever its text."""
    label = "Your answer"
    options = [tag("option", "", words(choice_in_words(choice), MAX_OF_A_CHOICE), value=_json(choice)) for choice in choices]
    return tag("select", "field", tag("option", "", "Choose an answer", value=""), *options, name_="text", aria_label=label)


def _field(question: WaitingOnUser) -> Html:
    kind = answer_form(question.schema).kind
    if kind == "number" and question.kind != "approval":
        return _number_field(question.schema)
    label = "Your answer, as JSON" if kind == "json" else "Your answer"
    return tag("textarea", "field", name_="text", rows="2", aria_label=label, placeholder=label)


def _number_field(schema: dict[str, Any]) -> Html:
    """Return a number field with the limits that the schema sets."""
    whole = schema["type"] == "integer"
    label = "Your answer, a whole number" if whole else "Your answer, a number"
    limits = {name: _limit(schema.get(key)) for name, key in (("min", "minimum"), ("max", "maximum"))}
    step = "1" if whole else "any"
    return tag("input", "field", name_="text", type="number", step=step, aria_label=label, placeholder=label, **limits)


def _limit(value: Any) -> str | None:
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _button(question: WaitingOnUser, choice: Any, label: str = "", note: Html = NOTHING, *, is_first: bool = False) -> Html:
    if not label:
        label = choice_in_words(choice)
        label = label.capitalize() if isinstance(choice, bool) else label
    look = "button primary" if is_first else "button"
    attributes = {"data_do": "choose", "data_id": question.id, "data_value": _json(choice)}
    return tag("button", look, words(label, MAX_OF_A_CHOICE), note, type="button", **attributes)


def _json(choice: Any) -> str:
    return msgspec.json.encode(choice).decode()


def _later(question: WaitingOnUser) -> Html:
    return _quiet_button(question, LATER, LATER_TITLE, "suspend")


def _quiet_button(question: WaitingOnUser, label: str, title: str, do: str) -> Html:
    return tag("button", "button quiet", label, type="button", title=title, data_do=do, data_id=question.id)
