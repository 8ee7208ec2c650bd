"""A question to the person as a dialogue of lines: what is written, and what the typed lines mean."""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from agentnb.advice import in_words
from agentnb.cli.shell_commands import SHELL
from agentnb.core.questions import WaitingOnUser, answer_form, answer_in_words, checked_answer, choice_in_words, expected
from agentnb.core.run.approvals import ALWAYS, DENY, EDIT
from agentnb.display.texts.judged_call import accept_advice, call_text, question_text
from agentnb.display.texts.labels import cut
from agentnb.display.texts.question_labels import ASKS, REACHES, approving_choices, grant_in_words, is_fixed
from agentnb.display.texts.visible_text import visible, visible_name
from agentnb.errors import SettingsError
from agentnb.runtime.questions.question_forms import QuestionForm, question_form

Dialogue: TypeAlias = Generator[str, str, Any]
"""Yields what is written before a line is read, is sent the line, and returns the answer."""
NOTHING_TYPED = "Type an answer, or press Ctrl-D to leave the question open."
BY_FIELD = "Answer field by field, or with all of it as a JSON object. An empty line leaves a field out."
PAGE_CHARACTERS, PAGE_LINES = 2_000, 40
"""Length of a page of the call that a question is about."""
MAX_DIGITS = 10
"""Digits that the number of a choice has at most: Python reads no number of thousands."""
EDIT_BY_FIELD = "Type each argument, or all of them as a JSON object. An empty line keeps what is in brackets."
MAX_OF_A_VALUE = 200
"""Characters of an argument that are repeated where another is typed for it."""


EMPTY: Mapping[str, Any] = MappingProxyType({})
UNKNOWN = object()
SHELL_REACHES = {**REACHES, "session": "in this session (until this command ends)"}


class _Whole(NamedTuple):
    """The answer to a whole form, which was typed at its first field."""

    value: Any


def dialogue(question: WaitingOnUser) -> Dialogue:
    """Ask the question until an answer fits, and return it."""
    title = ASKS.get(question.kind, ASKS["elicitation"])
    head = f"\n{f'{visible_name(question.call_id)}: ' if question.call_id else ''}{title}\n{question_text(question)}\n"
    if fields := answer_form(question.schema).fields:
        return (yield from _form(f"{head}{BY_FIELD}\n", question.schema, fields))
    if advice := accept_advice(question):
        head = f"{head}{in_words(advice, SHELL)}\n"
    page, rest = _page(call_text(question))
    return (yield from _answer(f"{head}{page}{_listed(question)}", question, rest))


def typed(schema: dict[str, Any], text: str, choices: Sequence[Any] | None = None) -> Any:
    """Return the answer that was typed: as `answer_in_words` reads it, or the number of one of the choices.

    Raises `SettingsError`, which says what would fit.
    """
    listed = _numbered(schema) if choices is None else choices
    if text.isdecimal() and len(text) < MAX_DIGITS and 0 < int(text) <= len(listed):
        return listed[int(text) - 1]
    return answer_in_words(schema, text)


def _answer(words: str, question: WaitingOnUser, rest: str) -> Dialogue:
    """Ask until an answer fits. ``rest``: the part of the call that was not shown yet; an empty line shows its next page."""
    schema, name = question.schema, _name(question.schema)
    choices = [choice for choice, _ in _choices(question)]
    form = question_form(question) if _is_approval(question) else None
    while True:
        more = f" ({len(rest):,} characters not shown: Enter shows more)" if rest else ""
        text = (yield f"{words}{name}{more}: ").strip()
        if not text and rest:
            words, rest = _page(rest)
            continue
        if not text:
            words = f"{NOTHING_TYPED}\n"
            continue
        if form is not None and text.casefold() == EDIT:
            return {EDIT: (yield from _edited(form))}
        try:
            return typed(schema, text, choices)
        except SettingsError as error:
            words = f"{error}\n"


def _edited(form: QuestionForm) -> Dialogue:
    """Ask for other arguments of a call until they fit, and return them."""
    fields = answer_form(form.schema).fields
    if fields and isinstance(form.initial, dict):
        return (yield from _form(f"{EDIT_BY_FIELD}\n", form.schema, fields, form.initial))
    words = ""
    while True:
        text = (yield f"{words}Arguments (a JSON object): ").strip()
        try:
            return answer_in_words(form.schema, text)
        except SettingsError as error:
            words = f"{error}\n"


