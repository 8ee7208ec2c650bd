"""A question as a dialogue of lines: prompts, and parsing of the typed lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agentnb.advice import in_words
from agentnb.cli.shell_commands import SHELL
from agentnb.cli.terminal.form_dialogue import Dialogue, divided_fields, form_dialogue
from agentnb.core.questions import WaitingOnUser, answer_form, answer_in_words, choice_in_words, expected_form, rule_parts
from agentnb.core.run.approvals import ALWAYS, DENY, EDIT, check_grant
from agentnb.display.texts.judged_call import accept_advice, call_text, question_text
from agentnb.display.texts.question_labels import (
    ASKS,
    TYPED_NO_ANSWER,
    address_lines,
    approving_choices,
    grant_in_words,
    is_fixed,
    title_of,
)
from agentnb.display.texts.visible_text import visible_name
from agentnb.errors import SettingsError
from agentnb.runtime.questions.question_forms import QuestionForm, question_form

NOTHING_TYPED = "Type an answer, or press Ctrl-D to leave the question open."
INSTEAD = "Instead of an answer: --decline (say no) or --cancel (close the question without deciding)."
BY_FIELD = "Answer field by field, or type all fields as a JSON object. An empty line omits a field or uses its default."
PAGE_CHARACTERS, PAGE_LINES = 2_000, 40
"""Length of one page when showing the call that a question is about."""
MAX_DIGITS = 10
"""Maximum number of digits in the number of a choice: Python refuses to parse numbers with thousands of digits."""
EDIT_BY_FIELD = "Type each argument, or all arguments as a JSON object. An empty line keeps the value in brackets."


def dialogue(question: WaitingOnUser) -> Dialogue:
    """Ask the question until the input is a valid answer, and return it, or the `NoAnswer` that was typed."""
    origin = f"{visible_name(question.call_id)}: " if question.call_id not in ("", question.asked_by) else ""
    instead = [] if question.kind == "approval" else [INSTEAD]
    lines = [f"{origin}{title_of(question, ASKS)}", question_text(question), *address_lines(question)]
    head = "".join(f"{line}\n" for line in ["", *lines, *instead])
    form = None if question.kind == "approval" else question_form(question)
    page, remaining = _page(call_text(question))
    if form is not None and divided_fields(form):
        cut = f"({len(remaining):,} characters not shown: agentnb show prints all)\n" if remaining else ""
        return (yield from form_dialogue(f"{head}{page}{cut}{BY_FIELD}\n", form, may_leave=True))
    if advice := accept_advice(question):
        head = f"{head}{in_words(advice, SHELL)}\n"
    return (yield from _answer(f"{head}{page}{_list_choices(question)}", question, remaining))


def read_typed(schema: dict[str, Any], text: str, choices: Sequence[Any] | None = None) -> Any:
    """Parse a typed answer as `answer_in_words` does, or as the number of one of the choices.

    Raises a `SettingsError` that describes the valid input.
    """
    listed = _find_numbered(schema) if choices is None else choices
    if text.isdecimal() and len(text) < MAX_DIGITS and 0 < int(text) <= len(listed):
        return listed[int(text) - 1]
    return answer_in_words(schema, text)


def _answer(words: str, question: WaitingOnUser, remaining: str) -> Dialogue:
    """Ask until the answer is valid. ``remaining``: the part of the call not yet shown; an empty line shows the next page."""
    schema, name = question.schema, _name(question.schema)
    choices = [choice for choice, _ in _choices(question)]
    form = question_form(question) if _is_approval(question) else None
    while True:
        more = f" ({len(remaining):,} characters not shown: Enter shows more)" if remaining else ""
        text = (yield f"{words}{name}{more}: ").strip()
        if not text and remaining:
            words, remaining = _page(remaining)
            continue
        if not text:
            words = f"{NOTHING_TYPED}\n"
            continue
        if text in TYPED_NO_ANSWER and question.kind != "approval":
            return TYPED_NO_ANSWER[text]
        if form is not None and text.casefold() == EDIT:
            return {EDIT: (yield from _ask_arguments(form))}
        try:
            value = read_typed(schema, text, choices)
            check_grant(question, value)
            return value
        except SettingsError as error:
            words = f"{error}\n"


def _ask_arguments(form: QuestionForm) -> Dialogue:
    """Ask for new arguments for a call until they are valid, and return them."""
    if isinstance(form.initial, dict) and divided_fields(form):
        return (yield from form_dialogue(f"{EDIT_BY_FIELD}\n", form))
    words = ""
    while True:
        text = (yield f"{words}Arguments (a JSON object): ").strip()
        try:
            return answer_in_words(form.schema, text)
        except SettingsError as error:
            words = f"{error}\n"


def _page(text: str) -> tuple[str, str]:
    """Split a text into its first page, which ends with a newline unless it is empty, and the remainder."""
    page = "\n".join(text[:PAGE_CHARACTERS].split("\n")[:PAGE_LINES])
    return f"{page}\n" if page else "", text[len(page) :].removeprefix("\n")


def _list_choices(question: WaitingOnUser) -> str:
    lines = [f"  {number} {words}" for number, (_, words) in enumerate(_choices(question), 1)]
    if _is_approval(question):
        about = question.about
        patterns = [] if about is None else [grant for grant in about.grants if not is_fixed(grant, about)]
        pattern_lines = [
            f"{ALWAYS} in {grant.reach}: {visible_name(rule_parts(grant.rule)[0])}(PATTERN)" for grant in patterns[:1]
        ]
        lines.append(f"Or type: {', '.join([f'{DENY}: REASON', *pattern_lines])}, or edit to change the arguments")
    return "".join(f"{line}\n" for line in lines)


def _choices(question: WaitingOnUser) -> list[tuple[Any, str]]:
    """Return the numbered choices, including the grants on offer, each with its text."""
    choices = [(choice, choice_in_words(choice)) for choice in _find_numbered(question.schema)]
    if question.about is None or not choices or not _is_approval(question):
        return choices
    origin = question.about
    once = [(choice, choice) for choice in approving_choices(question)]
    grants = [
        ({ALWAYS: grant.rule, "reach": grant.reach}, f"{ALWAYS}: {grant_in_words(grant, origin)}")
        for grant in origin.later_offers
    ]
    return [*once, *grants, (DENY, DENY)]


def _is_approval(question: WaitingOnUser) -> bool:
    form = answer_form(question.schema)
    return question.kind == "approval" and form.has_others and DENY in form.choices


def _name(schema: dict[str, Any]) -> str:
    return "Answer" if _find_numbered(schema) else f"Answer ({expected_form(schema)})"


def _find_numbered(schema: dict[str, Any]) -> Sequence[Any]:
    """Return the numbered choices; empty for a yes/no question, or if a choice looks like a number."""
    choices = answer_form(schema).choices
    is_plain = all(not choice_in_words(choice).isdecimal() for choice in choices)
    return [] if choices == [True, False] or not is_plain else choices
