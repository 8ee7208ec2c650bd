"""Text of MIME bundles: the displays and results of cells."""

from __future__ import annotations

from typing import Any

from agentnb.tools.builtin.notebook.capture import without_escapes

MAX_OF_A_CARD = 200
"""Maximum number of characters in the text of a run card."""
CARD = "agentnb-run"
"""Marker in the HTML of each run card."""


def text_of_bundle(bundle: Any) -> str:
    """Return the text of a display or result, or the first line for a run card."""
    text = bundle.get("text/plain", "")
    text = "".join(text) if isinstance(text, list) else str(text)
    if CARD in str(bundle.get("text/html", "")):
        return text.strip().partition("\n")[0][:MAX_OF_A_CARD]
    return without_escapes(text)
