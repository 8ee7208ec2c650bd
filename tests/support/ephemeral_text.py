"""Guidance in requests: their ephemeral text, and sets to take it from."""

from __future__ import annotations

import re

from agentnb.core.messages import Text
from agentnb.core.request import Request
from agentnb.detect.run import Run
from agentnb.guidance import GuidanceSet, built_in

MATRIX = built_in("matrix")
OFF = built_in("off")
TAG = "<system-reminder>"
_REMINDER = re.compile(rf"{TAG}\n(.*)\n</system-reminder>", re.DOTALL)


def own_set(**parts: str) -> GuidanceSet:
    return GuidanceSet("own", parts)


def reminders(request: Request) -> list[str]:
    """All ephemeral texts of a request, with their tags."""
    parts = [part for message in request.messages for part in message.parts]
    return [part.text for part in parts if isinstance(part, Text) and TAG in part.text]


def reminder(request: Request) -> str:
    """Return the ephemeral text of a request, or an empty text. Asserts that it is the only one, at the very end."""
    found = reminders(request)
    if not found:
        return ""
    assert sum(text.count(TAG) for text in found) == 1
    last = request.messages[-1]
    assert last.role != "assistant"
    whole = _REMINDER.fullmatch(last.parts[-1].text)  # type: ignore[union-attr]
    assert whole
    return whole[1]


def stored_text(run: Run) -> str:
    """All words that are kept in the conversation."""
    return "\n".join(message.text for message in run.messages)
