"""The tags that mark ephemeral text for the model."""

from __future__ import annotations

import re

OPEN, CLOSE = "<system-reminder>", "</system-reminder>"
_TAG = re.compile(r"<([\s/\u200b-\u200f\u2060\ufeff]*system-reminder)", re.IGNORECASE)


def system_reminder(content: str) -> str:
    """Return the content inside tags that tell the model that it is not from the person. The same for all models.

    Such tags inside the content (a todo's title may hold anything) are escaped.
    """
    if "<" in content:
        content = _TAG.sub(r"&lt;\1", content)
    return f"{OPEN}\n{content}\n{CLOSE}"
