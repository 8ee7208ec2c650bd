"""Tokens by round, compared with the model's context window."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from agentnb.core.messages import pluralize
from agentnb.core.run.rounds import CONTEXT_TOKENS, WorkflowRound
from agentnb.detect.run import Run
from agentnb.interchange.files import RunSource, load_traces
from agentnb.models.prices import IN_TABLE, look_up
from agentnb.plots.drawing.plot_style import (
    BLUE,
    FAINT,
    INK,
    ORANGE,
    PURPLE,
    SKY,
    VERMILLION,
    Look,
    amounts,
    empty,
    finish,
    panels,
    plot_style,
    round_axis,
)
from agentnb.plots.drawing.several import Curve, draw_curves
from agentnb.plots.drawing.sources import about

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

TITLE = "Tokens of each round, against the context window"
CACHED, INPUT, OUTPUT = Look("input from the cache", SKY), Look("input", BLUE), Look("output", ORANGE, "///")
WORTH_A_LINE = 0.1
"""Share of the window that the largest round must fill; below that, a line for the window would flatten the bars."""


class RoundTokens(NamedTuple):
    """The tokens of a round's request and reply, or None if not recorded."""

    number: int
    input: int | None
    output: int | None
    cached: int

    @property
    def known(self) -> bool:
        """True if any count is known."""
        return self.input is not None or self.output is not None

    @property
    def total(self) -> int:
        """The sum of all known tokens."""
        return (self.input or 0) + (self.output or 0)


def tokens(source: RunSource, *, window: int | None = None) -> Figure:
    """Draw input and output tokens of each round against the model's context window, and mark compactions.

    Takes what the tables take. ``window``: tokens of the context window; by default, the one in the run's settings,
    or in the price table for its model. The window is drawn as a line if the largest round fills a tenth of it, and
    otherwise mentioned in a note. Several runs have a line each, with the sum of input and output; more than six are
    drawn behind their median.
    """
    runs = load_traces(source)
    kept = [(run, counts) for run in runs if _is_known(counts := round_tokens(run))]
    if not kept:
        return empty(
            TITLE, about(runs), "No token counts are recorded." if any(run.rounds for run in runs) else "There are no rounds."
        )
    windows = {window or window_of(run) for run, _ in kept}
    limit = windows.pop() if len(windows) == 1 else None
    with plot_style():
        figure, (axes,) = panels(3.0)
        top = max(count.total for _, counts in kept for count in counts)
        if len(runs) == 1:
            looks = _draw_one(axes, *kept[0])
        else:
            curves = [Curve(run, {count.number: count.total for count in counts if count.known}) for run, counts in kept]
            looks = draw_curves(axes, curves, steps=False)
        lines, notes = _draw_window(axes, limit, _share(kept), top)
        if not lines and windows:
            notes = ["The runs have different context windows: no window is drawn"]
        round_axis(axes, 1, max(len(run.rounds) for run, _ in kept))
        amounts(axes, "y", (max(top, limit) if lines and limit else top) * 1.08)
        axes.set_ylabel("tokens of a round" if len(runs) == 1 else "input and output tokens of a round")
        notes += _notes(runs, kept)
        says = f"The largest round has {top:,} tokens"
        return finish(figure, TITLE, about([run for run, _ in kept]), [*looks, *lines], notes, says)


def round_tokens(run: Run) -> list[RoundTokens]:
    """Return the tokens of each round of the run."""
    return [_of(run_round) for run_round in run.rounds]


def window_of(run: Run) -> int | None:
    """Return the context window of the run's model, in tokens, or None if unknown."""
    history = run.settings.get("history")
    own = history.get("window") if isinstance(history, dict) else None
    if isinstance(own, int) and not isinstance(own, bool) and own > 0:
        return own
    name, _, options = run.model.partition("?")
    provider, _, model = name.partition(":")
    if model:
        return None if "url=" in options else look_up(provider, model)[0]  # another server may have another window
    sizes = (look_up(provider_name, name)[0] for provider_name in IN_TABLE)  # other products log the model alone
    return next((size for size in sizes if size), None)


