"""Intervals as bars on a common axis with 0 marked, in plain HTML."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, log10

from agentnb.display.markup import NOTHING, Html, tag
from agentnb.experiments.results.comparison import describe_equal, format_difference, format_differences
from agentnb.experiments.views.comparison_facts import Estimate

ROUND_LIMITS = (1, 2, 5, 10)
BLUE, DARK, GREY = "#3b82d6", "rgba(127,127,127,.95)", "rgba(127,127,127,.85)"
"""Colours that contrast with light and dark, drawn as borders because an untrusted notebook strips backgrounds."""


def intervals_html(estimates: Sequence[Estimate], most: float | None = None) -> Html:
    """Render a row for each estimate: its name, a bar between its limits, and its numbers; empty if all are 0.

    ``most``: maximum possible difference; the axis ends there, or earlier at a round number.
    """
    reach = _reach(
        [abs(number) for estimate in estimates for number in (estimate.value.value, *(estimate.value.interval or ()))], most
    )
    if not reach:
        return NOTHING
    rows = [_row(estimate, reach) for estimate in estimates]
    ends = tag(
        "div",
        "exp-axis",
        tag("span", "exp-axis-end", format_difference(-reach)),
        tag("span", "exp-axis-zero", "0"),
        tag("span", "exp-axis-end exp-axis-last", format_difference(reach)),
    )
    return tag("div", "exp-intervals", *rows, _columns("", tag("div", "exp-bar", ends), ""))


def _reach(numbers: Sequence[float], most: float | None) -> float:
    """Return the round number at which the axis ends."""
    longest = max(numbers, default=0.0)
    if not longest:
        return 0.0
    unit = 10.0 ** floor(log10(longest))
    reach = next(factor * unit for factor in ROUND_LIMITS if factor * unit >= longest * (1 - 1e-9))
    return reach if most is None or most < longest else min(reach, most)


def _row(estimate: Estimate, reach: float) -> Html:
    value, interval = estimate.value.value, estimate.value.interval

    def place(number: float) -> float:
        return round(50 + 50 * number / reach, 2)

    parts = [_at(50, f"top:0px;height:22px;border-left:1px solid {DARK}")]
    if interval is None:
        numbers = description = describe_equal(f"a mean of {format_difference(value)}", estimate.value.sizes)
    else:
        low, high = interval
        parts.insert(0, _at(place(low), f"width:{place(high) - place(low):.2f}%;top:8px;border-top:6px solid {GREY}"))
        middle, first, last = format_differences(value, low, high)
        numbers = ", ".join(filter(None, (f"{middle}, {first} to {last}", estimate.p_value)))
        description = f"Estimate {middle}, 95 % interval from {first} to {last}, 0 in the middle of the axis"
    parts.append(_at(place(value), f"top:3px;height:16px;border-left:4px solid {BLUE}"))
    line = Html(f'<div style="position:relative;height:22px">{"".join(parts)}</div>')
    bar = tag("div", "exp-bar", line, role="img", aria_label=description, title=description)
    return _columns(estimate.name, bar, numbers)


def _columns(label: str, bar: Html, numbers: str) -> Html:
    return tag("div", "exp-drawn", tag("span", "exp-label", label), tag("span", "exp-limits", numbers), bar)


def _at(position: float, style: str) -> str:
    return f'<div style="position:absolute;left:{position}%;{style}"></div>'
