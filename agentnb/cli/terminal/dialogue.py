"""A question to the person as a dialogue of lines: what is written, and what the typed lines mean."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

from agentnb.core.questions import WaitingOnUser, answer_form, answer_in_words, checked_answer, choice_in_words, expected
from agentnb.display.texts.judged_call import call_text, question_text
from agentnb.display.texts.question_labels import ASKS
from agentnb.display.texts.visible_text import visible_name
from agentnb.errors import SettingsError

Dialogue: TypeAlias = Generator[str, str, Any]
"""Yields what is written before a line is read, is sent the line, and returns the answer."""
NOTHING_TYPED = "Type an answer, or press Ctrl-D to leave the question open."
BY_FIELD = "Answer field by field, or with all of it as a JSON object. An empty line leaves a field out."
PAGE_CHARACTERS, PAGE_LINES = 2_000, 40
"""Length of a page of the call that a question is about."""
MAX_DIGITS = 10
"""Digits that the number of a choice has at most: Python reads no number of thousands."""
OTHER_FORMS = 'Or: deny: REASON, or with other arguments: {"edit": {...}}'


class _Whole(NamedTuple):
    """The answer to a whole form, which was typed at its first field."""

    value: Any


def dialogue(question: WaitingOnUser) -> Dialogue:
    """Ask the question until an answer fits, and return it."""
    title = ASKS.get(question.kind, ASKS["elicitation"])
    head = f"\n{f'{visible_name(question.call_id)}: ' if question.call_id else ''}{title}\n{question_text(question)}\n"
    if fields := answer_form(question.schema).fields:
        return (yield from _form(f"{head}{BY_FIELD}\n", question.schema, fields))
    page, rest = _page(call_text(question))
    words = f"{head}{page}{_listed(question)}"
    return (yield from _answer(words, question.schema, _name(question.schema), rest))


def typed(schema: dict[str, Any], text: str) -> Any:
    """Return the answer that was typed: as `answer_in_words` reads it, or the number of one of the choices.

    Raises `SettingsError`, which says what would fit.
    """
    listed = _numbered(schema)
    if text.isdecimal() and len(text) < MAX_DIGITS and 0 < int(text) <= len(listed):
        return listed[int(text) - 1]
    return answer_in_words(schema, text)


def _answer(words: str, schema: dict[str, Any], name: str, rest: str) -> Dialogue:
    """Ask until an answer fits. ``rest``: the part of the call that was not shown yet; an empty line shows its next page."""
    while True:
        more = f" ({len(rest):,} characters not shown: Enter shows more)" if rest else ""
        text = (yield f"{words}{name}{more}: ").strip()
        if not text and rest:
            words, rest = _page(rest)
            continue
        if not text:
            words = f"{NOTHING_TYPED}\n"
            continue
        try:
            return typed(schema, text)
        except SettingsError as error:
            words = f"{error}\n"


def _page(text: str) -> tuple[str, str]:
    """Return the first page of a text, with a line end if it has text, and the rest."""
    page = "\n".join(text[:PAGE_CHARACTERS].split("\n")[:PAGE_LINES])
    return f"{page}\n" if page else "", text[len(page) :].removeprefix("\n")


def _form(words: str, schema: dict[str, Any], fields: Mapping[str, dict[str, Any]]) -> Dialogue:
    needed = schema.get("required", ())
    while True:
        value: Any = {}
        for place, (name, field) in enumerate(fields.items()):
            found = yield from _field(words, name, field, None if place else schema, is_needed=name in needed)
            words = ""
            if found and isinstance(found[0], _Whole):
                return found[0].value
            value |= dict.fromkeys([name], found[0]) if found else {}
        try:
            return checked_answer(schema, value)
        except SettingsError as error:
            words = f"{error}. Once more:\n"


def _field(words: str, name: str, field: dict[str, Any], whole: dict[str, Any] | None, *, is_needed: bool) -> Dialogue:
    """Return the value of a field in a tuple, empty if it is left out. ``whole``: the schema of the form, at its first."""
    about = [str(field["description"])] if field.get("description") else []
    notes = "; ".join([*about, expected(field), *([] if is_needed else ["may be left out"])])
    while True:
        text = (yield f"{words}{name} ({notes}): ").strip()
        if not text and not is_needed:
            return ()
        try:
            if whole is not None and text.startswith("{"):
                return (_Whole(answer_in_words(whole, text)),)
            if text:
                return (typed(field, text),)
            words = f"{name} is needed.\n"
        except SettingsError as error:
            words = f"{error}\n"


def _listed(question: WaitingOnUser) -> str:
    lines = [f"  {number} {choice_in_words(choice)}" for number, choice in enumerate(_numbered(question.schema), 1)]
    if question.kind == "approval" and answer_form(question.schema).has_others:
        lines.append(OTHER_FORMS)
    return "".join(f"{line}\n" for line in lines)


def _name(schema: dict[str, Any]) -> str:
    return "Answer" if _numbered(schema) else f"Answer ({expected(schema)})"


def _numbered(schema: dict[str, Any]) -> Sequence[Any]:
    """Return the choices that may be given by their numbers: none if it is yes or no, or if a choice reads as a number."""
    choices = answer_form(schema).choices
    is_plain = all(not choice_in_words(one).isdecimal() for one in choices)
    return [] if choices == [True, False] or not is_plain else choices
