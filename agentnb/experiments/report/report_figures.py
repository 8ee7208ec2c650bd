"""The figures of a report."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from agentnb.errors import SettingsError
from agentnb.experiments.report.document import Block, Paragraph, Picture
from agentnb.experiments.results.comparison import PASSES, Comparison
from agentnb.experiments.results.experiment_results import Results
from agentnb.plots.drawing.figure import png_of
from agentnb.plots.experiments.cost_against_success import cost_against_success
from agentnb.plots.experiments.differences import differences
from agentnb.plots.experiments.flips import flips
from agentnb.plots.experiments.pass_k_plot import pass_k

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_FLIPS = 3
"""Maximum number of comparisons whose tasks are shown in a figure."""


def figures_of(results: Results, comparisons: Sequence[Comparison]) -> Iterator[Block]:
    """Yield the figures that the data allow or, if matplotlib is missing, what to install."""
    try:
        if comparisons:
            yield _picture("differences", differences([*comparisons]))
            for number, comparison in enumerate(comparisons[:MAX_FLIPS], 1):
                if comparison.value_limits == PASSES and comparison.tasks:
                    yield _picture(f"flips_{number}", flips(comparison))
            if any(len(shares) > 1 for comparison in comparisons for shares in comparison.pass_k.values()):
                yield _picture("pass_k", pass_k([*comparisons]))
        yield _picture("cost_against_success", cost_against_success(results))
    except SettingsError as error:
        yield Paragraph(f"Figures are left out: {error}.")


def _picture(name: str, figure: Figure) -> Picture:
    width, _ = figure.get_size_inches() * figure.dpi
    return Picture(name, png_of(figure), round(width), str(getattr(figure, "description", name)))
