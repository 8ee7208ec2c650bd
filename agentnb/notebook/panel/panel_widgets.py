"""The panel's widgets: a form, the list of runs, and the area for a run."""

from __future__ import annotations

from functools import cache
from typing import Any
from uuid import uuid4

from traitlets import Dict, Unicode

from agentnb.display.css import style_sheet
from agentnb.notebook.widget_tools import STATIC, close, hear_while_busy, script, synced_trait


@cache
def _part_class() -> Any:
    import anywidget  # takes 60 ms, and is useless without a frontend that shows widgets

    class PanelPart(anywidget.AnyWidget):
        """A part of the panel. The form sends all its fields with the start message, so the latest input is included.

        (ipywidgets' fields send their values separately, and hold one back while the previous one is in transit.)
        """

        _esm = script("document.js", "panel.js")
        _css = style_sheet() + (STATIC / "panel.css").read_text("utf-8")
        part = synced_trait(Unicode)
        offers = synced_trait(Dict)
        chosen = synced_trait(Dict)
        """The current input, kept in case the page is reloaded. Only the browser writes it."""
        html = synced_trait(Unicode)
        selected = synced_trait(Unicode)
        whole = synced_trait(Unicode)
        """Id of the entire panel's model, which the page uses to find it in the notebook."""
        remains = synced_trait(Unicode)
        """Content that the page shows instead if the kernel is gone."""
        note = synced_trait(Unicode)
        error = synced_trait(Unicode)

    return PanelPart


class PanelWidgets:
    """All widgets of a panel, laid out."""

    def __init__(self, remains: str) -> None:
        """``remains``: what replaces the panel when its kernel is gone."""
        import ipywidgets  # type: ignore[import-untyped]  # it has no types; heavy, as above

        make, key = _part_class(), uuid4().hex
        self.form = hear_while_busy(make(part="form", whole=key, remains=remains))
        self.list = hear_while_busy(make(part="list"))
        self.page = hear_while_busy(make(part="page"))
        self.area = ipywidgets.Box()
        self._main = ipywidgets.Box([self.form, self.area])
        self.whole = ipywidgets.Box([self._main, self.list], model_id=key)
        for box, kind in ((self.area, "area"), (self._main, "main"), (self.whole, "whole")):
            box.add_class(f"agentnb-panel-{kind}")

    @property
    def is_open(self) -> bool:
        """True if it can still be displayed."""
        return self.whole.comm is not None

    def close(self) -> None:
        """Remove all widgets from the kernel and the browser."""
        for widget in (self.whole, self._main, self.area, self.page, self.list, self.form):
            close(widget)
