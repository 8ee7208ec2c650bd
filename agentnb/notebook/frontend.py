"""Who is looking: which view shows a run, and whether the person can be asked while their cell runs."""

from __future__ import annotations

from typing import Any

from agentnb.notebook.card.view import CardView
from agentnb.notebook.card.widget import LeftOpen
from agentnb.notebook.views import DisplayView, TerminalView
from agentnb.notebook.widgets import HEARS_WHILE_BUSY


def view_for(shell: Any, left_open: LeftOpen, *, blocks: bool, variable: str = "run") -> CardView | DisplayView | TerminalView:
    """A live card where somebody may click, a display where only the outputs are kept, lines in a terminal.

    ``left_open`` takes the widgets of cards whose run is over; ``blocks``: the cell waits for the run, and shows its answer
    as its result; ``variable`` holds the run.
    """
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return TerminalView()
    return (
        CardView(left_open, answer_beside=blocks, blocks=blocks, variable=variable)
        if is_attended(kernel)
        else DisplayView(answer_beside=blocks, variable=variable)
    )


def is_attended(kernel: Any) -> bool:
    """Whether a person is there: who executes notebooks without one (nbconvert, papermill, tests) says that it cannot ask."""
    return bool(getattr(kernel, "_allow_stdin", False))


def can_ask(shell: Any, *, blocks: bool) -> bool:
    """In the card, or with ``%agent answer`` in another cell: not while a cell blocks a frontend that then hears nothing.

    ``blocks``: the cell waits for the run.
    """
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return not blocks  # a terminal
    return is_attended(kernel) and (HEARS_WHILE_BUSY or not blocks)
