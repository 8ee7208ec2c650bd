"""Timeline of a run, round by round, with a lane for the model, each tool and each kind of wait."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from agentnb.core.messages import pluralize
from agentnb.detect.run import Run
from agentnb.interchange.files import RunSource
from agentnb.plots.drawing.plot_spans import (
    COMPACTION,
    FAILED,
    MODEL,
    OK,
    OPEN,
    PAUSE,
    QUESTION,
    RETRY,
    SIDE_CALL,
    SKIPPED,
    Span,
    Spans,
    spans_of,
)
from agentnb.plots.drawing.plot_style import (
    AXES_PIXELS,
    BLUE,
    FAINT,
    GREEN,
    INK,
    LINES,
    MAX_BARS,
    ORANGE,
    PURPLE,
    SHADE,
    SKY,
    VERMILLION,
    WHITE,
    YELLOW,
    Look,
    amounts,
    bar_axis,
    distinct,
    empty,
    finish,
    panels,
    plot_style,
    round_axis,
    whole_ticks,
)
from agentnb.plots.drawing.sources import about, one_run

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LANES = {
    MODEL: Look("model", BLUE),
    SIDE_CALL: Look("side call to a model", SKY, "\\\\\\"),
    COMPACTION: Look("compaction", PURPLE, "xxx"),
    RETRY: Look("wait to retry", YELLOW, "..."),
    QUESTION: Look("waiting for you", GREEN, "\\\\\\"),
    PAUSE: Look("paused by you", LINES, "---"),
}
OUTCOMES = {
    OK: Look("tool", ORANGE),
    FAILED: Look("failed (\N{MULTIPLICATION SIGN})", VERMILLION, "///"),
    SKIPPED: Look("not run (|)", WHITE, "///"),
    OPEN: Look("no result", WHITE, "..."),
}
MARKS = {"message from you": ("v", GREEN), "loop found": ("D", VERMILLION), "finding": ("s", PURPLE)}
"""Marker and colour for points in time."""
TITLE = "Timeline of a run"
OTHERS = "others"
_UNITS = ((3 * 3_600, "hours", 3_600), (180, "minutes", 60), (0, "seconds", 1))
"""Units of time: the number of seconds from which the unit is used, its name, and its length in seconds."""


def timeline(run: RunSource) -> Figure:
    """Draw the start and end of each model call, tool call and wait, round by round.

    Takes a single run, or the path of its log; raises `SettingsError` for several. The horizontal axis is the time
    since the run began, leaving out time in which no process worked on it; if no times were recorded, it counts
    rounds, and the plot says so. Tools are in the order of their first call; if there are more than 15, the least
    called share a lane. A failed part is marked with a cross.
    """
    run = one_run(run, "timeline")
    if not run.rounds:
        return empty(TITLE, about([run]), "The run has no rounds.")
    spans = spans_of(run)
    with plot_style():
        return _draw(run, spans)


def _draw(run: Run, parts: Spans) -> Figure:
    spans = _few_lanes(parts.spans)
    lanes = _lanes(spans)
    lanes += [mark for mark in MARKS if any(lane == mark for lane, _ in parts.marks)]
    figure, (axes,) = panels(0.75 + 0.26 * len(lanes))
    end = max([span.end for span in spans] + [last for _, _, last in parts.rounds])
    _draw_rounds(axes, parts, end)
    used = _draw_spans(axes, spans, lanes)
    for mark, at in parts.marks:
        marker, color = MARKS[mark]
        axes.plot(at, lanes.index(mark), marker, color=color, markersize=6, markeredgecolor=INK, clip_on=False, zorder=4)
    for cut in parts.cuts:
        axes.axvline(cut, color=INK, linestyle=(0, (4, 2)), linewidth=1.2)
    tools = [lane for lane in lanes if lane not in LANES and lane not in MARKS]
    names = dict(zip(tools, distinct(tools), strict=True))
    bar_axis(axes, [LANES[lane].label if lane in LANES else names.get(lane, lane) for lane in lanes])
    _time_axis(axes, parts, end)
    calls = sum(span.is_tool for span in spans)
    more = [pluralize(len(parts.rounds), "round"), pluralize(calls, "tool call")]
    return finish(figure, TITLE, about([run], *more), used, _notes(parts))


def _few_lanes(spans: list[Span]) -> list[Span]:
    """Merge all tools except the most called into one lane."""
    counts = Counter(_lane(span) for span in spans if span.is_tool)
    if len(counts) <= MAX_BARS:
        return [span._replace(lane=_lane(span)) for span in spans]
    kept = {name for name, _ in counts.most_common(MAX_BARS - 1)}
    others = f"and {len(counts) - len(kept)} {OTHERS}"
    return [span._replace(lane=others if span.is_tool and _lane(span) not in kept else _lane(span)) for span in spans]


def _lane(span: Span) -> str:
    """Return the lane of a span, since a tool may have the same name as another lane."""
    return f"{span.lane} (tool)" if span.is_tool and (span.lane in LANES or span.lane in MARKS) else span.lane


def _lanes(spans: list[Span]) -> list[str]:
    first = [lane for lane in LANES if lane not in (QUESTION, PAUSE)]
    present = {span.lane for span in spans}
    tools = list(dict.fromkeys(span.lane for span in spans if span.is_tool))
    tools.sort(key=lambda lane: lane.endswith(OTHERS) and lane.startswith("and "))
    return [lane for lane in (*first, *tools, QUESTION, PAUSE) if lane in present]


def _draw_rounds(axes: Axes, parts: Spans, end: float) -> None:
    """Shade every other round, and number as many rounds as fit."""
    free = 0.0
    numbered = set(whole_ticks(1, len(parts.rounds)))
    for number, start, last in parts.rounds:
        if number % 2 and len(parts.rounds) <= 150:
            axes.axvspan(start, last, facecolor=SHADE, edgecolor="none", zorder=0)
        middle = (start + last) / 2
        room = (6 + 7 * len(str(number))) / AXES_PIXELS * (end or 1.0)
        if parts.timed and number in numbered and middle - room / 2 >= free:
            axes.annotate(
                str(number), (middle, 1), (0, 2), xycoords=axes.get_xaxis_transform(), textcoords="offset points",
                ha="center", va="bottom", fontsize=8, color=FAINT,
            )  # fmt: skip
            free = middle + room / 2
    if parts.timed:
        axes.annotate(
            "round", (0, 1), (-6, 2), xycoords="axes fraction", textcoords="offset points", ha="right", va="bottom", fontsize=8,
            color=FAINT,
        )  # fmt: skip


def _draw_spans(axes: Axes, spans: list[Span], lanes: list[str]) -> list[Look]:
    """Draw the bars and return their looks, for the legend."""
    groups: dict[tuple[str, Look], list[Span]] = {}
    for span in spans:
        groups.setdefault((span.lane, _look(span)), []).append(span)
    for (lane, look), members in groups.items():
        y = lanes.index(lane)
        bars = [(span.start, span.end - span.start) for span in members]
        axes.broken_barh(bars, (y - 0.36, 0.72), label=look.label, zorder=2, **look.fill)
        if look is OUTCOMES[FAILED]:
            middles = [(span.start + span.end) / 2 for span in members]
            axes.plot(middles, [y] * len(middles), "x", color=INK, markersize=6, markeredgewidth=1.5, zorder=3)
        elif look is OUTCOMES[SKIPPED]:
            axes.plot([span.start for span in members], [y] * len(members), "|", color=INK, markersize=9, zorder=3)
    used = {look for _, look in groups}
    return [look for look in (*LANES.values(), *OUTCOMES.values()) if look in used]


def _look(span: Span) -> Look:
    return OUTCOMES[span.outcome] if span.is_tool or span.outcome != OK else LANES[span.lane]


def _time_axis(axes: Axes, parts: Spans, end: float) -> None:
    if not parts.timed:
        round_axis(axes, 1, len(parts.rounds))
        return
    unit, size = next((name, size) for least, name, size in _UNITS if end >= least)
    amounts(axes, "x", end * 1.01, most=8, unit=size)
    axes.set_xlabel(f"{unit} since the run began")


def _notes(parts: Spans) -> list[str]:
    notes = []
    if not parts.timed:
        notes.append("No times recorded: rounds in order, each drawn equally wide")
    if parts.inferred:
        notes.append("The trace records only end times: each part is drawn from the end of the previous part")
    if parts.cuts:
        notes.append("Each dashed line omits the time until another process resumed the run")
    return notes
