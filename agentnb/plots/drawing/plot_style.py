"""Style of all plots: colours, texts and the frame around the axes.

Plots are drawn for a white background; `DARK` has the colours for dark pages. Colour is never the only cue.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from agentnb.core.messages import encodable
from agentnb.plots.drawing.figure import DPI, check_matplotlib, describe, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

T = TypeVar("T")

# The palette of Okabe and Ito (2008), safe for all kinds of colour blindness.
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILLION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"
INK, FAINT, MANY, LINES, SHADE, WHITE = "#222222", "#5A5A5A", "#A8A8A8", "#DDDDDD", "#F3F3F3", "#FFFFFF"

WIDTH = 7.0
"""Width of every figure in inches: 700 pixels, the width of a narrow notebook."""
AXES_PIXELS = 0.78 * WIDTH * DPI
"""Approximate width in pixels that remains beside long labels."""
MAX_BARS = 15
"""Maximum bars in a plot; the last one sums up those left out."""
_EDGE, _LINE, _TITLE_LINE, _LEGEND_ROW = 0.12, 0.19, 0.24, 0.24
"""Sizes in inches: a figure's margin, and the heights of a line of text, the title and a row of the legend."""
_CHARACTERS = 102
"""Maximum characters on a line of text."""
_RC: dict[str, Any] = {
    "font.family": ["DejaVu Sans"],  # comes with matplotlib: the same figure everywhere
    "font.size": 9,
    "text.color": INK,
    "text.parse_math": False,  # names of tools and models may contain any characters
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "axes.grid": True,
    "grid.color": LINES,
    "grid.linewidth": 0.7,
    "xtick.color": INK,
    "ytick.color": INK,
    "hatch.linewidth": 0.8,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "legend.handlelength": 1.6,
}


class Look(NamedTuple):
    """Appearance of a kind of element, and the name of the kind in the legend."""

    label: str
    color: str
    hatch: str = ""

    @property
    def fill(self) -> dict[str, Any]:
        """The arguments for drawing a bar with this look."""
        return {"facecolor": self.color, "edgecolor": INK if self.hatch else self.color, "hatch": self.hatch, "linewidth": 0.6}


@contextmanager
def plot_style() -> Iterator[None]:
    """Draw with our defaults, whatever the person's matplotlib style; it is restored afterwards.

    Raises `SettingsError` if matplotlib is missing.
    """
    check_matplotlib()
    from matplotlib import style

    with style.context(["default", _RC]):
        yield


def panels(height: float, widths: Sequence[float] = (1.0,)) -> tuple[Figure, list[Axes]]:
    """Return a figure with axes of these relative widths side by side, ``height`` inches high including their labels."""
    figure = new_figure(WIDTH, height, layout="constrained", facecolor=WHITE)
    row = figure.subplots(1, len(widths), squeeze=False, sharey=True, width_ratios=list(widths))
    return figure, list(row[0])


def stacked_panels(height: float) -> tuple[Figure, tuple[Axes, Axes]]:
    """Return a figure with two axes for the same rounds, one above the other; the rounds are labelled on the lower one."""
    figure = new_figure(WIDTH, height, layout="constrained", facecolor=WHITE)
    upper, lower = figure.subplots(2, 1)
    upper.tick_params(labelbottom=False)
    return figure, (upper, lower)


