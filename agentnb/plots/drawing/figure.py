"""The figures that plots return: matplotlib figures, made without pyplot, with a description as text.

A notebook shows a plain ``Figure`` only if pyplot has been imported. This one is always shown, and only once.
"""

from __future__ import annotations

import re
from base64 import b64encode
from functools import cache
from html import escape
from io import BytesIO
from typing import TYPE_CHECKING, Any

from agentnb.advice import Install
from agentnb.errors import SettingsError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 100
"""Pixels per inch: a figure 7 inches wide has 700 pixels."""
DARK = {
    "ffffff": "111111",
    "f3f3f3": "262626",
    "dddddd": "3d3d3d",
    "a8a8a8": "757575",
    "5a5a5a": "b0b0b0",
    "222222": "e6e6e6",
    "000000": "ffffff",
    "0072b2": "3d9bd6",
}
"""Colours on a dark page, by the corresponding colour on a light one; the other colours of the palette are visible on both."""
_DARK_RULE = f"@media (prefers-color-scheme:dark){{svg{{{''.join(f'--{light}:#{dark};' for light, dark in DARK.items())}}}}}"
_THEMED = re.compile(rf"(?<=: )#({'|'.join(DARK)})\b")
SHARPNESS = 2
"""Pixels of the picture per pixel on the page, for high-density screens."""


def check_matplotlib() -> None:
    """Raise `SettingsError`, with the install command, if matplotlib is missing."""
    try:
        import matplotlib  # noqa: F401  # only its presence matters
    except ImportError as error:
        raise SettingsError("Plots need the matplotlib package", Install("matplotlib>=3.10", lead="Install it")) from error


def new_figure(width: float, height: float, **settings: Any) -> Figure:
    """Return a new figure of this size in inches."""
    return _kind()(figsize=(width, height), dpi=DPI, **settings)


def describe(figure: Figure, description: str) -> None:
    """Set the figure's description: its text form and, in a notebook, its alternative text."""
    figure.description = description  # type: ignore[attr-defined]  # an attribute of `PlotFigure`


def png_of(figure: Figure) -> bytes:
    """Return the picture as PNG for high-density screens, whatever matplotlib's settings for saving are."""
    file = BytesIO()
    figure.savefig(
        file, format="png", dpi=figure.dpi * SHARPNESS, facecolor=figure.get_facecolor(), transparent=False, backend="agg"
    )
    return file.getvalue()


def html_of(figure: Figure) -> str:
    """Return the picture as HTML that follows the page's theme: an SVG image takes the colour scheme of its element.

    An image runs no code. Its own background makes it legible on any page.
    """
    from matplotlib import rc_context

    file, ground = BytesIO(), figure.get_facecolor()
    with rc_context({"svg.fonttype": "path", "svg.image_inline": True}):  # whatever the person's style
        figure.savefig(file, format="svg", facecolor=ground, transparent=False, backend="svg", metadata={"Date": None})
    drawing = _THEMED.sub(lambda found: f"var(--{found[1]},#{found[1]})", file.getvalue().decode())
    drawing = drawing.replace('<style type="text/css">', f'<style type="text/css">{_DARK_RULE}', 1)
    width, height = (round(length) for length in figure.get_size_inches() * figure.dpi)
    source = b64encode(drawing.encode()).decode()
    alt = escape(getattr(figure, "description", ""))
    return f'<img width="{width}" height="{height}" alt="{alt}" src="data:image/svg+xml;base64,{source}">'


def __getattr__(name: str) -> Any:
    """Return the figure class, created on first use, since unpickling a figure looks it up by name."""
    if name == "PlotFigure":
        return _kind()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


@cache
def _kind() -> type[Figure]:
    from matplotlib.figure import Figure

    class PlotFigure(Figure):
        """A matplotlib figure with a description; notebooks show it without pyplot."""

        description = ""

        def __repr__(self) -> str:
            return self.description or super().__repr__()

        def _repr_png_(self) -> tuple[bytes, dict[str, Any]]:
            """Return the picture for a notebook, unless matplotlib's inline backend is loaded: it makes its own picture."""
            width, height = self.get_size_inches() * self.dpi
            return png_of(self), {"width": round(width), "height": round(height), "alt": self.description}

        def _repr_html_(self) -> str:
            """Return the picture for a notebook whose theme may change."""
            return html_of(self)

    PlotFigure.__module__, PlotFigure.__qualname__ = __name__, "PlotFigure"
    return PlotFigure
