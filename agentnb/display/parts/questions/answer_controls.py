"""The buttons and fields with which a question is answered in a live card."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from agentnb.core.questions import MAX_CHOICES, GrantOffer, WaitingOnUser, answer_form, choice_in_words
from agentnb.core.run.approvals import ALWAYS, APPROVE, DENY
from agentnb.display.markup import NOTHING, Html, tag, words
from agentnb.display.parts.questions.address_view import link_html
from agentnb.display.parts.questions.call_view import unread_note
from agentnb.display.parts.questions.schema_form import EDIT_FORM, form_html
from agentnb.display.texts.question_labels import (
    CANCEL,
    CANCEL_TITLE,
    DECLINE,
    DECLINE_TITLE,
    LATER,
    LATER_TITLE,
    REACHES,
    address_of,
    approving_choices,
    grant_in_words,
    is_fixed,
)
from agentnb.display.texts.visible_text import visible
from agentnb.runtime.questions.question_forms import question_form

CANCEL_QUESTION = "cancel"
"""The action that closes a question without deciding."""
MAX_OF_A_CHOICE = 120
MAX_RULE = 200
"""Characters of a pattern on a button; its field has all of it."""


def answer_controls(question: WaitingOnUser, *, may_wait: bool) -> list[Html]:
    """Return what answers an open question: buttons for its choices, a form, or a field. ``may_wait``: it can be left open."""
    form = answer_form(question.schema)
    if question.kind == "approval" and DENY in form.choices and form.has_others:
        return [*approval_controls(question, may_wait=may_wait), _edit(question)]
    others = _without_answer(question, may_wait=may_wait)
    if question.url:
        done = [_button(question, choice, choice_in_words(choice).capitalize()) for choice in form.choices]
        return [tag("div", "buttons", _link(question), *done, *others)]
    if form.choices and len(form.choices) <= MAX_CHOICES:
        buttons = [_button(question, choice, is_first=not place) for place, choice in enumerate(form.choices)]
        answers = tag("div", "buttons", *buttons, *others)
        return [answers, _say(question, _field(question))] if form.has_others else [answers]
    if question_form(question) is not None:
        return [form_html(question, others)]
    field = _select(form.choices) if form.choices else _field(question)
    return [_say(question, field), tag("div", "buttons", *others)]


def _without_answer(question: WaitingOnUser, *, may_wait: bool) -> list[Html]:
    """Return the buttons for what may be done instead of answering; no answer to an approval is a denial, which has its own."""
    no_answer = [(DECLINE, DECLINE_TITLE, "decline"), (CANCEL, CANCEL_TITLE, CANCEL_QUESTION)]
    buttons = [] if question.kind == "approval" else [_quiet_button(question, *one) for one in no_answer]
    return [*buttons, *([_later(question)] if may_wait else [])]


def _link(question: WaitingOnUser) -> Html:
    """Return the link that the person opens; nothing for an unusable address."""
    address = address_of(question)
    return NOTHING if address is None else link_html(address, "button primary", f"Open {visible(address.ascii_host)}")


def approval_controls(question: WaitingOnUser, *, may_wait: bool) -> list[Html]:
    """Return the answers to the question whether a call or a draft may run, apart from edits."""
    note = unread_note(question)
    buttons = [
        _button(question, choice, "Approve" if choice == APPROVE else "", note, is_first=not place)
        for place, choice in enumerate(approving_choices(question))
    ]
    buttons += [_later(question)] if may_wait else []
    label, key = "Reason (may be empty)", f"reject:{question.id}"
    about = {"aria_label": label, "placeholder": label, "data_key": key, "autocomplete": "off"}
    reason = tag("input", "field", name_="text", type="text", **about)
    reject = tag("button", "button", "Reject", type="submit")
    return [
        tag("div", "buttons", *buttons),
        _always(question),
        tag("form", "say reject", reject, reason, _error(), data_do="reject", data_id=question.id),
    ]


def _always(question: WaitingOnUser) -> Html:
    """Return the grants that an answer may give, each with the calls it allows and how far it reaches."""
    grants = question.about.grants if question.about is not None else ()
    tool = question.about.tool if question.about is not None else ""
    if not grants:
        return NOTHING
    title = tag("div", "quiet", "Also allow later calls:", unread_note(question))
    plain = [
        _button(
            question, {ALWAYS: one.rule, "reach": one.reach}, f"Always: {grant_in_words(one, tool)}", key=_key(question, one)
        )
        for one in grants
        if is_fixed(one, tool)
    ]
    patterns = dict.fromkeys(one.rule for one in grants if not is_fixed(one, tool))
    forms = [_pattern(question, place, [one for one in grants if one.rule == rule]) for place, rule in enumerate(patterns)]
    buttons = tag("div", "buttons", *plain) if plain else NOTHING
    return tag("div", "always", title, buttons, *forms, role="group", aria_label="Always")


def _pattern(question: WaitingOnUser, place: int, grants: Sequence[GrantOffer]) -> Html:
    """Return the field of a pattern, with a button for each reach that says what is in the field."""
    label = "Calls that match (* matches any text)"
    key = f"rule:{question.id}:{place}"
    field = tag("input", "field form-code", name_="rule", type="text", value=grants[0].rule, data_key=key, autocomplete="off")
    row = tag("label", "form-row", tag("span", "form-label", label), field)
    buttons = [_pattern_button(question, one) for one in grants]
    return tag("form", "pattern", row, tag("div", "buttons", *buttons), _error(), data_do=ALWAYS, data_id=question.id)


def _pattern_button(question: WaitingOnUser, offer: GrantOffer) -> Html:
    rule, reach = tag("code", "", words(offer.rule, MAX_RULE), data_rule=True), f", {REACHES[offer.reach]}"
    about = {"data_reach": offer.reach, "data_key": _key(question, offer)}
    return tag("button", "button", "Always: ", rule, reach, type="submit", **about)


def _key(question: WaitingOnUser, offer: GrantOffer) -> str:
    """Return the name by which the page finds a button again."""
    return f"{ALWAYS}:{question.id}:{offer.reach}:{offer.rule}"


def _edit(question: WaitingOnUser) -> Html:
    """Return the fold with the form of the call's arguments, which is drawn when it is opened."""
    key = f"{EDIT_FORM}:{question.id}"
    summary, place = tag("summary", "button", "Edit the arguments"), tag("div", "", data_fill=key)
    return tag("details", "edit", summary, place, data_fold=key, data_ask=EDIT_FORM, data_round="0")


