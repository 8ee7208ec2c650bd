"""A form for any JSON Schema of an object. The input goes as text to the kernel, which parses and checks it."""

from __future__ import annotations

from collections.abc import Sequence

from agentnb.core.questions import WaitingOnUser
from agentnb.core.redaction import MASK
from agentnb.core.schema.form_fields import EMPTY, WHOLE, FormField, form_fields
from agentnb.display.markup import NOTHING, Html, tag, words
from agentnb.display.texts.labels import cut
from agentnb.display.texts.question_labels import limits_in_words
from agentnb.runtime.questions.question_forms import QuestionForm, question_form

FORM = "form"
"""The action that sends a form."""
EDIT_FORM = "edit_form"
"""The action that fills a fold with the form for a call's arguments; also the prefix of the fold's key."""
MAX_LABEL, MAX_HELP, MAX_OPTION = 100, 300, 120
HIDDEN_KEY = f"Where {MASK} hides a key, type the key again: the call runs with the values in this form."


def form_html(question: WaitingOnUser, others: Sequence[Html] = ()) -> Html:
    """Return the form that answers a question or changes the arguments of its call.

    ``others``: buttons for alternatives to sending the form.
    """
    form = question_form(question)
    if form is None:
        return NOTHING
    is_edit = question.kind == "approval"
    whole = "The arguments, as JSON" if is_edit else "Your answer, as JSON"
    note = tag("div", "form-help", HIDDEN_KEY) if is_edit and MASK in str(form.initial) else NOTHING
    send = tag("button", "button primary", "Approve with these arguments" if is_edit else "Answer", type="submit")
    return fields_html(
        form, question.id, whole, [note, tag("div", "buttons", send, *others)], data_do=FORM, data_id=question.id
    )


def fields_html(form: QuestionForm, name: str, whole: str, ending: Sequence[Html], **about: str) -> Html:
    """Return a form. ``name``: prefix of its fields' keys; ``whole``: label of a field for the complete value.

    ``ending``: notes, followed by the buttons; ``about``: attributes that say what is being sent.
    """
    fields = form_fields(form.schema, form.initial)
    shown = [_field(field, name, whole) for field in fields]
    error = _error() if fields[0].key != WHOLE else NOTHING
    *notes, buttons = ending
    return tag("form", "form", *shown, *notes, error, buttons, novalidate=True, **about)


def _field(field: FormField, question_id: str, whole: str) -> Html:
    if field.kind == "group":
        legend = tag("legend", "form-label", words(field.label, MAX_LABEL), _is_needed(field))
        inner = [_field(inner_field, question_id, whole) for inner_field in field.fields]
        return tag("fieldset", "form-group", legend, _help(field), *inner)
    name = whole if field.key == WHOLE else "Other properties, as JSON" if field.is_others else cut(field.label, MAX_LABEL)
    needed = NOTHING if field.key == WHOLE else _is_needed(field)
    label = tag("span", "form-label", name, needed)
    key = f"{FORM}:{question_id}:{field.key}"
    if field.kind == "choices":
        row = tag("div", "form-row", label, _boxes(field, key), role="group", aria_label=name)
    else:
        row = tag("label", "form-row", label, _control(field, name, key))
    empty = _empty_mark(field, f"{key}.{EMPTY}") if field.may_be_empty else NOTHING
    return tag("div", "form-field", row, empty, _help(field), _error(field.key))


def _boxes(field: FormField, key: str) -> Html:
    """Return a checkbox for each choice of a multiple-choice field."""
    boxes = []
    for position, option in enumerate(field.options):
        is_chosen = option.text in field.chosen
        attributes: dict[str, str | bool | None] = {"checked": is_chosen, "data_key": f"{key}:{position}"}
        box = tag("input", "", type="checkbox", name_=field.key, value=option.text, **attributes)
        boxes.append(tag("label", "form-box", box, " ", words(option.label, MAX_OPTION)))
    return tag("div", "form-boxes", *boxes, data_many=field.key)


def _empty_mark(field: FormField, key: str) -> Html:
    """Return the control that makes an empty field mean the empty text, shown while the field is empty."""
    is_empty = field.has_value and not field.text
    box = tag(
        "input", "", type="checkbox", name_=f"{field.key}.{EMPTY}", value="yes", checked=is_empty, data_key=key, data_field=True
    )
    return tag("label", "form-box form-empty", box, " ", "Answer with empty text instead of leaving this out")


def _is_needed(field: FormField) -> Html:
    return tag("span", "form-needed", " (required)") if field.is_required else NOTHING


def _error(key: str | None = None) -> Html:
    return tag("div", "field-error", role="alert", data_for=key)


def _help(field: FormField) -> Html:
    kind = {"integer": "A whole number", "number": "A number", "json": "JSON", "choices": "Any of these"}.get(field.kind, "")
    is_plain = field.key == WHOLE or field.is_others
    notes = [cut(field.description, MAX_HELP), *limits_in_words(field)]
    if len(notes) == 1 and not is_plain:
        notes.append(kind)
    if field.may_be_null and field.is_required and field.kind != "json":
        notes.append("Empty for null")
    text = ". ".join(note.rstrip(".") for note in notes if note)
    return tag("div", "form-help", text) if text else NOTHING


def _control(field: FormField, name: str, key: str) -> Html:
    attributes: dict[str, str | bool | None] = {"name_": field.key, "data_key": key, "aria_label": name, "data_field": True}
    if field.kind == "choice":
        return tag("select", "field", *_options(field), **attributes)
    if field.kind in ("lines", "json"):
        rows = min(12, max(2, field.text.count("\n") + 1))
        # The parser drops a line break at the beginning of a text area.
        return tag(
            "textarea",
            "field form-code",
            Html("\n"),
            field.text,
            rows=str(rows),
            spellcheck="false",
            placeholder=" ",
            **attributes,
        )
    mode = {"integer": "numeric", "number": "decimal", "email": "email", "uri": "url"}.get(field.format or field.kind)
    # The blank placeholder tells the style sheet whether the field is empty.
    return tag(
        "input", "field", type="text", value=field.text, inputmode=mode, placeholder=" ", autocomplete="off", **attributes
    )


def _options(field: FormField) -> Sequence[Html]:
    may_be_empty = not field.has_value or not field.is_required or field.may_be_null
    empty = tag("option", "", "Choose" if field.is_required and not field.may_be_null else "", value="")
    options = [
        tag("option", "", words(option.label, MAX_OPTION), value=option.text, selected=option.text == field.text)
        for option in field.options
    ]
    return [*([empty] if may_be_empty else []), *options]
