"""Tags that mark ephemeral text for the model."""

from __future__ import annotations

import re

OPEN, CLOSE = "<system-reminder>", "</system-reminder>"
_TAG = re.compile(r"<([\s/\u200b-\u200f\u2060\ufeff]*system-reminder)", re.IGNORECASE)


def system_reminder(content: str) -> str:
    """Wrap the content in tags, the same for all models, that mark it as not written by the person.

    Tags in the content itself, such as in a todo's title, are escaped.
    """
    if "<" in content:
        content = _TAG.sub(r"&lt;\1", content)
    return f"{OPEN}\n{content}\n{CLOSE}"
