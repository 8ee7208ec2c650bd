"""The widget of a live card: carries messages between the kernel and the browser."""

from __future__ import annotations

from collections import deque
from contextlib import suppress
from functools import cache
from typing import Any
from uuid import uuid4

from traitlets import Unicode

from agentnb.display.card.lost_kernel import inline_styles, remains_html
from agentnb.display.css import style_sheet
from agentnb.notebook.widget_tools import close, hear_while_busy, script, synced_trait

_SOURCES = ("document.js", "remains.js", "story.js", "tools.js", "todo_order.js", "frame.js", "question_form.js", "card.js")
"""The scripts that make up the widget's module, joined in this order: a module sent as text cannot import another file."""
MAX_LEFT_OPEN = 8


@cache
def _widget_class() -> Any:
    import anywidget  # takes 60 ms, and is useless without a frontend that shows widgets

    class CardWidget(anywidget.AnyWidget):
        _esm = script(*_SOURCES, INLINE=inline_styles())
        _css = style_sheet()
        key = synced_trait(Unicode)
        """The id of the widget's model, which the page uses to find the widget in the notebook."""
        remains = synced_trait(Unicode)
        """HTML that the page shows and saves if the kernel dies, since nothing can be requested then."""

    return CardWidget


def make_widget(run_id: str = "") -> Any:
    """Return a card's widget. If the kernel supports it, the widget receives messages even while a cell is running.

    ``run_id``: the run's id, if its log is kept.
    """
    key = uuid4().hex
    return hear_while_busy(_widget_class()(model_id=key, key=key, remains=remains_html(run_id)))


class OpenWidgets:
    """Widgets of ended runs that a page may still show: at most `MAX_LEFT_OPEN`. The oldest are closed first."""

    def __init__(self) -> None:
        self._widgets: deque[Any] = deque()

    def keep(self, widget: Any) -> None:
        """Keep the widget open until `let_go` is called or there are too many."""
        self._widgets.append(widget)
        while len(self._widgets) > MAX_LEFT_OPEN:
            close(self._widgets.popleft())

    def let_go(self, widget: Any) -> None:
        """Close a widget that no page shows any longer."""
        with suppress(ValueError):  # closed already
            self._widgets.remove(widget)
            close(widget)
