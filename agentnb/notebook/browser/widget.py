"""The widget of the trace browser: carries messages between the kernel and the browser of the person."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import uuid4

from traitlets import Unicode

from agentnb.display.lists.browser import OPENED
from agentnb.display.style import style_sheet
from agentnb.notebook.widgets import STATIC, heard_while_busy, script

_SOURCES = ("document.js", "tools.js", "browser_view.js", "browser.js")
"""Scripts that form the widget's module, joined in this order."""


@cache
def _widget_class() -> Any:
    import anywidget  # takes 60 ms, and is useless without a frontend that shows widgets

    class BrowserWidget(anywidget.AnyWidget):
        """Has no view of its own: the page puts the browser in the place of the saved form, which is the output of the cell.

        So a saved notebook holds no widget, which JupyterLab would look for in vain when the notebook is opened again.
        """

        _esm = script(*_SOURCES, OPENED=OPENED)
        _css = style_sheet() + (STATIC / "browser.css").read_text("utf-8")
        key = Unicode().tag(sync=True)
        """Is part of a class of the saved form, by which the page finds it."""

    return BrowserWidget


def make_widget() -> Any:
    """Return the widget of one browser. Its messages are received while a cell runs, if the kernel supports that."""
    return heard_while_busy(_widget_class()(key=uuid4().hex))