def finish(
    figure: Figure, title: str, about: str, looks: Sequence[Any] = (), notes: Sequence[str] = (), says: str = ""
) -> Figure:
    """Add the frame around the axes, each part on lines of its own, and the figure's description.

    ``title``: what is shown; ``about``: the runs; ``looks``: entries for the legend, each a `Look` or an artist with
    a label; ``says``: additional text for the description.
    """
    width, height = figure.get_size_inches()
    heading, lines = _wrap([about]), _wrap(notes)
    rows = _legend_rows(looks)
    upper = _EDGE + _TITLE_LINE + _LINE * len(heading) + 0.04
    top = upper + _LEGEND_ROW * len(rows) + 0.06
    bottom = _LINE * len(lines) + (_EDGE if lines else 0.06)
    total_height = height + top + bottom
    figure.set_size_inches(width, total_height)
    small: dict[str, Any] = {"fontsize": 8.5, "color": FAINT, "linespacing": 1.25}
    margin = _EDGE / width
    figure.text(margin, 1 - _EDGE / total_height, clean(title), va="top", fontsize=11, fontweight="bold")
    figure.text(margin, 1 - (_EDGE + _TITLE_LINE) / total_height, "\n".join(heading), va="top", **small)
    for index, row in enumerate(rows):
        _add_legend(figure, row, (margin, 1 - (upper + _LEGEND_ROW * index) / total_height))
    figure.text(margin, 0.7 * _EDGE / total_height, "\n".join(lines), va="bottom", **small)
    engine = figure.get_layout_engine()
    assert engine is not None
    engine.set(rect=(0.008, bottom / total_height, 0.984, height / total_height), w_pad=0.03, h_pad=0.03)  # type: ignore[call-arg]
    describe(figure, ". ".join(filter(None, [clean(title), *map(clean, (about, says, *notes))])))
    return figure


def _wrap(texts: Sequence[str]) -> list[str]:
    return [line for text in texts for line in textwrap.wrap(clean(text), _CHARACTERS)]


def empty(title: str, about: str, sentence: str) -> Figure:
    """Return a figure that says why nothing can be drawn."""
    with plot_style():
        figure, (axes,) = panels(0.7)
        axes.set_axis_off()  # axes are needed: a notebook does not show a figure without them
        axes.text(0.5, 0.5, "\n".join(_wrap([sentence])), ha="center", va="center", transform=axes.transAxes, color=INK)
        return finish(figure, title, about, says=sentence)


def clean(text: str) -> str:
    """Return the text on one line, with a placeholder for each character that cannot be drawn."""
    line = " ".join(encodable(text).split())
    if line.isascii() and line.isprintable():
        return line
    drawable = _drawable()
    return "".join(
        character if ord(character) in drawable and character.isprintable() else "\N{REPLACEMENT CHARACTER}"
        for character in line
    )


def short(text: str, most: int = 26) -> str:
    """Return the cleaned text, truncated in the middle, since names often differ at the end."""
    line = clean(text) or "(no name)"
    if len(line) <= most:
        return line
    end = (most - 1) // 2
    return f"{line[: most - 1 - end]}…{line[-end:]}"


def distinct(names: Sequence[str], most: int = 26) -> list[str]:
    """Return shortened names, with numbers on those that would otherwise be equal."""
    seen: dict[str, int] = {}
    labels = []
    for name in names:
        label = short(name, most)
        seen[label] = seen.get(label, 0) + 1
        labels.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return labels


def first_bars(bars: Sequence[T], summed: Callable[[str, Sequence[T]], T]) -> list[T]:
    """Return the bars to draw. ``summed``: makes the last bar, given its name and the bars left out."""
    if len(bars) <= MAX_BARS:
        return [*bars]
    others = bars[MAX_BARS - 1 :]
    return [*bars[: MAX_BARS - 1], summed(f"and {len(others)} others", others)]


def stack(axes: Axes, parts: Sequence[tuple[Look, Sequence[int]]]) -> list[Look]:
    """Draw horizontal bars, stacked from these parts, and return the looks used, for the legend."""
    starts = [0] * len(parts[0][1])
    for look, counts in parts:
        positions = [position for position, count in enumerate(counts) if count]  # an empty bar would still have an edge
        if positions:
            widths, begins = [counts[position] for position in positions], [starts[position] for position in positions]
            axes.barh(positions, widths, 0.72, left=begins, label=look.label, zorder=2, **look.fill)
        starts = [start + count for start, count in zip(starts, counts, strict=True)]
    return [look for look, counts in parts if any(counts)]


