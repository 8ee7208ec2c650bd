"""A form as a dialogue of lines: asks for and checks each field on its own, then checks the whole form."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from agentnb.core.questions import MAX_CHOICES, NO, YES, answer_in_words
from agentnb.core.schema.filled_form import field_problem, filled_form
from agentnb.core.schema.form_fields import EMPTY, WHOLE, FormField, Option, form_fields, leaves
from agentnb.display.texts.labels import cut
from agentnb.display.texts.question_labels import TYPED_NO_ANSWER, limits_in_words
from agentnb.display.texts.visible_text import visible, visible_name
from agentnb.errors import SettingsError
from agentnb.runtime.questions.question_forms import QuestionForm

Dialogue: TypeAlias = Generator[str, str, Any]
"""A generator that yields text to write before reading a line, receives the line, and returns the answer."""
MAX_OF_A_VALUE = 200
"""Maximum number of characters of a current value that a prompt repeats."""
EMPTY_TEXT = '""'
"""Input that means the empty text."""
_KINDS = {"text": "text", "lines": "text", "integer": "a whole number", "number": "a number", "json": "JSON"}
_BOOLEAN = ("true", "false")


class _Typed(NamedTuple):
    """The input for a field: the texts of the form, or the end of the dialogue."""

    texts: Mapping[str, str] = {}
    whole: Any = None
    """Complete answer: a `NoAnswer`, or an object typed at the first field."""


def divided_fields(form: QuestionForm) -> list[FormField]:
    """Return the fields to ask for one by one; empty if the form is typed as one JSON value."""
    return [field for field in leaves(form_fields(form.schema, form.initial)) if field.key != WHOLE and not field.is_others]


def form_dialogue(words: str, form: QuestionForm, *, may_leave: bool = False) -> Dialogue:
    """Ask for the fields of a form until they are valid, and return the form's value.

    ``words``: text to write first; ``may_leave``: whether a `NoAnswer` may be typed instead.
    """
    while True:
        texts: dict[str, str] = {}
        for number, field in enumerate(divided_fields(form)):
            typed = yield from _field(words, field, form, is_first=not number, may_leave=may_leave)
            words = ""
            if typed.whole is not None:
                return typed.whole
            texts |= typed.texts
        value, problems = filled_form(form.schema, form.initial, texts)
        if not problems:
            return value
        words = f"{visible('; '.join(problems.values()))}. Try again:\n"


def _field(words: str, field: FormField, form: QuestionForm, *, is_first: bool, may_leave: bool) -> Generator[str, str, _Typed]:
    """Ask for one field until the input is valid."""
    initial = _value_at(form.initial, field.path)
    name = visible_name(".".join(field.path))
    while True:
        text = (yield f"{words}{name} ({_notes(field)}){_show_kept(field)}: ").strip()
        if may_leave and text in TYPED_NO_ANSWER:
            return _Typed(whole=TYPED_NO_ANSWER[text])
        if not text and (field.has_value or not field.is_required):
            return _Typed()
        if not text:
            words = f"{name} is required.\n"
            continue
        try:
            if is_first and text.startswith("{"):
                return _Typed(whole=answer_in_words(form.schema, text))
        except SettingsError as error:
            words = f"{error}\n"
            continue
        texts = _texts(field, text)
        problem = field_problem(field, initial, texts)
        if not problem:
            return _Typed(texts)
        words = f"{visible(problem)}\n"


def _notes(field: FormField) -> str:
    """Describe the input that a field accepts, in one line."""
    title = field.label.removesuffix(f" ({field.path[-1]})") if field.label != field.path[-1] else ""
    descriptions = [" ".join(text.split()) for text in (title, field.description) if text.strip()]
    limits = [f"{limit[:1].lower()}{limit[1:]}" for limit in limits_in_words(field)]
    needed = [] if field.is_required or field.has_value else ["optional"]
    empty = [f"{EMPTY_TEXT} for empty text"] if field.may_be_empty else []
    wanted = [] if field.format and limits else [_describe_input(field)]
    return "; ".join([*(visible(cut(text, MAX_OF_A_VALUE)) for text in descriptions), *wanted, *limits, *needed, *empty])


def _describe_input(field: FormField) -> str:
    labels = [visible(cut(" ".join(option.label.split()), MAX_OF_A_VALUE)) for option in field.options[:MAX_CHOICES]]
    listed = ", ".join([*labels, *(["..."] if len(field.options) > MAX_CHOICES else [])])
    if field.kind == "choices":
        return f"any of: {listed}; separated by commas"
    return f"one of: {listed}" if field.kind == "choice" else _KINDS.get(field.kind, "JSON")


def _show_kept(field: FormField) -> str:
    """Return the value that an empty line keeps, in square brackets."""
    if not field.has_value:
        return ""
    labels = {option.text: option.label for option in field.options}
    text = (
        ", ".join(labels[option] for option in field.chosen) if field.kind == "choices" else labels.get(field.text, field.text)
    )
    return f" [{visible(cut(text, MAX_OF_A_VALUE))}]"


def _texts(field: FormField, text: str) -> dict[str, str]:
    """Return the form's texts for a typed line."""
    if field.may_be_empty and text == EMPTY_TEXT:
        return {field.key: "", f"{field.key}.{EMPTY}": "yes"}
    if field.kind == "choice":
        return {field.key: _choice(field.options, text)}
    if field.kind == "choices" and not text.startswith("["):
        return {field.key: f"[{','.join(_choice(field.options, word.strip()) for word in text.split(','))}]"}
    return {field.key: text}


def _choice(options: Sequence[Option], text: str) -> str:
    """Return the typed option, matched by label, value, or number (unless a label is a number); otherwise return the text."""
    folded = text.casefold()
    for option in options:
        if folded in (option.label.casefold(), option.text.casefold(), option.text.strip('"').casefold()):
            return option.text
    if {option.text for option in options} == {*_BOOLEAN} and folded in YES | NO:
        return _BOOLEAN[folded in NO]
    has_numbers = any(option.label.isdecimal() for option in options) or options[0].text in _BOOLEAN
    is_number = text.isdecimal() and len(text) < 4 and 0 < int(text) <= len(options)
    return options[int(text) - 1].text if is_number and not has_numbers else text


def _value_at(value: Any, path: Sequence[str]) -> Any:
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value
