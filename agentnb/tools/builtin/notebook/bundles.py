"""Displays and results of cells, as bundles of forms: their text."""

from __future__ import annotations

from typing import Any

from agentnb.tools.builtin.notebook.capture import without_escapes

MAX_OF_A_CARD = 200
"""Characters of the card of a run."""
CARD = "agentnb-run"
"""Stands in the HTML of each card."""


def text_of_bundle(bundle: Any) -> str:
    """Return the text of a display or a result; of the card of a run the first line."""
    text = bundle.get("text/plain", "")
    text = "".join(text) if isinstance(text, list) else str(text)
    if CARD in str(bundle.get("text/html", "")):
        return text.strip().partition("\n")[0][:MAX_OF_A_CARD]
    return without_escapes(text)
