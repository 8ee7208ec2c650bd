"""The widget of a live card: what carries its messages between the kernel and the browser."""

from __future__ import annotations

import secrets
from collections import deque
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from traitlets import Unicode

from agentnb.display.style import style_sheet

_STATIC = Path(__file__).parents[1] / "static"
_SOURCES = ("story.js", "card.js")
"""Joined in this order they are the widget's module: a browser that is sent a text has nothing to import a second file from."""
MAX_LEFT_OPEN = 8
HEARS_WHILE_BUSY = int(version("ipykernel").partition(".")[0]) >= 7
"""Whether this kernel hears a widget while a cell keeps its main thread busy: only with subshells."""


@cache
def _widget_class() -> Any:
    import anywidget  # 60 ms, and of no use without a frontend that shows widgets

    class CardWidget(anywidget.AnyWidget):
        _esm = "\n".join((_STATIC / name).read_text("utf-8") for name in _SOURCES)
        _css = style_sheet()
        key = Unicode().tag(sync=True)

    return CardWidget


def make_widget() -> Any:
    """A widget for one card. Its messages are heard while a cell runs, where the kernel can do that at all."""
    return heard_while_busy(_widget_class()(key=secrets.token_hex(8)))


def heard_while_busy(widget: Any) -> Any:
    """The same widget; what the browser says to it is heard while a cell runs, where the kernel can do that at all, and touches
    nothing else.
    """
    # ipykernel 7.4 sends what the browser says to the shell that last spoke on the comm, which is the busy one. Its way back
    # to the browser's own subshell is private; where it is called otherwise, nothing is changed.
    if hasattr(widget.comm, "_reply_subshell_for"):
        widget.comm._reply_subshell_for = lambda data, default: default
    # Each message would fire the hooks of a cell, on the thread that hears it: matplotlib's shows and closes the figure that a
    # tool is just drawing. Ours go straight to the widget.
    if callable(straight := getattr(widget.comm, "_msg_callback", None)):
        widget.comm.handle_msg = straight
    return widget


def view_bundle(widget: Any) -> dict[str, Any]:
    """What a cell's output holds to show the widget."""
    return {"application/vnd.jupyter.widget-view+json": {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}}


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


def close(widget: Any) -> None:
    """Take it from the kernel and from the browser, with the layout that each widget has."""
    layout = widget.layout
    widget.close()
    layout.close()
