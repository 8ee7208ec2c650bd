"""The results of an experiment as HTML and as text."""

from __future__ import annotations

from agentnb.detect.intervals import Share
from agentnb.display.markup import Html
from agentnb.display.texts.labels import first_line, pluralize
from agentnb.display.texts.states import end_words
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.views.layout import (
    hint_html,
    notes_html,
    sentence_html,
    table_html,
    table_text,
    text_of,
    view_html,
)
from agentnb.experiments.views.numbers import UNKNOWN, format_mean, total_money

USUAL_RESULTS = "results"
"""The variable of ``%%experiment``."""
MAX_REASONS = 12
MAX_OF_A_REASON = 160
NO_DIFFERENCE = "Each interval describes a single variant and says nothing about differences"
COVERED = "Differences between variants are hidden until all runs are complete"


def results_html(results: Results, variable: str = USUAL_RESULTS) -> Html:
    """Render the variants with their runs and means, the reasons why runs are incomplete, and all notes.

    ``variable``: the variable that holds the results.
    """
    reasons = [[str(count), first_line(reason, MAX_OF_A_REASON)] for reason, count in _reasons(results)]
    failed = table_html(["runs", "did not complete because"], reasons, numbers=(0,)) if reasons else ""
    return view_html(
        "Results",
        _about(results),
        sentence_html(_sentence(results)),
        table_html(*means_of(results), numbers=range(1, 5)),
        failed,
        notes_html(results.notes),
        hint_html(_hint(results, variable)),
    )


def results_text(results: Results, variable: str = USUAL_RESULTS) -> str:
    """Render the results as text; ``variable`` as for `results_html`."""
    reasons = [f"  {count} did not complete: {first_line(reason, MAX_OF_A_REASON)}" for reason, count in _reasons(results)]
    lines = [f"Results · {_about(results)}", _sentence(results), *table_text(*means_of(results)), *reasons]
    return text_of([*lines, *[f"Note: {note}" for note in results.notes], _hint(results, variable)])


def _about(results: Results) -> str:
    return f"{results.plan.id} · {pluralize(len(results.rows), 'run')} · primary {results.primary}"


def _sentence(results: Results) -> str:
    if results.is_covered:
        return f"{pluralize(results.missing, 'run')} missing. {COVERED}."
    return ""


def means_of(results: Results) -> tuple[list[str], list[list[str]]]:
    """Return runs by variant and, unless they are covered, means and cost, as headings and rows."""
    outcomes = [] if results.is_covered else ["completed", f"mean {results.primary}", "cost"]
    return ["variant", "runs", *outcomes, *(["sandbox"] if results.sandboxes else [])], _rows(results)


def _rows(results: Results) -> list[list[str]]:
    sandboxes = {name: [results.sandboxes.get(name, "")] if results.sandboxes else [] for name in results.variants}
    if results.is_covered:
        return [[name, f"{len(results.of(name)):,}", *sandboxes[name]] for name in results.variants]
    means = results.means()
    cells = []
    for name in results.variants:
        rows = results.of(name)
        completed = sum(row.is_completed for row in rows)
        cost = total_money(row.cost for row in rows)
        cells.append([name, f"{len(rows):,}", f"{completed:,}", _mean(means[name]), cost, *sandboxes[name]])
    return cells


def _mean(share: Share) -> str:
    if share.value is None:
        return UNKNOWN
    if share.low is None or share.high is None:
        return f"{share.value:.3g}"
    return format_mean(share.value, (share.low, share.high))


def _reasons(results: Results) -> list[tuple[str, int]]:
    return [(end_words(reason), count) for reason, count in results.failures.items()][:MAX_REASONS]


def _hint(results: Results, variable: str) -> str:
    if results.is_covered:
        if results.records is not None and results.records.is_running:
            return "The experiment is running: call results() again when it has ended"
        return "To complete the missing runs, run the experiment again"
    if results.is_by_round:
        return f"Short-term effects of each guidance set: lift({variable})"
    if len(results.variants) < 2:
        return f"All rows: {variable}.table()"
    if results.look is not None and not results.look.is_last:
        return f"Compare at this look: compare({variable}). For the next look, run the experiment again. {NO_DIFFERENCE}"
    a, b = results.variants[1], results.variants[0]
    return f"Compare: compare({variable}, {a!r}, {b!r}). {NO_DIFFERENCE}"
