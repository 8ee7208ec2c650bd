"""The figure that every plot returns: matplotlib's own, made without pyplot, with a description in words.

A plain ``Figure`` is shown by a notebook only once pyplot was imported. This one is shown in any case, and once.
"""

from __future__ import annotations

from functools import cache
from io import BytesIO
from typing import TYPE_CHECKING, Any

from agentnb.advice import Install
from agentnb.errors import SettingsError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 100
"""Pixels per inch: a figure of 7 inches is 700 pixels wide."""
SHARPNESS = 2
"""Pixels in the picture for each pixel of its width on the page, for screens of high density."""


def check_matplotlib() -> None:
    """Raise `SettingsError`, which says what to install, if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401  # whether it is there is all that is asked
    except ImportError as error:
        raise SettingsError("Plots need the package matplotlib", Install("matplotlib>=3.10", lead="Install it")) from error


def new_figure(width: float, height: float, **settings: Any) -> Figure:
    """Return a new figure of this size, in inches."""
    return _kind()(figsize=(width, height), dpi=DPI, **settings)


def describe(figure: Figure, description: str) -> None:
    """Set what the figure says of itself in words: its text form, and its alternative text in a notebook."""
    figure.description = description  # type: ignore[attr-defined]  # of `PlotFigure`


def png_of(figure: Figure) -> bytes:
    """Return the picture as PNG, for screens of high density; settings of matplotlib's for saving do not change it."""
    file = BytesIO()
    figure.savefig(
        file, format="png", dpi=figure.dpi * SHARPNESS, facecolor=figure.get_facecolor(), transparent=False, backend="agg"
    )
    return file.getvalue()


def __getattr__(name: str) -> Any:
    """Return the class of the figures, which is made on first use: unpickling a figure asks for it by name."""
    if name == "PlotFigure":
        return _kind()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _kind() -> type[Figure]:
    from matplotlib.figure import Figure

    class PlotFigure(Figure):
        """A matplotlib figure that a notebook shows without pyplot, and that describes itself."""

        description = ""

        def __repr__(self) -> str:
            return self.description or super().__repr__()

        def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
            """Return the picture for a notebook; used unless matplotlib's inline backend is loaded, which makes its own."""
            width, height = self.get_size_inches() * self.dpi
            return png_of(self), {"width": round(width), "height": round(height), "alt": self.description}

    PlotFigure.__module__, PlotFigure.__qualname__ = __name__, "PlotFigure"
    return PlotFigure
