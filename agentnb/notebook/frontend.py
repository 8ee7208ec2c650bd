"""The frontend: which view shows a run, and whether the person can be asked while their cell runs."""

from __future__ import annotations

import getpass
import sys
import warnings
from collections.abc import Callable
from typing import Any

from IPython.core.error import StdinNotImplementedError

from agentnb.errors import SettingsError
from agentnb.notebook.card.view import CardView
from agentnb.notebook.card.widget import OpenWidgets
from agentnb.notebook.views import DisplayView, TerminalView
from agentnb.notebook.widgets import HEARS_WHILE_BUSY


def view_for(
    shell: Any,
    open_widgets: OpenWidgets,
    *,
    blocks: bool,
    variable: str = "run",
    stored: bool = True,
) -> CardView | DisplayView | TerminalView:
    """Return a live card if a person may click, a display if only the outputs are kept, or lines for a terminal.

    ``open_widgets`` takes the widgets of cards whose run has ended; ``blocks``: the cell waits for the run; ``variable``
    holds the run; ``stored``: its log is kept.
    """
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return TerminalView()
    return (
        CardView(open_widgets, blocks=blocks, variable=variable, stored=stored)
        if is_attended(kernel)
        else DisplayView(variable=variable)
    )


def is_attended(kernel: Any) -> bool:
    """Return whether a person is present: what executes notebooks without one (nbconvert, papermill, tests) disallows input."""
    return bool(getattr(kernel, "_allow_stdin", False))


def asker(shell: Any) -> Callable[[str], str] | None:
    """Return the function that writes a question and returns the line that the person types; None if nobody is present."""
    kernel = getattr(shell, "kernel", None)
    is_present = sys.stdin is not None and sys.stdin.isatty() if kernel is None else is_attended(kernel)
    return input if is_present else None


def masked(question: str, what: str) -> str:
    """Return the line that the person types, which is not shown; blank if they end the input.

    ``what``: what is asked for. Raises `SettingsError` where it would be shown.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)  # getpass would show what is typed
            # Looked up on each call: a kernel replaces it with its own.
            return getpass.getpass(question)
    except EOFError:
        return ""
    except (StdinNotImplementedError, getpass.GetPassWarning):
        raise SettingsError(f"There is no way to ask for {what} here without showing it", "Use a frontend with input") from None


def can_ask(shell: Any, *, blocks: bool) -> bool:
    """Return whether the person can answer, in the card or with ``%agent answer`` in another cell.

    They cannot while a cell blocks a kernel that receives nothing meanwhile. ``blocks``: the cell waits for the run.
    """
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return not blocks  # a terminal
    return is_attended(kernel) and (HEARS_WHILE_BUSY or not blocks)
