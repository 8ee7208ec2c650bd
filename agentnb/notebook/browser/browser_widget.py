"""The trace browser's widget, carrying messages between the kernel and the page."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import uuid4

from traitlets import Unicode

from agentnb.display.css import style_sheet
from agentnb.display.lists.browser import OPENED
from agentnb.notebook.widget_tools import STATIC, hear_while_busy, script, synced_trait

_SOURCES = ("document.js", "tools.js", "browser_view.js", "browser.js")
"""The scripts that make up the widget's module, joined in this order."""


@cache
def _widget_class() -> Any:
    import anywidget  # takes 60 ms, and is useless without a frontend that shows widgets

    class BrowserWidget(anywidget.AnyWidget):
        """A widget without a view: the page replaces the saved form (the cell's output) with the browser.

        A saved notebook therefore contains no widget; JupyterLab would fail to find one when reopening it.
        """

        _esm = script(*_SOURCES, OPENED=OPENED)
        _css = style_sheet() + (STATIC / "browser.css").read_text("utf-8")
        key = synced_trait(Unicode)
        """Part of a class name by which the page finds the saved form."""

    return BrowserWidget


def make_widget() -> Any:
    """Return a browser's widget. If the kernel supports it, the widget receives messages even while a cell is running."""
    return hear_while_busy(_widget_class()(key=uuid4().hex))
