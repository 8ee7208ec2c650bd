"""How what is said in passing is marked for the model."""

from __future__ import annotations

import re

OPEN, CLOSE = "<system-reminder>", "</system-reminder>"
_TAG = re.compile(r"<([\s/\u200b-\u200f\u2060\ufeff]*system-reminder)", re.IGNORECASE)


def system_reminder(content: str) -> str:
    """The content inside the tags that say: this is not from the person. The same for all models.

    Tags inside it (a todo's title may hold anything) lose their meaning.
    """
    if "<" in content:
        content = _TAG.sub(r"&lt;\1", content)
    return f"{OPEN}\n{content}\n{CLOSE}"
