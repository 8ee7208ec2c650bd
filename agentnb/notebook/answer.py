"""The text of a run, as a cell's result."""

from __future__ import annotations

from typing import Any

from agentnb.display.html import answer_html
from agentnb.display.labels import clean
from agentnb.display.style import kept


class Answer(str):
    """A string (equal to ``run.text``) that shows itself as words and not as a Python literal."""

    __slots__ = ()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(clean(str(self)))

    def _repr_html_(self) -> str:
        return kept(answer_html(self))
