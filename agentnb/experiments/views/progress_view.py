"""The progress of an experiment as HTML and as text: one table that fills in."""

from __future__ import annotations

from collections.abc import Iterator

from agentnb.display.markup import Html, tag
from agentnb.display.parts.head import marked_html
from agentnb.display.texts.wording import clean, first_line
from agentnb.experiments.running.control import Progress
from agentnb.experiments.running.live_experiment import LiveExperiment, progress_line, rate_told
from agentnb.experiments.views.layout import facts_html, hint_html, view_html
from agentnb.experiments.views.numbers import UNKNOWN, format_time, money

STATES = {
    "running": ("active", "Running"),
    "paused": ("asking", "Paused"),
    "stopping": ("asking", "Stopping"),
    "done": ("good", "Done"),
    "stopped": ("warn", "Stopped"),
    "budget": ("warn", "Budget reached"),
}
"""The mark and the words of each state."""
HINTS = {
    "running": "Kernel > Interrupt stops it; run the cell again to continue",
    "paused": "%agent resume continues it",
    "stopped": "Run it again to make the missing runs",
    "budget": "Raise its budget and run it again to make the missing runs",
}
MAX_REASONS = 5
MAX_OF_A_REASON = 100


def progress_html(progress: Progress) -> Html:
    """Return how far the experiment is, as a table; the same rows all the time, so that nothing moves."""
    kind, told = STATES[progress.state]
    state = tag("div", "exp-sentence", marked_html(kind, told))
    bar = tag(
        "progress", "exp-progress", max=str(max(progress.total, 1)), value=str(progress.done), aria_label="Runs that are done"
    )
    hint = hint_html(HINTS.get(progress.state, ""))
    return view_html("Experiment", progress.id, state, bar, facts_html(_rows(progress)), hint)


def progress_text(progress: Progress) -> str:
    """Return the same in one line."""
    return clean(f"Experiment {progress.id}: {progress_line(progress)}")


def live_html(live: LiveExperiment) -> Html:
    """Return how far an experiment is that runs."""
    return progress_html(live.progress)


def live_text(live: LiveExperiment) -> str:
    """Return the same in one line."""
    return progress_text(live.progress)


def _rows(progress: Progress) -> Iterator[tuple[str, str, str]]:
    share = progress.done / progress.total if progress.total else 1.0
    yield "Done", f"{progress.done:,} of {progress.total:,} runs", f"{share:.0%}"
    yield "Running", f"{progress.running:,}", ""
    yield "Did not complete", f"{progress.failed:,}", _reasons(progress)
    is_over = progress.state in ("done", "stopped", "budget")
    left = "-" if is_over else format_time(progress.seconds_left)
    yield "Time", format_time(progress.seconds), "" if is_over else f"{left} left"
    yield "Rate", UNKNOWN if progress.rate is None else _rate(progress.rate), ""
    yield "Cost", money(progress.cost), ", ".join(_cost_notes(progress))


def _cost_notes(progress: Progress) -> Iterator[str]:
    if progress.cost_expected is None:
        yield "no estimate"
    elif progress.cost_expected:
        yield f"of {money(progress.cost_expected)} expected"
    if progress.budget is not None:
        yield f"budget {money(progress.budget)}"


def _rate(rate: float) -> str:
    return f"{rate_told(rate)} runs a second" if rate >= 0.5 else f"{rate_told(rate * 60)} runs a minute"


def _reasons(progress: Progress) -> str:
    listed = [f"{first_line(reason, MAX_OF_A_REASON)} {count}" for reason, count in progress.reasons[:MAX_REASONS]]
    more = len(progress.reasons) - MAX_REASONS
    return ", ".join([*listed, *([f"{more} other reasons"] if more > 0 else [])])
