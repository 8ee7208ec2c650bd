"""An interval as a drawn bar with 0 marked, in plain HTML."""

from __future__ import annotations

from agentnb.display.markup import NOTHING, Html, tag
from agentnb.experiments.results.comparison import signed

MARGIN = 1.15
"""The axis is this many times as long as what is drawn on it."""
BLUE, DARK = "#3b82d6", "rgba(127,127,127,.95)"
"""Colours with contrast on light and dark. Borders, not backgrounds: a notebook that is not trusted keeps those only."""


def interval_html(value: float, interval: tuple[float, float] | None) -> Html:
    """Return the bar from limit to limit, the estimate as a thick mark, 0 as a line; nothing without limits."""
    if interval is None:
        return NOTHING
    low, high = interval
    reach = max(abs(low), abs(high)) * MARGIN
    if not reach:
        return NOTHING

    def place(number: float) -> float:
        return round(50 + 50 * number / reach, 2)

    parts = [
        _at(place(low), f"width:{place(high) - place(low):.2f}%;top:8px;border-top:6px solid rgba(127,127,127,.55)"),
        _at(50, f"top:0px;height:22px;border-left:1px solid {DARK}"),
        _at(place(value), f"top:3px;height:16px;border-left:4px solid {BLUE}"),
    ]
    line = Html(f'<div style="position:relative;height:22px">{"".join(parts)}</div>')
    ends = tag(
        "div",
        "exp-axis",
        tag("span", "exp-axis-end", signed(-reach)),
        tag("span", "exp-axis-zero", "0"),
        tag("span", "exp-axis-end exp-axis-last", signed(reach)),
    )
    told = f"Estimate {signed(value)}, 95 % interval from {signed(low)} to {signed(high)}, on an axis with 0 in the middle"
    return tag("div", "exp-bar", line, ends, role="img", aria_label=told, title=told)


def _at(left: float, style: str) -> str:
    return f'<div style="position:absolute;left:{left}%;{style}"></div>'
