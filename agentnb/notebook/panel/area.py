"""The area in which the panel shows a run: its live card, or its final form."""

from __future__ import annotations

import threading
from typing import Any


class Area:
    """Shows one of many places. Used from several threads: those of the runs, and the one that handles the person's actions."""

    def __init__(self, box: Any, page: Any) -> None:
        """``box`` contains the displayed widget; ``page`` is the widget for HTML."""
        self._box = box
        self._page = page
        self._shown: RunPlace | None = None
        self._lock = threading.Lock()

    def show(self, place: RunPlace | None) -> None:
        """Show this place and keep its content up to date; None clears the area."""
        with self._lock:
            self._shown = place
            self._draw()

    def is_shown(self, place: RunPlace) -> bool:
        """True if this place is shown."""
        return place is self._shown

    def redraw(self, place: RunPlace) -> None:
        """Redraw the area if this place, whose content has changed, is shown."""
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
    """The place of a run, whether shown or hidden. A `Place` for its card."""

    def __init__(self, area: Area, html: str = "") -> None:
        self._area = area
        self.widget: Any = None
        self.html = html

    def show(self, widget: Any, meanwhile: dict[str, str]) -> None:
        """Show the live card; it updates itself."""
        self.widget = widget
        self._area.redraw(self)

    def keep(self, run: dict[str, str]) -> None:
        """Replace the card with HTML."""
        self.widget, self.html = None, run["text/html"]
        self._area.redraw(self)
