"""Tool calls by tool: how often each was called, and how the calls ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from agentnb.core.run.inner_calls import all_calls
from agentnb.core.run.rounds import NOT_RUN, CallRecord
from agentnb.detect.run import Run
from agentnb.interchange.files import RunSource, load_traces
from agentnb.plots.drawing.sources import about
from agentnb.plots.drawing.style import (
    BLUE,
    LINES,
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
    first_bars,
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
    counts: Counter[Look]
    seconds: float | None

    @property
    def calls(self) -> int:
        """All calls."""
        return self.counts.total()

    @property
    def label(self) -> str:
        """Failed calls and time, as far as there are any."""
        failed = self.counts[FAILED]
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
    shown = first_bars(found, _summed)
    with plot_style():
        figure, (axes,) = panels(0.7 + 0.27 * len(shown))
        used = stack(axes, [(look, [one.counts[look] for one in shown]) for look in OUTCOMES])
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
    counts: defaultdict[str, Counter[Look]] = defaultdict(Counter)
    seconds: dict[str, float] = {}
    for run in runs:
        for record in all_calls(run):
            counts[record.call.name][_outcome(record)] += 1
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


def _summed(name: str, rest: Sequence[ToolCalls]) -> ToolCalls:
    known = [one.seconds for one in rest if one.seconds is not None]
    return ToolCalls(name, sum((one.counts for one in rest), Counter()), sum(known) if known else None)