def bar_label(axes: Axes, place: int, end: float, text: str) -> None:
    """Write a label next to the end of a horizontal bar."""
    axes.annotate(text, (end, place), (4, 0), textcoords="offset points", va="center", fontsize=8.5)


def bar_axis(axes: Axes, names: Sequence[str]) -> None:
    """Label horizontal bars, with the first at the top."""
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(len(names) - 0.4, -0.6)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def round_axis(axes: Axes, first: int, last: int) -> None:
    """Set up an axis of rounds with whole numbers."""
    axes.set_xlim(first - 0.6, last + 0.6)
    axes.set_xticks(whole_ticks(first, last))
    axes.set_xlabel("round")


def amounts(
    axes: Axes, which: str, top: float, *, low: float = 0, prefix: str = "", unit: float = 1, whole: bool = False, most: int = 6
) -> None:
    """Set up an axis (``x`` or ``y``) of amounts from ``low`` to ``top``, with ticks at round multiples of ``unit``.

    The ticks are fixed, since those that matplotlib makes while drawing would have the person's style.
    """
    from matplotlib.ticker import MaxNLocator

    top = top if top > low else low + unit
    steps = [1, 2, 5, 10] if whole else [1, 2, 2.5, 5, 10]
    ticks = MaxNLocator(most, steps=steps, integer=whole, min_n_ticks=2).tick_values(low / unit, top / unit)
    slack = 0.001 * (top - low) / unit
    positions = [float(at) for at in ticks if low / unit - slack <= at <= top / unit + slack]
    decimals = max((len(f"{at:.10f}".rstrip("0").partition(".")[2]) for at in positions), default=0)
    decimals = max(decimals, 2) if prefix == "$" else decimals
    labels = [f"{prefix}{at:,.{decimals}f}" for at in positions]
    if which == "x":
        axes.set_xlim(low, top)
        axes.set_xticks([at * unit for at in positions], labels)
    else:
        axes.set_ylim(low, top)
        axes.set_yticks([at * unit for at in positions], labels)


def whole_ticks(first: int, last: int, most: int = 15) -> list[int]:
    """Return integers from ``first`` to ``last``: all of them, or the first and multiples of 2, 5, 10 and so on."""
    step = next(size * 10**power for power in range(9) for size in (1, 2, 5) if (last - first) / (size * 10**power) <= most)
    multiples = [at for at in range(first - first % step, last + 1, step) if at > first]
    return [first, *(at for at in multiples if at - first >= step / 2)]


@cache
def _drawable() -> frozenset[int]:
    """Return the code points that the font has in both weights."""
    import matplotlib as mpl
    from matplotlib.ft2font import FT2Font

    folder = Path(mpl.get_data_path()) / "fonts" / "ttf"
    plain, bold = (FT2Font(str(folder / name)).get_charmap().keys() for name in ("DejaVuSans.ttf", "DejaVuSans-Bold.ttf"))
    return frozenset(plain & bold)


def _legend_rows(looks: Sequence[Any]) -> list[list[Any]]:
    """Return the legend's entries in rows, with as many in each as fit."""
    rows: list[list[Any]] = []
    remaining = 0.0
    for look in looks:
        label = look.label if isinstance(look, Look) else str(look.get_label())
        needed = 0.42 + 0.083 * len(label)
        if not rows or needed > remaining:
            rows.append([])
            remaining = WIDTH - 2 * _EDGE
        rows[-1].append(look)
        remaining -= needed
    return rows


def _add_legend(figure: Figure, row: Sequence[Any], position: tuple[float, float]) -> None:
    from matplotlib.patches import Patch

    handles = [Patch(label=item.label, **item.fill) if isinstance(item, Look) else item for item in row]
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=position,
        ncols=len(row),
        borderaxespad=0,
        borderpad=0.2,
        columnspacing=1.4,
    )
