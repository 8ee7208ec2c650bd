"""Numbers of experiments in words, for text and HTML alike."""

from __future__ import annotations

from collections.abc import Iterable

from agentnb.display.texts.labels import dollars
from agentnb.experiments.results.comparison import signed
from agentnb.experiments.running.live import duration_told
from agentnb.experiments.statistics.paired import Difference
from agentnb.experiments.statistics.ratios import Ratio
from agentnb.experiments.statistics.tasks import TooFewTasks

UNKNOWN = "unknown"


def limits_told(interval: tuple[float, float] | None, *, is_ratio: bool = False) -> str:
    """Return the limits of an interval; empty without one."""
    if interval is None:
        return ""
    low, high = interval
    return f"{_ratio(low)} to {_ratio(high)}" if is_ratio else f"{signed(low)} to {signed(high)}"


def p_told(value: float) -> str:
    """Return a p value; a tiny one as a bound."""
    return "p < 0.0001" if value < 0.0001 else f"p = {value:.2g}"


def money(amount: float | None) -> str:
    """Return US dollars, to the cent or to three digits."""
    return UNKNOWN if amount is None else "$0" if not amount else dollars(float(f"{amount:.3g}"))


def total_money(amounts: Iterable[float | None]) -> str:
    """Return the sum of US dollars; unknown if one of them is."""
    known = [*amounts]
    return money(None if None in known else sum(amount or 0.0 for amount in known))


def time_told(seconds: float | None) -> str:
    """Return a time: ``unknown``, ``12 s``, ``3 min 5 s``, ``2 h 10 min``."""
    if seconds is None:
        return UNKNOWN
    return f"{seconds:.2g} s" if seconds < 10 else duration_told(seconds)


def estimate_told(estimate: Difference | Ratio | TooFewTasks) -> str:
    """Return an estimate with its limits and p value, or what is missing for one."""
    if isinstance(estimate, TooFewTasks):
        return f"unknown: {estimate.counted} with a value in both, {estimate.required} are needed"
    is_ratio = isinstance(estimate, Ratio)
    value = f"{_ratio(estimate.value)} times" if is_ratio else signed(estimate.value)
    if estimate.interval is None:
        return f"{value} in each of {estimate.tasks} tasks"
    limits = limits_told(estimate.interval, is_ratio=is_ratio)
    return f"{value} (95 % interval {limits}, {p_told(estimate.p_value)}, {estimate.tasks} tasks)"


def _ratio(value: float) -> str:
    return f"{value:#.3g}" if value < 100 else f"{value:.3g}"
