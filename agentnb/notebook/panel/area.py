"""Where the panel shows a run: one at a time, as its live card or as it stays."""

from __future__ import annotations

import threading
from typing import Any

from agentnb.notebook.widgets import close


class Area:
    """Shows one of many places. Used from several threads: of runs, and of what the person does."""

    def __init__(self, box: Any, page: Any) -> None:
        """``box`` holds what is shown; ``page`` is the widget that shows HTML."""
        self._box = box
        self._page = page
        self._shown: RunPlace | None = None
        self._lock = threading.Lock()

    def show(self, place: RunPlace | None) -> None:
        """Show this place from now on, whatever comes to stand in it; None: nothing."""
        with self._lock:
            self._shown = place
            self._draw()

    def is_shown(self, place: RunPlace) -> bool:
        """Whether it is this one."""
        return place is self._shown

    def changed(self, place: RunPlace) -> None:
        """Something else stands there now."""
        with self._lock:
            if place is self._shown:
                self._draw()

    def _draw(self) -> None:
        shown = self._shown
        if shown is None:
            self._box.children = ()
        elif shown.widget is not None:
            self._box.children = (shown.widget,)
        else:
            self._page.html = shown.html
            self._box.children = (self._page,)


class RunPlace:
    """The place of one run, whether it is shown just now or not. A `Place` of its card."""

    def __init__(self, area: Area, html: str = "") -> None:
        self._area = area
        self.widget: Any = None
        self.html = html

    def show(self, widget: Any, meanwhile: dict[str, str]) -> None:
        """The card, which grows by itself."""
        self.widget = widget
        self._area.changed(self)

    def keep(self, run: dict[str, str]) -> None:
        """HTML instead of it."""
        self.widget, self.html = None, run["text/html"]
        self._area.changed(self)

    def clear(self) -> None:
        """The run has never begun: nothing is shown, and its card is closed."""
        widget, self.widget = self.widget, None
        if self._area.is_shown(self):
            self._area.show(None)
        if widget is not None:
            close(widget)
