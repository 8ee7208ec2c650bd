"""The frontend: which view a run gets, and whether the person can be asked while a cell is running."""

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
from agentnb.notebook.widget_tools import HEARS_WHILE_BUSY, has_kernel


def view_for(
    shell: Any,
    open_widgets: OpenWidgets,
    *,
    blocks: bool,
    variable: str = "run",
    stored: bool = True,
) -> CardView | DisplayView | TerminalView:
    """Return a live card if a person may click, a display if only the outputs are kept, or a view that writes lines to
    a terminal.

    ``open_widgets``: receives the card's widget once its run has ended; ``blocks``: whether the cell waits for the run;
    ``variable``: the variable that holds the run; ``stored``: whether its log is kept.
    """
    if not has_kernel(shell):
        return TerminalView()
    return (
        CardView(open_widgets, blocks=blocks, variable=variable, stored=stored)
        if is_attended(shell)
        else DisplayView(variable=variable)
    )


def is_attended(shell: Any) -> bool:
    """True if the shell has a kernel and a person is present. Unattended execution (nbconvert, papermill, tests) disallows
    input.
    """
    return bool(getattr(getattr(shell, "kernel", None), "_allow_stdin", False))


def asker(shell: Any) -> Callable[[str], str] | None:
    """Return the function that asks the person for a line of input, or None if nobody is present."""
    is_at_terminal = not has_kernel(shell) and sys.stdin is not None and sys.stdin.isatty()
    return input if is_at_terminal or is_attended(shell) else None


def ask_masked(question: str, what: str) -> str:
    """Return a line of hidden input; blank if the person ends the input.

    ``what``: what the question is about. Raises `SettingsError` if the input would be visible.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", getpass.GetPassWarning)  # getpass would echo the input
            # Looked up on each call: a kernel replaces it with its own.
            return getpass.getpass(question)
    except EOFError:
        return ""
    except (StdinNotImplementedError, getpass.GetPassWarning):
        raise SettingsError(
            f"This frontend cannot ask for {what} without showing it", "Use a frontend that supports hidden input"
        ) from None


def can_ask(shell: Any, *, blocks: bool) -> bool:
    """True if the person can answer, in the card or with ``%agent answer`` in another cell.

    False while a cell blocks a kernel that cannot receive messages in the meantime. ``blocks``: whether the cell waits for the
    run.
    """
    if not has_kernel(shell):
        return not blocks  # a terminal
    return is_attended(shell) and (HEARS_WHILE_BUSY or not blocks)
