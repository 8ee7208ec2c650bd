"""Displays results of experiments as cell results. Apart from other displays, since it loads experiments."""

from __future__ import annotations

from agentnb.display.markup import Html
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.views import results_view
from agentnb.notebook.variable_names import variable_holding


def results_html(results: Results) -> Html:
    """Return the results as HTML, with commands that name their variable."""
    return results_view.results_html(results, variable_holding(results, results_view.USUAL_RESULTS))


def results_text(results: Results) -> str:
    """Return the results as text, with commands that name their variable."""
    return results_view.results_text(results, variable_holding(results, results_view.USUAL_RESULTS))
