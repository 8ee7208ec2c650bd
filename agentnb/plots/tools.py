"""Tool calls, by tool and outcome."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from agentnb.core.messages import pluralize
from agentnb.core.run.inner_calls import all_calls
from agentnb.core.run.rounds import NOT_RUN, CallRecord
from agentnb.detect.run import Run
from agentnb.interchange.files import RunSource, load_traces
from agentnb.plots.drawing.plot_style import (
    BLUE,
    LINES,
    VERMILLION,
    WHITE,
    Look,
    amounts,
    bar_axis,
    bar_label,
    distinct,
    empty,
    finish,
    first_bars,
    panels,
    plot_style,
    stack,
)
from agentnb.plots.drawing.sources import about

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TITLE = "Tool calls, by tool"
SUCCEEDED, FAILED = Look("succeeded", BLUE), Look("failed", VERMILLION, "///")
SKIPPED, OPEN = Look("not run", WHITE, "\\\\\\"), Look("no result", LINES, "...")
OUTCOMES = (SUCCEEDED, FAILED, SKIPPED, OPEN)


class ToolCalls(NamedTuple):
    """A tool's calls: their number by outcome, and the total seconds of those with a known duration."""

    name: str
    counts: Counter[Look]
    seconds: float | None

    @property
    def calls(self) -> int:
        """Number of all calls."""
        return self.counts.total()

    @property
    def label(self) -> str:
        """Number of failed calls, and duration where known."""
        failed = self.counts[FAILED]
        parts = [f"{failed:,} of {self.calls:,} failed" if failed else f"{self.calls:,}"]
        if self.seconds is not None and self.seconds >= 0.05:
            parts.append(f"{self.seconds:,.1f} s" if self.seconds < 120 else f"{self.seconds / 60:,.0f} min")
        return ", ".join(parts)


def tools(source: RunSource) -> Figure:
    """Draw the number of calls of each tool by outcome: succeeded, failed, not run, or without a result.

    Takes what the tables take. Calls that a gate, a limit or you blocked are "not run". A bar's label also gives the
    calls' seconds, if known. The most called tools come first; if there are more than 15, the least called are summed
    up.
    """
    runs = load_traces(source)
    tool_calls = tool_calls_of(runs)
    if not tool_calls:
        return empty(TITLE, about(runs), "No tool was called." if runs else "There are no runs.")
    shown = first_bars(tool_calls, _sum_up)
    with plot_style():
        figure, (axes,) = panels(0.7 + 0.27 * len(shown))
        used = stack(axes, [(look, [tool.counts[look] for tool in shown]) for look in OUTCOMES])
        for y, tool in enumerate(shown):
            bar_label(axes, y, tool.calls, tool.label)
        bar_axis(axes, distinct([tool.name for tool in shown]))
        amounts(axes, "x", max(tool.calls for tool in shown) * 1.4, whole=True)
        axes.set_xlabel("calls")
        total = sum(tool.calls for tool in tool_calls)
        says = "; ".join(f"{tool.name}: {tool.label}" for tool in shown)
        return finish(figure, TITLE, about(runs, pluralize(total, "call")), used, says=says)


def tool_calls_of(runs: list[Run]) -> list[ToolCalls]:
    """Return the calls of each tool, most called first, including calls made by tools."""
    counts: defaultdict[str, Counter[Look]] = defaultdict(Counter)
    seconds: dict[str, float] = {}
    for run in runs:
        for record in all_calls(run):
            counts[record.call.name][_outcome(record)] += 1
            if record.seconds is not None and record.result is not None:
                seconds[record.call.name] = seconds.get(record.call.name, 0.0) + record.seconds
    tools = [ToolCalls(name, outcomes, seconds.get(name)) for name, outcomes in counts.items()]
    return sorted(tools, key=lambda one: -one.calls)


def _outcome(record: CallRecord) -> Look:
    if record.result is None:
        return OPEN
    if record.result.error_code in NOT_RUN:
        return SKIPPED
    return FAILED if record.result.is_error else SUCCEEDED


def _sum_up(name: str, others: Sequence[ToolCalls]) -> ToolCalls:
    times = [tool.seconds for tool in others if tool.seconds is not None]
    return ToolCalls(name, sum((tool.counts for tool in others), Counter()), sum(times) if times else None)
