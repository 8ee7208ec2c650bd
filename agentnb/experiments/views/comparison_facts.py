"""The facts of a comparison, used in both its text and its HTML."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from math import isnan
from os.path import relpath
from pathlib import Path
from statistics import fmean
from typing import Literal, NamedTuple

from agentnb.display.texts.labels import first_line, pluralize
from agentnb.display.texts.states import end_words
from agentnb.experiments.design import describe_price
from agentnb.experiments.planning.experiment_checks import MEASURES
from agentnb.experiments.results.comparison import (
    PASSES,
    Comparison,
    count_units,
    describe_equal,
    format_difference,
    format_differences,
    log_of,
)
from agentnb.experiments.results.rows import STATES
from agentnb.experiments.results.values import task_means
from agentnb.experiments.statistics.paired import Difference
from agentnb.experiments.statistics.task_values import TooFewTasks
from agentnb.experiments.views.numbers import UNKNOWN, format_estimate, format_mean, format_p, format_ratio

MAX_NAMED = 3
"""Maximum number of omitted pairs that are named."""
MAX_REASONS = 2
"""Maximum number of reasons for missing values named per variant."""
MAX_OF_A_REASON = 80
RATIO_NAMES = {"cost": "Cost", "tokens": "Tokens", "seconds": "Time"}
NOT_RANDOMISED = "not randomised: completion can depend on the variant"
_OF_RATIOS = "relative to {!r}: geometric mean of the tasks' ratios"


class Fact(NamedTuple):
    """A line in a comparison: its name, and its value in words."""

    name: str
    value: str
    meaning: str = ""
    """Explanation of the number."""
    place: Literal["open", "drawn", "folded"] = "open"
    """``open``: always shown. ``drawn``: folded on a page, where a sentence or picture shows it. ``folded``: always folded."""


class Estimate(NamedTuple):
    """An estimate of the primary to draw: the difference over only some of the runs, or with some values imputed."""

    name: str
    value: Difference
    p_value: str = ""
    """Its p value in words."""


class Flip(NamedTuple):
    """A pair of runs with different values."""

    task: str
    model: str
    repeat: int
    """Number of the repeat, from 1."""
    a: str
    b: str
    run_a: str
    run_b: str
    log_a: str
    """Path of the log relative to the current folder; empty if it was not stored."""
    log_b: str
    command: str
    """The command that shows both runs side by side."""


def heading(comparison: Comparison) -> tuple[str, str]:
    """Return the names of the variants, and a line that names the primary and the experiment."""
    source = f" · experiment {comparison.experiment}" if comparison.experiment else ""
    return f"{comparison.a!r} minus {comparison.b!r}", f"{comparison.primary} · paired by task{source}"


def verdict(comparison: Comparison) -> str:
    """Return the means, whether there is a difference and on what basis, and whether missing values could change the
    verdict.
    """
    sure = f" {comparison.robustness}." if comparison.robustness else ""
    return f"{shares(comparison)}{_verdict(comparison)}{sure}"


def cautions(comparison: Comparison) -> list[str]:
    """Return the reasons why the comparison could be misleading, ordered by importance."""
    arms = ((comparison.a, comparison.rows_a), (comparison.b, comparison.rows_b))
    ended = [(name, len(rows), sum(row.status == "failed" for row in rows)) for name, rows in arms]
    failed = [
        f"{count:,} of {pluralize(runs, 'run')} of {name!r} ended with an error or an unusable reply"
        for name, runs, count in ended
        if count
    ]
    return [*failed, *comparison.warnings, *comparison.notes]


def estimates(comparison: Comparison) -> list[Estimate]:
    """Return the estimates to draw: all runs, completed runs, and the worst and best case for missing values."""
    if comparison.is_identical or not isinstance(comparison.analysis, Difference):
        return []
    readings: list[tuple[str, object]] = [("all runs", comparison.analysis)]
    if not all(row.is_completed for row in (*comparison.rows_a, *comparison.rows_b)):
        readings.append(("completed runs", comparison.of_completed))
    readings += [(f"missing values {name}", value) for name, value, _ in _cases(comparison)]
    return [
        Estimate(name, value, _p_words(comparison, value) if value.interval else "")
        for name, value in readings
        if isinstance(value, Difference)
    ]


def _p_words(comparison: Comparison, estimate: Difference) -> str:
    adjusted = comparison.p_adjusted if estimate is comparison.analysis else None
    return format_p(estimate.p_value) if adjusted is None else f"{format_p(adjusted)}, Holm"


def shares(comparison: Comparison) -> str:
    """Return the means, as shares for a pass/fail primary; empty if a correction changes them."""
    if comparison.quality is not None or comparison.is_identical or not isinstance(comparison.analysis, Difference):
        return ""
    is_pass = comparison.value_limits == PASSES and comparison.primary not in MEASURES
    a, b = (f"{100 * mean:.3g} %" if is_pass else f"{mean:.3g}" for mean in _task_means(comparison))
    return f"{comparison.primary}: {comparison.a!r} {a}, {comparison.b!r} {b}. "


def estimate(comparison: Comparison) -> str:
    """Return the difference as a sentence that follows the verdict, which has the means; empty if it is unknown."""
    analysis = comparison.analysis
    if not isinstance(analysis, Difference) or comparison.is_identical:
        return ""
    return f" Difference: {_difference(comparison, analysis)}."


def _verdict(comparison: Comparison) -> str:
    analysis = comparison.analysis
    if comparison.missing or not isinstance(analysis, Difference):
        return f"{comparison.missing}."
    more = comparison.a if analysis.value > 0 else comparison.b
    rests = _ground(comparison) if comparison.rests_on_incomplete else ""
    equal = "" if analysis.interval else _describe_equal(comparison, analysis)
    if comparison.is_shown:
        return f"A difference is shown{_at_look(comparison)}: {comparison.primary} is higher with {more!r}.{equal}{rests}"
    adjusted = f" after adjusting for {comparison.family} comparisons" if comparison.p_adjusted is not None else ""
    return f"No difference is shown{_at_look(comparison)}{adjusted}.{equal or _detectable(comparison)}"


def _at_look(comparison: Comparison) -> str:
    return "" if comparison.look is None else f" at {comparison.look.name}"


def _ground(comparison: Comparison) -> str:
    completed = comparison.of_completed
    if not isinstance(completed, Difference):
        return " Too few pairs completed to say whether this holds without runs that hit a limit or failed."
    if _is_zero(completed):
        return " All of it comes from runs that hit a limit or failed: completed runs have a mean difference of 0."
    return " Without the runs that hit a limit or failed, no difference is shown."


def _is_zero(analysis: Difference) -> bool:
    """True if the mean difference is 0 in every cluster."""
    return analysis.interval is None and format_difference(analysis.value) == "0"


def states_of(comparison: Comparison) -> tuple[list[str], list[list[str]]]:
    """Return the number of values that are scored, unknown, failed or not run, by variant, as headings and rows.

    If values are missing, the last column has the most frequent reasons.
    """
    reasons = [
        Counter(first_line(cell.reason, MAX_OF_A_REASON) for cell in cells if cell.value is None) for cells in comparison.cells
    ]
    with_reasons = any(reasons)
    rows = []
    for (name, states), counts in zip(comparison.counts.items(), reasons, strict=True):
        why = ", ".join(f"{reason} ({count:,})" for reason, count in counts.most_common(MAX_REASONS))
        more = f" and {len(counts) - MAX_REASONS} more reasons" if len(counts) > MAX_REASONS else ""
        rows.append([name, *[f"{count:,}" for count in states.values()], *([why + more] if with_reasons else [])])
    return ["variant", *STATES, *(["missing because"] if with_reasons else [])], rows


def facts(comparison: Comparison) -> Iterator[Fact]:
    """Yield the numbers of the comparison."""
    analysis = comparison.analysis
    if isinstance(analysis, Difference) and not comparison.is_identical:
        yield Fact("Difference", _difference(comparison, analysis), "mean of tasks, each with equal weight", "drawn")
        yield from _look(comparison)
        yield from _extremes(comparison)
        yield from _means(comparison)
        yield from _list_completed(comparison)
        if comparison.mde is not None and not comparison.is_shown:
            ground = "found 4 times in 5: 80 % power, estimated from these runs"
            yield Fact("Minimum detectable effect", f"about {comparison.mde:.2g}", ground)
        yield from _passes(comparison)
    yield Fact("Tasks", _tasks(comparison))
    yield from _left_out(comparison)
    if not comparison.is_identical or comparison.also_differs:
        yield from _ratios(comparison)
    if not comparison.is_identical:
        yield from _loops(comparison)


def sensitivity(comparison: Comparison) -> Iterator[Fact]:
    """Yield the differences with other values or without some of the runs."""
    if isinstance(comparison.analysis, Difference) and not comparison.is_identical:
        yield from _extremes(comparison)
        yield from _list_completed(comparison)


def flips_of(comparison: Comparison, most: int) -> list[Flip]:
    """Return the first pairs of runs whose values differ."""
    shown = comparison.flips.head(most)
    lost = {
        row.run_id: end_words(row.stop_reason or row.status)
        for row in (*comparison.rows_a, *comparison.rows_b)
        if not row.is_completed
    }
    several = len({row.model for row in comparison.rows_a}) > 1
    flips = []
    for row in shown.itertuples(index=False):
        task, repeat = str(row.task), int(row.repeat)
        named = repr(task) if '"' in task else f'"{task}"'
        arguments = [named, *([str(repeat)] if repeat != 1 else []), *([f"model={str(row.model)!r}"] if several else [])]
        command = f"c.diff({', '.join(arguments)})"
        log_a, log_b = (_log(comparison, str(run_id or "")) for run_id in (row.run_a, row.run_b))
        run_a, run_b = str(row.run_a or ""), str(row.run_b or "")
        a, b = _value(row.a, lost.get(run_a)), _value(row.b, lost.get(run_b))
        flips.append(Flip(task, str(row.model), repeat, a, b, run_a, run_b, log_a, log_b, command))
    return flips


def _difference(comparison: Comparison, analysis: Difference) -> str:
    if analysis.interval is None:
        mean = f"a mean of {format_difference(analysis.value)}"
        return f"{describe_equal(mean, analysis.sizes)}, {_adjusted_p(comparison, analysis)}"
    value, low, high = format_differences(analysis.value, *analysis.interval)
    alone = "" if comparison.p_adjusted is None else f" (unadjusted {format_p(analysis.p_value)}; the interval is not adjusted)"
    valid = "" if comparison.look is None else f", valid over all {comparison.look.of} looks,"
    return f"{value}, 95 % interval{valid} {low} to {high}, {_adjusted_p(comparison, analysis)}{alone}"


def _adjusted_p(comparison: Comparison, analysis: Difference) -> str:
    """Return the p value that decides: adjusted for the comparisons made, if there are several."""
    if comparison.p_adjusted is None:
        return format_p(analysis.p_value)
    return f"{format_p(comparison.p_adjusted)}, Holm-adjusted over {pluralize(comparison.family, 'comparison')}"


def _look(comparison: Comparison) -> Iterator[Fact]:
    if comparison.look is not None:
        level = f"p below {comparison.level:.2g}, for an overall error rate of 5 % over {comparison.look.of} looks"
        price = "" if comparison.price is None else describe_price(comparison.price)
        yield Fact("Planned look", f"{comparison.look}: {level}", price)


def _extremes(comparison: Comparison) -> Iterator[Fact]:
    for name, value, meaning in _cases(comparison):
        yield Fact(f"Missing values {name}", format_estimate(value), meaning, "drawn")


def _cases(comparison: Comparison) -> Iterator[tuple[str, Difference | TooFewTasks, str]]:
    """Yield the extremes that missing values allow, each with its name and the imputed values."""
    if comparison.extremes is None or comparison.value_limits is None:
        return
    low, high = comparison.value_limits
    sign = comparison.shown_sign
    names = ("at their lowest", "at their highest") if not sign else ("at their worst", "at their best")
    values = comparison.extremes if sign >= 0 else comparison.extremes[::-1]
    for name, value in zip(names, values, strict=True):
        yield name, value, f"taken as {low:g} or {high:g}{_adjustment_note(comparison)}"


def _adjustment_note(comparison: Comparison) -> str:
    return "" if comparison.p_adjusted is None else "; p unadjusted"


def _means(comparison: Comparison) -> Iterator[Fact]:
    a, b = _task_means(comparison)
    meaning = "of the paired tasks" if comparison.quality is None else "of the paired tasks, as judged, not corrected"
    yield Fact("Means", f"{comparison.a!r} {a:.3g}, {comparison.b!r} {b:.3g}", meaning, place="folded")


def _task_means(comparison: Comparison) -> list[float]:
    return [fmean(arm) for arm in task_means(comparison.units)]


def _left_out(comparison: Comparison) -> Iterator[Fact]:
    unpaired, units = comparison.left_out, comparison.units
    if not unpaired:
        return
    with_model, with_repeat = len({unit.model for unit in units}) > 1, any(unit.repeat for unit in units)
    named = []
    for unit in unpaired[:MAX_NAMED]:
        details = [*([unit.model] if with_model else []), *([f"repeat {(unit.repeat or 0) + 1}"] if with_repeat else [])]
        named.append(f"{unit.task} ({', '.join(details)})" if details else unit.task)
    more = f" and {len(unpaired) - MAX_NAMED:,} more" if len(unpaired) > MAX_NAMED else ""
    text = f"{len(unpaired):,} of {pluralize(len(units), 'pair')}: {', '.join(named)}{more}"
    yield Fact("Left out", text, "a value is missing", "drawn" if isinstance(comparison.analysis, Difference) else "open")


def _list_completed(comparison: Comparison) -> Iterator[Fact]:
    out_a, out_b = (sum(not row.is_completed for row in rows) for rows in (comparison.rows_a, comparison.rows_b))
    if out_a or out_b:
        counts = f"{comparison.a!r} {out_a} of {len(comparison.rows_a)}, {comparison.b!r} {out_b} of {len(comparison.rows_b)}"
        meaning = f"left out: {counts}; {NOT_RANDOMISED}{_adjustment_note(comparison)}"
        yield Fact("Only completed runs", format_estimate(comparison.of_completed), meaning, "drawn")


def _passes(comparison: Comparison) -> Iterator[Fact]:
    pairs = comparison.discordant
    if pairs is not None:
        text = f"{pairs.only_a} pass only under {comparison.a!r}, {pairs.only_b} only under {comparison.b!r}"
        yield Fact(
            "McNemar, exact",
            f"{text}, {format_p(pairs.p_value)}",
            "a test on tasks that pass under one variant only",
            place="folded",
        )
    for name, shares in comparison.pass_k.items():
        if len(shares) > 1:
            text = ", ".join(
                f"{share.k}: {format_mean(share.value, share.interval, f'in each of {share.tasks} tasks')}" for share in shares
            )
            yield Fact(f"pass^k, {name}", text, "chance that k runs of a task all pass, averaged over tasks", place="folded")


def _tasks(comparison: Comparison) -> str:
    analysis = comparison.analysis
    sizes = analysis.sizes
    if max(sizes, default=1) == 1:
        return f"{analysis.tasks} paired"
    return f"{analysis.tasks} paired, in {pluralize(len(sizes), 'cluster')} of {min(sizes)} to {max(sizes)}"


def _ratios(comparison: Comparison) -> Iterator[Fact]:
    for name, ratio in comparison.ratios.items():
        if name == "cost" and all(row.cost == 0 for row in (*comparison.rows_a, *comparison.rows_b)):
            yield Fact(RATIO_NAMES[name], "$0 in both")
        else:
            yield Fact(RATIO_NAMES[name], format_ratio(ratio, comparison.a), _OF_RATIOS.format(comparison.b))
            if not all(row.is_completed for row in (*comparison.rows_a, *comparison.rows_b)):
                completed = format_ratio(comparison.ratios_of_completed[name], comparison.a)
                yield Fact(f"{RATIO_NAMES[name]}, completed runs", completed, NOT_RANDOMISED, place="folded")


def _loops(comparison: Comparison) -> Iterator[Fact]:
    arms = comparison.survival
    if not arms.a.events and not arms.b.events:
        return
    counts = [
        f"{name} {arm.events} of {arm.runs} runs" for name, arm in ((comparison.a, arms.a), (comparison.b, arms.b)) if arm.runs
    ]
    p_value = "" if arms.p_value is None else f", Gray's test {format_p(arms.p_value)}"
    yield Fact(
        "Loops",
        f"{', '.join(counts)}{p_value}",
        "rounds until the first loop; completion is a competing event",
        place="folded",
    )


def _describe_equal(comparison: Comparison, analysis: Difference) -> str:
    """Describe a mean difference that is the same in all clusters, and how many others may not have been drawn."""
    difference, share = format_difference(analysis.value), analysis.max_exception_share or 1.0
    units = count_units(analysis.sizes)
    test = "" if _is_zero(analysis) else f" (sign flips: {_adjusted_p(comparison, analysis)})"
    return (
        f" The mean difference is {difference} in each of the {units}{test}. If these are a random sample, at most"
        f" {100 * share:.0f} % of such {units.split()[-1]} would show a different mean in runs like these (95 % confidence)."
    )


def _detectable(comparison: Comparison) -> str:
    if comparison.mde is None:
        return ""
    shown, tasks, clusters = f"{comparison.mde:.2g}", comparison.analysis.tasks, len(comparison.analysis.sizes)
    needed = f"{4 * clusters:,} {'tasks' if clusters == tasks else 'clusters'}"
    power = f"With {tasks} tasks, a true difference of about {shown} would be found 4 times in 5"
    return f" {power}; half of that difference, {float(shown) / 2:.2g}, needs a new experiment with about {needed}."


def _value(value: object, reason: str | None) -> str:
    text = f"{value:g}" if isinstance(value, float | int) and not isnan(value) else UNKNOWN
    return text if reason is None else f"{text} ({reason})"


def _log(comparison: Comparison, run_id: str) -> str:
    path = log_of(comparison.records, run_id)
    if path is None or not path.is_file():
        return ""
    try:
        return Path(relpath(path)).as_posix()
    except ValueError:  # on another drive
        return ""


def several_models(flips: Sequence[Flip]) -> bool:
    """True if the pairs involve several models."""
    return len({flip.model for flip in flips}) > 1
