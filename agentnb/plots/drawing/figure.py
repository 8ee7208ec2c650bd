"""The figures that every plot returns: matplotlib figures, made without pyplot, with a description in words.

A notebook shows a plain ``Figure`` only after pyplot was imported. This one is always shown, and once.
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
"""Picture pixels per pixel on the page, for high-density screens."""


def check_matplotlib() -> None:
    """Raise `SettingsError` with the install command if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401  # only its presence matters
    except ImportError as error:
        raise SettingsError("Plots need the package matplotlib", Install("matplotlib>=3.10", lead="Install it")) from error


def new_figure(width: float, height: float, **settings: Any) -> Figure:
    """Return a new figure of this size in inches."""
    return _kind()(figsize=(width, height), dpi=DPI, **settings)


def describe(figure: Figure, description: str) -> None:
    """Set the figure's description, which is its text form and its alternative text in a notebook."""
    figure.description = description  # type: ignore[attr-defined]  # an attribute of `PlotFigure`


def png_of(figure: Figure) -> bytes:
    """Return the picture as PNG for high-density screens, whatever matplotlib's settings for saving."""
    file = BytesIO()
    figure.savefig(
        file, format="png", dpi=figure.dpi * SHARPNESS, facecolor=figure.get_facecolor(), transparent=False, backend="agg"
    )
    return file.getvalue()


def __getattr__(name: str) -> Any:
    """Return the class of figures, created on first use: unpickling a figure looks it up by name."""
    if name == "PlotFigure":
        return _kind()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _kind() -> type[Figure]:
    from matplotlib.figure import Figure

    class PlotFigure(Figure):
        """A matplotlib figure with a description, which notebooks show without pyplot."""

        description = ""

        def __repr__(self) -> str:
            return self.description or super().__repr__()

        def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
            """Return the picture for a notebook, unless matplotlib's inline backend is loaded, which makes its own."""
            width, height = self.get_size_inches() * self.dpi
            return png_of(self), {"width": round(width), "height": round(height), "alt": self.description}

    PlotFigure.__module__, PlotFigure.__qualname__ = __name__, "PlotFigure"
    return PlotFigure
