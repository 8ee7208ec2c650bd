"""Text of strangers, as a model may get it."""

from __future__ import annotations

_UNSEEN = dict.fromkeys((*range(9), 11, 12, *range(14, 32), *range(127, 160), *range(0xE0000, 0xE0080)))
"""Control characters, and the tags of Unicode: a model reads them as letters, and no screen shows them."""


def visible(text: str) -> str:
    """Return the text without characters that a person never sees."""
    return text.translate(_UNSEEN)
