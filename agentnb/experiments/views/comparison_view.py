"""A comparison as HTML and as text."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

from agentnb.display.markup import NOTHING, Html, tag, words
from agentnb.display.texts.labels import counted
from agentnb.errors import SettingsError
from agentnb.experiments.defaults import MAX_FLIPS
from agentnb.experiments.results.comparison import Comparison, Comparisons, signed
from agentnb.experiments.results.rows import STATES
from agentnb.experiments.statistics.paired import Difference
from agentnb.experiments.views.comparison_facts import Flip, facts, flips_of, heading, several_models, states_of, verdict
from agentnb.experiments.views.interval_bar import interval_html
from agentnb.experiments.views.layout import (
    facts_html,
    facts_text,
    notes_html,
    sentence_html,
    table_html,
    table_text,
    text_of,
    view_html,
)
from agentnb.experiments.views.numbers import limits_told

MAX_FLIPS_IN_TEXT = 10
MAX_OPEN = 5
"""Pairs of runs that are shown unfolded."""
MAX_OF_A_NAME = 120


def comparison_html(comparison: Comparison) -> Html:
    """Return the difference with its interval, what it rests on, the pairs of runs that differ, and all notes."""
    head = heading(comparison)
    headings, rows = states_of(comparison)
    states = table_html(headings, rows, numbers=range(1, 1 + len(STATES)))
    try:
        parts = (sentence_html(verdict(comparison)), _bar(comparison), states, facts_html(facts(comparison)))
        return view_html(*head, *parts, _flips(comparison), notes_html((*comparison.warnings, *comparison.notes)))
    except SettingsError as error:  # the extra `stats` is not installed
        return view_html(*head, sentence_html(str(error)), states)


def comparison_text(comparison: Comparison) -> str:
    """Return the same as lines of text."""
    lines, states = [" · ".join(heading(comparison))], table_text(*states_of(comparison))
    try:
        lines += [verdict(comparison), *states, *facts_text(facts(comparison)), *_flip_lines(comparison)]
    except SettingsError as error:
        return text_of([*lines, str(error), *states])
    return text_of([*lines, *[f"Note: {note}" for note in (*comparison.warnings, *comparison.notes)]])


def comparisons_html(several: Comparisons) -> str:
    """Return several comparisons below each other."""
    return "".join(map(comparison_html, several))


def comparisons_text(several: Comparisons) -> str:
    """Return the same as text."""
    return "\n\n".join(map(comparison_text, several))


def _bar(comparison: Comparison) -> Html:
    analysis = comparison.analysis
    if not isinstance(analysis, Difference) or comparison.is_identical:
        return NOTHING
    bar = interval_html(analysis.value, analysis.interval)
    if not bar:
        return NOTHING
    number = tag("span", "exp-big", signed(analysis.value))
    return tag("div", "exp-drawn", number, tag("span", "exp-limits", limits_told(analysis.interval)), bar)


def _flips(comparison: Comparison) -> Html:
    count = len(comparison.flips)
    if not count:
        return NOTHING
    flips = flips_of(comparison, MAX_FLIPS)
    columns: list[tuple[str, Callable[[Flip], str]]] = [("task", lambda one: words(one.task, MAX_OF_A_NAME))]
    columns += [("model", lambda one: words(one.model, MAX_OF_A_NAME))] if several_models(flips) else []
    columns += [("repeat", lambda one: str(one.repeat))] if any(one.repeat > 1 for one in flips) else []
    first = len(columns)
    columns += [
        (comparison.a, lambda one: _linked(one.a, one.log_a, one.run_a)),
        (comparison.b, lambda one: _linked(one.b, one.log_b, one.run_b)),
        ("side by side", lambda one: tag("code", "exp-code", one.command)),
    ]
    headings, rows = [name for name, _ in columns], [[cell(one) for _, cell in columns] for one in flips]
    more = tag("div", "exp-hint", f"{count - len(flips):,} more in c.flips") if count > len(flips) else NOTHING
    summary = tag("summary", "exp-summary", f"{counted(count, 'pair')} of runs with different values")
    table = table_html(headings, rows, numbers=(first, first + 1))
    return tag("details", "exp-flips", summary, table, more, open=count <= MAX_OPEN)


def _linked(value: str, log: str, run_id: str) -> Html:
    """Return a value, and a link to the log of its run, if that is a file."""
    return tag("a", "", value, href=quote(log), title=f"Log of run {run_id}") if log else words(value)


def _flip_lines(comparison: Comparison) -> list[str]:
    count = len(comparison.flips)
    if not count:
        return []
    flips = flips_of(comparison, MAX_FLIPS_IN_TEXT)
    with_model = several_models(flips)
    rows = [[f"{one.task} ({one.model})" if with_model else one.task, one.a, one.b, one.command] for one in flips]
    headings = ["task", comparison.a, comparison.b, "side by side"]
    more = [f"  {count - len(flips):,} more in c.flips"] if count > len(flips) else []
    return [f"{counted(count, 'pair')} of runs with different values:", *table_text(headings, rows), *more]