def _say(question: WaitingOnUser, field: Html) -> Html:
    send = tag("button", "button primary", "Answer", type="submit")
    return tag("form", "say", field, send, _error(), data_do="answer", data_id=question.id)


def _error() -> Html:
    """Return the place where the page says why an answer was refused; it keeps what was typed."""
    return tag("div", "field-error", role="alert")


def _select(choices: Sequence[Any]) -> Html:
    """Return a menu of many choices. Each is sent as JSON, so that it is read as exactly this choice, whatever its text."""
    label = "Your answer"
    options = [tag("option", "", words(choice_in_words(one), MAX_OF_A_CHOICE), value=_json(one)) for one in choices]
    return tag("select", "field", tag("option", "", "Choose an answer", value=""), *options, name_="text", aria_label=label)


def _field(question: WaitingOnUser) -> Html:
    kind = answer_form(question.schema).kind
    if kind == "number" and question.kind != "approval":
        return _number_field(question.schema)
    return _text_field("Your answer, as JSON" if kind == "json" else "Your answer")


def _text_field(label: str) -> Html:
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


def _button(
    question: WaitingOnUser,
    choice: Any,
    label: str = "",
    note: Html = NOTHING,
    *,
    is_first: bool = False,
    key: str | None = None,
) -> Html:
    if not label:
        label = choice_in_words(choice)
        label = label.capitalize() if isinstance(choice, bool) else label
    look = "button primary" if is_first else "button"
    about = {"data_do": "choose", "data_id": question.id, "data_value": _json(choice), "data_key": key}
    return tag("button", look, words(label, MAX_OF_A_CHOICE), note, type="button", **about)


def _json(choice: Any) -> str:
    return msgspec.json.encode(choice).decode()


def _later(question: WaitingOnUser) -> Html:
    return _quiet_button(question, LATER, LATER_TITLE, "suspend")


def _quiet_button(question: WaitingOnUser, label: str, title: str, do: str) -> Html:
    return tag("button", "button quiet", label, type="button", title=title, data_do=do, data_id=question.id)
