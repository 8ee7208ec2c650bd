"""A comparison as HTML and as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from urllib.parse import quote

from agentnb.display.markup import NOTHING, Html, tag, words
from agentnb.display.texts.labels import pluralize
from agentnb.errors import SettingsError
from agentnb.experiments.defaults import MAX_FLIPS
from agentnb.experiments.results.comparison import Comparison, Comparisons
from agentnb.experiments.results.rows import STATES
from agentnb.experiments.views.comparison_facts import (
    Fact,
    Flip,
    cautions,
    estimates,
    facts,
    flips_of,
    heading,
    several_models,
    states_of,
    verdict,
)
from agentnb.experiments.views.interval_bar import intervals_html
from agentnb.experiments.views.layout import (
    MAX_OF_A_NOTE,
    facts_html,
    facts_text,
    notes_html,
    sentence_html,
    table_html,
    table_text,
    text_of,
    view_html,
)

MAX_FLIPS_IN_TEXT = 10
MAX_OPEN = 5
"""Maximum number of pairs of runs shown unfolded."""
MAX_OF_A_NAME = 120
MAX_CAUTIONS = 3
"""Maximum number of cautions shown with the verdict; the rest are folded."""
WARNING = "Why this could mislead:"
SIDE_BY_SIDE = "side by side, c = compare(...)"


def comparison_html(comparison: Comparison) -> Html:
    """Render the difference with its interval and basis, the pairs of runs that differ, and all notes."""
    head = heading(comparison)
    headings, rows = states_of(comparison)
    states = table_html(headings, rows, numbers=range(1, 1 + len(STATES)))
    try:
        lines, limits = [*facts(comparison)], comparison.value_limits
        drawn = intervals_html(estimates(comparison), None if limits is None else limits[1] - limits[0])
        shown = (sentence_html(verdict(comparison)), drawn, _cautions(comparison), facts_html(_rows(lines, "open")))
        folded = (states, facts_html(_rows(lines, "drawn", "folded")), notes_html(cautions(comparison)[MAX_CAUTIONS:]))
        more = tag("details", "exp-flips", tag("summary", "exp-summary", "Values, tests and notes"), *folded)
        return view_html(*head, *shown, _flips(comparison), more)
    except SettingsError as error:  # the extra `stats` is not installed
        return view_html(*head, sentence_html(str(error)), states)


def comparison_text(comparison: Comparison) -> str:
    """Render the comparison as text."""
    lines, states = [" · ".join(heading(comparison))], table_text(*states_of(comparison))
    try:
        warnings = cautions(comparison)
        lines += [verdict(comparison), *([f"{WARNING} {'; '.join(warnings[:MAX_CAUTIONS])}"] if warnings else [])]
        details = [*facts(comparison)]
        lines += [*facts_text(_rows(details, "open", "drawn")), *_flip_lines(comparison), *states]
        lines += [*facts_text(_rows(details, "folded")), *[f"Note: {note}" for note in warnings[MAX_CAUTIONS:]]]
    except SettingsError as error:
        return text_of([*lines, str(error), *states])
    return text_of(lines)


def comparisons_html(several: Comparisons) -> str:
    """Render several comparisons, one below the other."""
    return "".join(map(comparison_html, several))


def comparisons_text(several: Comparisons) -> str:
    """Render several comparisons as text."""
    return "\n\n".join(map(comparison_text, several))


def _rows(lines: Iterable[Fact], *places: str) -> list[tuple[str, str, str]]:
    return [fact[:3] for fact in lines if fact.place in places]


def _cautions(comparison: Comparison) -> Html:
    warnings = cautions(comparison)[:MAX_CAUTIONS]
    if not warnings:
        return NOTHING
    text = "; ".join([str(words(warning, MAX_OF_A_NOTE)) for warning in warnings])
    return tag("div", "exp-caution", tag("b", "", WARNING), " ", Html(text))


def _flips(comparison: Comparison) -> Html:
    count = len(comparison.flips)
    if not count:
        return NOTHING
    flips = flips_of(comparison, MAX_FLIPS)
    columns: list[tuple[str, Callable[[Flip], str]]] = [("task", lambda flip: words(flip.task, MAX_OF_A_NAME))]
    columns += [("model", lambda flip: words(flip.model, MAX_OF_A_NAME))] if several_models(flips) else []
    columns += [("repeat", lambda flip: str(flip.repeat))] if any(flip.repeat > 1 for flip in flips) else []
    first = len(columns)
    columns += [
        (comparison.a, lambda flip: _link_value(flip.a, flip.log_a, flip.run_a)),
        (comparison.b, lambda flip: _link_value(flip.b, flip.log_b, flip.run_b)),
        (SIDE_BY_SIDE, lambda flip: tag("code", "exp-code", flip.command)),
    ]
    headings, rows = [name for name, _ in columns], [[cell(flip) for _, cell in columns] for flip in flips]
    more = tag("div", "exp-hint", f"{count - len(flips):,} more in c.flips") if count > len(flips) else NOTHING
    summary = tag("summary", "exp-summary", f"{pluralize(count, 'pair')} of runs with different values")
    table = table_html(headings, rows, numbers=(first, first + 1))
    return tag("details", "exp-flips", summary, table, more, open=count <= MAX_OPEN)


def _link_value(value: str, log: str, run_id: str) -> Html:
    """Return a value that links to the log of its run, if the log is a file."""
    return tag("a", "", value, href=quote(log), title=f"Log of run {run_id}") if log else words(value)


def _flip_lines(comparison: Comparison) -> list[str]:
    count = len(comparison.flips)
    if not count:
        return []
    flips = flips_of(comparison, MAX_FLIPS_IN_TEXT)
    with_model = several_models(flips)
    rows = [[f"{flip.task} ({flip.model})" if with_model else flip.task, flip.a, flip.b, flip.command] for flip in flips]
    headings = ["task", comparison.a, comparison.b, SIDE_BY_SIDE]
    more = [f"  {count - len(flips):,} more in c.flips"] if count > len(flips) else []
    return [f"{pluralize(count, 'pair')} of runs with different values:", *table_text(headings, rows), *more]
