"""Questions answered with a form: the schema of the values, and the initial value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from agentnb.core.questions import WaitingOnUser
from agentnb.core.run.approvals import EDIT, edit_schema
from agentnb.core.schema.filled_form import filled_form
from agentnb.core.schema.form_fields import defaults
from agentnb.errors import SettingsError


class QuestionForm(NamedTuple):
    """The form of a question."""

    schema: dict[str, Any]
    initial: Any


class FieldsRefused(SettingsError):
    """Invalid values of a form, with the problem for each field key."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(problems.values()))
        self.problems = dict(problems)


def question_form(question: WaitingOnUser) -> QuestionForm | None:
    """Return the form for answering a question, or for editing the arguments of its call, or None if the question has
    no form.
    """
    if question.kind == "approval":
        return (
            None if question.about is None else QuestionForm(edit_schema(question.schema), _arguments(question.about.arguments))
        )
    if question.schema.get("type") == "object":
        return QuestionForm(question.schema, defaults(question.schema) or None)
    return None


def answer_of_form(question: WaitingOnUser, texts: Mapping[str, str]) -> Any:
    """Return the answer given by a filled-in form; raises `FieldsRefused` for invalid fields."""
    form = question_form(question)
    if form is None:
        raise SettingsError("This question has no form")
    value, problems = filled_form(form.schema, form.initial, texts)
    if problems:
        raise FieldsRefused(problems)
    return {EDIT: value} if question.kind == "approval" else value


def _arguments(text: str) -> Any:
    """Return the arguments of a call, or their text if they are not JSON."""
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return text