def _is_known(counts: list[RoundTokens]) -> bool:
    return any(count.known for count in counts)


def _of(run_round: WorkflowRound) -> RoundTokens:
    usage, number = run_round.usage, run_round.index + 1
    if usage is None:
        return RoundTokens(number, None, None, 0)
    context_tokens = run_round.metadata.get(CONTEXT_TOKENS)
    spent = usage.input
    if isinstance(context_tokens, int) and usage.input is not None:  # several calls made the reply: the last one's input
        spent = max(0, context_tokens - (usage.output or 0))
    return RoundTokens(number, spent, usage.output, min(usage.cache_read or 0, spent or 0))


def _draw_one(axes: Axes, run: Run, all_counts: list[RoundTokens]) -> list[Any]:
    width = 0.8 if len(all_counts) <= 60 else 1.0
    recorded = [count for count in all_counts if count.known]
    parts = (
        (CACHED, [count.cached for count in recorded]),
        (INPUT, [(count.input or 0) - count.cached for count in recorded]),
        (OUTPUT, [count.output or 0 for count in recorded]),
    )
    starts = [0] * len(recorded)
    looks: list[Any] = []
    for look, counts in parts:
        if any(counts):
            axes.bar(
                [count.number for count in recorded], counts, width, bottom=starts, label=look.label, zorder=2, **look.fill
            )
            looks.append(look)
        starts = [start + count for start, count in zip(starts, counts, strict=True)]
    unknown = [count.number for count in all_counts if not count.known]
    if unknown:
        looks += axes.plot(
            unknown, [0.03] * len(unknown), "x", color=VERMILLION, markersize=5, transform=axes.get_xaxis_transform(),
            label="not recorded", zorder=3,
        )  # fmt: skip
    return [*looks, *_draw_compactions(axes, run)]


def _draw_compactions(axes: Axes, run: Run) -> list[Any]:
    compacted = [
        run_round for run_round in run.rounds if any(compaction.compacted is not None for compaction in run_round.compactions)
    ]
    look: dict[str, Any] = {"color": PURPLE, "linestyle": (0, (4, 2)), "linewidth": 1.6, "label": "compaction"}
    return [axes.axvline(run_round.index + 0.5, **look) for run_round in compacted][:1]


def _draw_window(axes: Axes, window: int | None, share: float | None, top: int) -> tuple[list[Any], list[str]]:
    """Draw the window, and the share of it that triggers compaction; return the lines and the notes."""
    if window is None:
        return [], ["The model's context window is not known: plots.tokens(run, window=...) draws it"]
    if top < WORTH_A_LINE * window:
        return [], [f"Context window: {window:,} tokens, of which the largest round fills {top / window:.1%}"]
    lines = [axes.axhline(window, color=INK, linewidth=1.6, label=f"context window: {window:,}")]
    if share is not None:
        label = f"compacted above {share * window:,.0f}"
        lines.append(axes.axhline(share * window, color=FAINT, linewidth=1.2, linestyle=":", label=label))
    return lines, []


def _share(kept: list[tuple[Run, list[RoundTokens]]]) -> float | None:
    """Return the share of the window that triggers compaction in all these runs, or None if it differs or is missing."""
    shares = {history.get("share") if isinstance(history := run.settings.get("history"), dict) else None for run, _ in kept}
    share = shares.pop() if len(shares) == 1 else None
    return share if isinstance(share, float) and 0 < share < 1 else None


def _notes(runs: list[Run], kept: list[tuple[Run, list[RoundTokens]]]) -> list[str]:
    notes = []
    if len(runs) > len(kept):
        notes.append(f"Left out: {pluralize(len(runs) - len(kept), 'run')} without token counts")
    unknown = sum(not count.known for _, counts in kept for count in counts)
    if unknown:
        notes.append(f"Not recorded: the tokens of {pluralize(unknown, 'round')}")
    if any(run_round.usage is not None and run_round.usage.estimated for run, _ in kept for run_round in run.rounds):
        notes.append("Estimated by agentnb, at least in part: the model did not report all counts")
    return notes