def _page(text: str) -> tuple[str, str]:
    """Return the first page of a text, with a line end if it has text, and the rest."""
    page = "\n".join(text[:PAGE_CHARACTERS].split("\n")[:PAGE_LINES])
    return f"{page}\n" if page else "", text[len(page) :].removeprefix("\n")


def _form(
    words: str, schema: dict[str, Any], fields: Mapping[str, dict[str, Any]], initial: Mapping[str, Any] = EMPTY
) -> Dialogue:
    """Ask for the fields of an object until they fit, and return it. ``initial``: the values that an empty line keeps."""
    needed = schema.get("required", ())
    others = {name: value for name, value in initial.items() if name not in fields}
    while True:
        value: Any = {}
        for place, (name, field) in enumerate(fields.items()):
            whole = None if place else schema
            found = yield from _field(words, name, field, whole, initial.get(name, UNKNOWN), is_needed=name in needed)
            words = ""
            if found and isinstance(found[0], _Whole):
                return found[0].value
            value |= dict.fromkeys([name], found[0]) if found else {}
        try:
            return checked_answer(schema, {**value, **others})
        except SettingsError as error:
            words = f"{error}. Once more:\n"


def _field(
    words: str, name: str, field: dict[str, Any], whole: dict[str, Any] | None, initial: Any, *, is_needed: bool
) -> Dialogue:
    """Return the value of a field in a tuple, empty if it is left out. ``whole``: the schema of the form, at its first.

    ``initial``: the value that an empty line keeps; `UNKNOWN` without one.
    """
    about = [visible(str(field["description"]))] if field.get("description") else []
    is_kept = initial is not UNKNOWN
    notes = "; ".join([*about, expected(field), *([] if is_needed or is_kept else ["may be left out"])])
    kept = f" [{visible(cut(choice_in_words(initial), MAX_OF_A_VALUE))}]" if is_kept else ""
    while True:
        text = (yield f"{words}{visible_name(name)} ({notes}){kept}: ").strip()
        if not text and is_kept:
            return (initial,)
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
    lines = [f"  {number} {words}" for number, (_, words) in enumerate(_choices(question), 1)]
    if _is_approval(question):
        grants = question.about.grants if question.about is not None else ()
        tool = question.about.tool if question.about is not None else ""
        pattern = next((offer for offer in grants if not is_fixed(offer, tool)), None)
        other = [f"{ALWAYS} in {pattern.reach}: PATTERN"] if pattern is not None else []
        lines.append(f"Or type: {', '.join([f'{DENY}: REASON', *other])}, or edit, which asks for other arguments")
    return "".join(f"{line}\n" for line in lines)


def _choices(question: WaitingOnUser) -> list[tuple[Any, str]]:
    """Return the choices that may be given by their numbers, each with its words: also the grants that are offered."""
    choices = [(choice, choice_in_words(choice)) for choice in _numbered(question.schema)]
    if question.about is None or not choices or not _is_approval(question):
        return choices
    tool = question.about.tool
    once = [(choice, choice) for choice in approving_choices(question)]
    grants = [
        ({ALWAYS: one.rule, "reach": one.reach}, f"{ALWAYS}: {grant_in_words(one, tool, SHELL_REACHES)}")
        for one in question.about.grants
    ]
    return [*once, *grants, (DENY, DENY)]


def _is_approval(question: WaitingOnUser) -> bool:
    form = answer_form(question.schema)
    return question.kind == "approval" and form.has_others and DENY in form.choices


def _name(schema: dict[str, Any]) -> str:
    return "Answer" if _numbered(schema) else f"Answer ({expected(schema)})"


def _numbered(schema: dict[str, Any]) -> Sequence[Any]:
    """Return the choices that may be given by their numbers: none if it is yes or no, or if a choice reads as a number."""
    choices = answer_form(schema).choices
    is_plain = all(not choice_in_words(one).isdecimal() for one in choices)
    return [] if choices == [True, False] or not is_plain else choices
