"""The widget of a live card: what carries its messages between the kernel and the browser."""

from __future__ import annotations

import secrets
from collections import deque
from contextlib import suppress
from functools import cache
from typing import Any

from traitlets import Unicode

from agentnb.display.style import style_sheet
from agentnb.notebook.widgets import STATIC, close, heard_while_busy

_SOURCES = ("story.js", "card.js")
"""Joined in this order they are the widget's module: a browser that is sent a text has nothing to import a second file from."""
MAX_LEFT_OPEN = 8


@cache
def _widget_class() -> Any:
    import anywidget  # 60 ms, and of no use without a frontend that shows widgets

    class CardWidget(anywidget.AnyWidget):
        _esm = "\n".join((STATIC / name).read_text("utf-8") for name in _SOURCES)
        _css = style_sheet()
        key = Unicode().tag(sync=True)

    return CardWidget


def make_widget() -> Any:
    """A widget for one card. Its messages are heard while a cell runs, where the kernel can do that at all."""
    return heard_while_busy(_widget_class()(key=secrets.token_hex(8)))


class LeftOpen:
    """Widgets of runs that have ended and that a page may still show: at most so many, the oldest are closed first."""

    def __init__(self) -> None:
        self._widgets: deque[Any] = deque()

    def keep(self, widget: Any) -> None:
        """Leave it open until `let_go`, or until there are too many."""
        self._widgets.append(widget)
        while len(self._widgets) > MAX_LEFT_OPEN:
            close(self._widgets.popleft())

    def let_go(self, widget: Any) -> None:
        """No page shows it any more."""
        with suppress(ValueError):  # closed already
            self._widgets.remove(widget)
            close(widget)
