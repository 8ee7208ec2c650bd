"""The widget of a live card: carries messages between the kernel and the browser."""

from __future__ import annotations

import secrets
from collections import deque
from contextlib import suppress
from functools import cache
from typing import Any

from traitlets import Unicode

from agentnb.display.style import style_sheet
from agentnb.notebook.widgets import STATIC, close, heard_while_busy

_SOURCES = ("story.js", "tools.js", "card.js")
"""Scripts that form the widget's module, joined in this order: a module sent as text cannot import a second file."""
MAX_LEFT_OPEN = 8


@cache
def _widget_class() -> Any:
    import anywidget  # takes 60 ms, and is useless without a frontend that shows widgets

    class CardWidget(anywidget.AnyWidget):
        _esm = "\n".join((STATIC / name).read_text("utf-8") for name in _SOURCES)
        _css = style_sheet()
        key = Unicode().tag(sync=True)

    return CardWidget


def make_widget() -> Any:
    """Return a widget for one card. Its messages are received while a cell runs, if the kernel supports that."""
    return heard_while_busy(_widget_class()(key=secrets.token_hex(8)))


class LeftOpen:
    """Widgets of ended runs that a page may still show: at most `MAX_LEFT_OPEN`, the oldest are closed first."""

    def __init__(self) -> None:
        self._widgets: deque[Any] = deque()

    def keep(self, widget: Any) -> None:
        """Keep the widget open until `let_go`, or until there are too many."""
        self._widgets.append(widget)
        while len(self._widgets) > MAX_LEFT_OPEN:
            close(self._widgets.popleft())

    def let_go(self, widget: Any) -> None:
        """Close a widget that no page shows any more."""
        with suppress(ValueError):  # closed already
            self._widgets.remove(widget)
            close(widget)
