"""Tool calls by tool: how often each was called, and how the calls ended."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from agentnb.core.run.inner_calls import all_calls
from agentnb.core.run.rounds import NOT_RUN, CallRecord
from agentnb.detect.run import Run
from agentnb.interchange.files import RunSource, load_traces
from agentnb.plots.drawing.sources import about
from agentnb.plots.drawing.style import (
    BLUE,
    LINES,
    MAX_BARS,
    VERMILLION,
    WHITE,
    Look,
    amounts,
    bar_axis,
    bar_label,
    counted,
    distinct,
    empty,
    finish,
    panels,
    plot_style,
    stack,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Tool calls, by tool"
SUCCEEDED, FAILED = Look("succeeded", BLUE), Look("failed", VERMILLION, "///")
SKIPPED, OPEN = Look("not run", WHITE, "\\\\\\"), Look("no result", LINES, "...")
OUTCOMES = (SUCCEEDED, FAILED, SKIPPED, OPEN)


class ToolCalls(NamedTuple):
    """The calls of one tool: how many ended in each way, and the seconds of those whose time is known."""

    name: str
    counts: dict[Look, int]
    seconds: float | None

    @property
    def calls(self) -> int:
        """All calls."""
        return sum(self.counts.values())

    @property
    def label(self) -> str:
        """Failed calls and time, as far as there are any."""
        failed = self.counts.get(FAILED, 0)
        parts = [f"{failed:,} of {self.calls:,} failed" if failed else f"{self.calls:,}"]
        if self.seconds is not None and self.seconds >= 0.05:
            parts.append(f"{self.seconds:,.1f} s" if self.seconds < 120 else f"{self.seconds / 60:,.0f} min")
        return ", ".join(parts)


def tools(source: RunSource) -> Figure:
    """Draw how often each tool was called, and how the calls ended: succeeded, failed, not run, or without a result.

    Takes what the tables take. Calls that a gate, a limit or you kept from running are "not run". The label of a bar also
    says how many seconds the calls took, where that is known. The most called come first; more than 15 tools are summed up.
    """
    runs = load_traces(source)
    found = tool_calls_of(runs)
    if not found:
        return empty(TITLE, about(runs), "No tool was called." if runs else "There are no runs.")
    shown = _shown(found)
    with plot_style():
        figure, (axes,) = panels(0.7 + 0.27 * len(shown))
        used = stack(axes, [(look, [one.counts.get(look, 0) for one in shown]) for look in OUTCOMES])
        for place, one in enumerate(shown):
            bar_label(axes, place, one.calls, one.label)
        bar_axis(axes, distinct([one.name for one in shown]))
        amounts(axes, "x", max(one.calls for one in shown) * 1.4, whole=True)
        axes.set_xlabel("calls")
        total = sum(one.calls for one in found)
        says = "; ".join(f"{one.name}: {one.label}" for one in shown)
        return finish(figure, TITLE, about(runs, counted(total, "call")), used, says=says)


def tool_calls_of(runs: list[Run]) -> list[ToolCalls]:
    """Return the calls of each tool, the most called first; those that tools made themselves are among them."""
    counts: dict[str, dict[Look, int]] = {}
    seconds: dict[str, float] = {}
    for run in runs:
        for record in all_calls(run):
            mine = counts.setdefault(record.call.name, {})
            look = _outcome(record)
            mine[look] = mine.get(look, 0) + 1
            if record.seconds is not None and record.result is not None:
                seconds[record.call.name] = seconds.get(record.call.name, 0.0) + record.seconds
    found = [ToolCalls(name, mine, seconds.get(name)) for name, mine in counts.items()]
    return sorted(found, key=lambda one: -one.calls)


def _outcome(record: CallRecord) -> Look:
    if record.result is None:
        return OPEN
    if record.result.error_code in NOT_RUN:
        return SKIPPED
    return FAILED if record.result.is_error else SUCCEEDED


def _shown(found: list[ToolCalls]) -> list[ToolCalls]:
    if len(found) <= MAX_BARS:
        return found
    rest = found[MAX_BARS - 1 :]
    summed = {look: sum(one.counts.get(look, 0) for one in rest) for look in OUTCOMES}
    known = [one.seconds for one in rest if one.seconds is not None]
    return [*found[: MAX_BARS - 1], ToolCalls(f"and {len(rest)} others", summed, sum(known) if known else None)]
