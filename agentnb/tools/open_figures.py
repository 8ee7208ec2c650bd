"""Figures that a tool opens in pyplot and returns: closed once rendered, since otherwise the notebook would show them again."""

from __future__ import annotations

import sys
from typing import Any

from agentnb.tools.pictures import figure_of
from agentnb.tools.rendering import MAX_ITEMS

REGISTER = "matplotlib._pylab_helpers"
"""Module that contains pyplot's registry of open figures."""


def open_figures() -> list[Any]:
    """Return the open figures of pyplot; empty if it is not loaded."""
    if REGISTER not in sys.modules:  # checked in every call
        return []
    held = _figure_registry()
    return [] if held is None else [manager.canvas.figure for manager in held.get_all_fig_managers()]


def close_returned(value: Any, before: list[Any]) -> None:
    """Close the figures in the returned value, except those open ``before`` the call and those in windows.

    A closed figure can still be rendered, changed and saved.
    """
    held = _figure_registry()
    if held is None:  # in every call: quick return unless pyplot is loaded
        return
    current = open_figures()
    items = value if isinstance(value, list | tuple) and len(value) <= MAX_ITEMS else (value,)
    for figure in map(figure_of, items):
        if _is_in(figure, current) and not _is_in(figure, before) and figure.canvas.required_interactive_framework is None:
            held.destroy_fig(figure)


def _figure_registry() -> Any:
    """Return matplotlib's registry of the open figures that the notebook shows below a cell; None if it is not loaded."""
    return getattr(sys.modules.get(REGISTER), "Gcf", None)


def _is_in(figure: Any, figures: list[Any]) -> bool:
    return any(figure is candidate for candidate in figures)
