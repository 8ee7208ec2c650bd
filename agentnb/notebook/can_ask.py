"""Whether the person can answer what the tools of a run ask, while its cell runs."""

from __future__ import annotations

from typing import Any

from agentnb.notebook.card.widget import HEARS_WHILE_BUSY
from agentnb.notebook.view_for import is_attended


def can_ask(shell: Any, *, blocks: bool) -> bool:
    """In the card, or with ``%agent answer`` in another cell: not while a cell blocks a frontend that then hears nothing.

    ``blocks``: the cell waits for the run.
    """
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return not blocks  # a terminal
    return is_attended(kernel) and (HEARS_WHILE_BUSY or not blocks)
