"""The whole call that a person is asked about, as text: its tool, and each argument with its blanks made visible."""

from __future__ import annotations

from typing import Any

import msgspec

from agentnb.core.questions import WaitingOnUser
from agentnb.display.visible_text import visible, visible_name

MAX_IN_A_SENTENCE = 600
"""Longest question that shows a call by itself, in characters: a longer one may be cut where it is shown."""


def question_text(question: WaitingOnUser) -> str:
    """Return the sentence of a question to approve something, with its blanks made visible; of others, as it is."""
    return visible(question.message) if question.kind == "approval" else question.message


def call_text(question: WaitingOnUser) -> str:
    """Return the whole call that a question is about; empty if there is none, or the sentence holds all of it."""
    about = question.about
    if about is None or (about.arguments in question.message and len(question.message) <= MAX_IN_A_SENTENCE):
        return ""
    try:
        arguments = msgspec.json.decode(about.arguments)
    except (msgspec.DecodeError, RecursionError):
        arguments = about.arguments  # they were no plain data
    if not isinstance(arguments, dict):
        return f"{visible_name(about.tool)}: {_value(arguments)}"
    return "\n".join(
        [visible_name(about.tool), *(f"  {visible_name(name)}: {_value(value)}" for name, value in arguments.items())]
    )


def _value(value: Any) -> str:
    """Return a value: a text of several lines as an indented block, in which no line can look like another argument."""
    if isinstance(value, str) and "\n" in value:
        lines = visible(value).split("\n")
        return "".join(f"\n    {line}" for line in lines)
    return visible(msgspec.json.encode(value).decode())
