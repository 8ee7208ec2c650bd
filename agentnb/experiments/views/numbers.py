"""Numbers of experiments in words, used in both text and HTML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentnb.display.texts.labels import dollars
from agentnb.experiments.results.comparison import ROUNDING, describe_equal, format_difference, format_differences
from agentnb.experiments.running.live_experiment import duration_told
from agentnb.experiments.statistics.paired import Difference
from agentnb.experiments.statistics.ratios import Ratio
from agentnb.experiments.statistics.task_values import TooFewTasks

UNKNOWN = "unknown"


def format_p(value: float) -> str:
    """Format a p value, showing a very small one as a bound."""
    return "p < 0.0001" if value < 0.0001 else f"p = {value:.2g}"


def money(amount: float | None) -> str:
    """Format US dollars, to the nearest cent or with three digits."""
    return UNKNOWN if amount is None else "$0" if not amount else dollars(float(f"{amount:.3g}"))


def total_money(amounts: Iterable[float | None]) -> str:
    """Format the sum of these US dollars; it is unknown if any amount is."""
    values = [*amounts]
    return money(None if None in values else sum(amount or 0.0 for amount in values))


def format_time(seconds: float | None) -> str:
    """Format a time, such as ``12 s``, ``3 min 5 s`` or ``2 h 10 min``, or as ``unknown``."""
    if seconds is None:
        return UNKNOWN
    return f"{seconds:.2g} s" if seconds < 10 else duration_told(seconds)


def format_estimate(estimate: Difference | TooFewTasks) -> str:
    """Format a difference with its limits and p value, or the shortage of tasks."""
    if isinstance(estimate, TooFewTasks):
        return f"{UNKNOWN}: {estimate.shortage}"
    if estimate.interval is None:
        difference = f"a mean difference of {format_difference(estimate.value)}"
        return f"{describe_equal(difference, estimate.sizes)}, {format_p(estimate.p_value)}"
    value, low, high = format_differences(estimate.value, *estimate.interval)
    return f"{value}, {low} to {high}, {format_p(estimate.p_value)}, {estimate.tasks} tasks"


def format_mean(value: float, interval: Sequence[float] | None, alike: str = "") -> str:
    """Format a mean with its limits. If all values are ``alike``, there is nothing to estimate an interval from."""
    if interval is None:
        return f"{value:.2f}"
    low, high = interval
    if high - low <= ROUNDING * max(1.0, abs(value)):
        return f"{value:.2f} {alike} (no interval)" if alike else f"{value:.2f} (no interval)"
    return f"{value:.2f} [{low:.2f}, {high:.2f}]"


def format_ratio(ratio: Ratio | TooFewTasks, name: str) -> str:
    """Format how much more or less the named variant has, with limits, or the shortage of tasks."""
    if isinstance(ratio, TooFewTasks):
        return f"{UNKNOWN}: {ratio.shortage}"
    if ratio.interval is None:
        change = _change(ratio.value) if ratio.value == 1 else f"{name!r} has {_change(ratio.value)}"
        return describe_equal(f"{change} on average", ratio.sizes)
    low, high = map(_change, ratio.interval)
    return f"in a typical task, {name!r} has {_change(ratio.value)} (95 % interval {low} to {high}, {format_p(ratio.p_value)})"


def _change(ratio: float) -> str:
    """Format a ratio as a change, such as ``5 % more``, ``12 % less`` or ``2.4 times``."""
    if ratio >= 2:
        return f"{ratio:#.3g} times" if ratio < 100 else f"{ratio:.3g} times"
    percent = abs(ratio - 1) * 100
    digits = ".0f" if 10 <= percent < 99 else ".3g"
    return f"{percent:{digits}} % {'more' if ratio > 1 else 'less'}" if percent else "the same"
