"""The whole call that a person is asked about, as text: its tool and arguments, with blanks made visible."""

from __future__ import annotations

from typing import Any

import msgspec

from agentnb.core.questions import WaitingOnUser
from agentnb.display.texts.visible_text import visible, visible_name

MAX_WITH_CALL = 600
"""Characters of the longest question that shows a whole call by itself: a longer one may be cut where it is shown."""


def question_text(question: WaitingOnUser) -> str:
    """Return the question as it is shown: with blanks made visible if it asks for approval."""
    return visible(question.message) if question.kind == "approval" else question.message


def call_text(question: WaitingOnUser) -> str:
    """Return the whole call that a question is about; empty if there is none, or if the question holds all of it."""
    about = question.about
    if about is None or (about.arguments in question.message and len(question.message) <= MAX_WITH_CALL):
        return ""
    try:
        arguments = msgspec.json.decode(about.arguments)
    except (msgspec.DecodeError, RecursionError):
        arguments = about.arguments  # not plain data
    if not isinstance(arguments, dict):
        return f"{visible_name(about.tool)}: {_value(arguments)}"
    return "\n".join(
        [visible_name(about.tool), *(f"  {visible_name(name)}: {_value(value)}" for name, value in arguments.items())]
    )


def _value(value: Any) -> str:
    """Return a value, with several lines as an indented block, so that none of them can pass for another argument."""
    if isinstance(value, str) and "\n" in value:
        lines = visible(value).split("\n")
        return "".join(f"\n    {line}" for line in lines)
    return visible(msgspec.json.encode(value).decode())
