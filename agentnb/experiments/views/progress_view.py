"""The progress of an experiment, as an HTML box and as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from agentnb.display.css import inline_css, wrap_output
from agentnb.display.markup import NOTHING, Html, join_html, tag, words
from agentnb.display.parts.head import marked_html
from agentnb.display.texts.labels import clean, first_line, pluralize
from agentnb.display.texts.states import end_words
from agentnb.experiments.running.control import Progress
from agentnb.experiments.running.live_experiment import LiveExperiment, progress_line
from agentnb.experiments.views.numbers import format_time, money

STATES = {
    "running": ("active", "Running"),
    "paused": ("asking", "Paused"),
    "stopping": ("asking", "Stopping"),
    "done": ("good", "Ended"),
    "stopped": ("warn", "Stopped"),
    "budget": ("warn", "Budget reached"),
}
"""The mark and words for each state."""
CONTROLS = {"running": ("pause", "stop"), "paused": ("resume", "stop")}
"""The buttons of each state."""
COVERED = "Values by variant are hidden until the end, so that nobody stops at a lucky moment."
HINTS = {
    "running": f"{COVERED} Stop, or Kernel > Interrupt, ends it early; run the cell again to continue.",
    "paused": "Resume continues it, or %agent resume if its cell does not wait.",
    "stopping": "Active runs are cancelled. Run the experiment again to complete the missing runs.",
    "stopped": "Run the experiment again to complete them.",
    "budget": "Raise the budget and run the experiment again to complete them.",
}
LOST = "The kernel ended. Run the cell again; runs stored in a folder are not repeated."
MAX_REASONS = 5
MAX_OF_A_REASON = 100


def progress_html(progress: Progress, variable: str = "") -> Html:
    """Return the box without buttons, as saved in a notebook. ``variable``: the variable that holds the results."""
    return _box(_progress(progress, *_state(progress)), _note(progress, variable))


def lost_html(progress: Progress) -> Html:
    """Return the box that remains if the kernel ends first."""
    return _box(_progress(replace(progress, state="stopped"), "warn", "Interrupted"), words(LOST))


def progress_parts(progress: Progress, variable: str = "") -> dict[str, str]:
    """Return the parts of a live box: ``progress``, ``controls`` and ``note``."""
    names = CONTROLS.get(progress.state, ())
    controls = [tag("button", "button", name.capitalize(), type="button", data_do=name) for name in names]
    bare = _progress(progress, *_state(progress))
    return {"progress": inline_css(bare), "controls": join_html(*controls), "note": inline_css(_note(progress, variable))}


def progress_text(progress: Progress, variable: str = "") -> str:
    """Return the progress on one line."""
    results = f". The results are in {variable}" if variable and progress.is_over else ""
    return clean(f"Experiment {progress.id}: {progress_line(progress)}{results}")


def live_html(live: LiveExperiment) -> Html:
    """Return the progress of a running experiment as HTML."""
    return progress_html(live.progress)


def live_text(live: LiveExperiment) -> str:
    """Return the progress of a running experiment on one line."""
    return progress_text(live.progress)


def _box(progress: Html, note: Html) -> Html:
    return wrap_output(tag("div", "exp", progress, tag("div", "exp-hint", note) if note else NOTHING))


def _state(progress: Progress) -> tuple[str, str]:
    kind, told = STATES[progress.state]
    return kind, "Pausing" if progress.state == "paused" and progress.running else told


def _progress(progress: Progress, kind: str, told: str) -> Html:
    """Return the heading, the line of facts and the bar."""
    count = f"Experiment {progress.id} · {progress.done:,} of {progress.total:,} runs"
    bar = tag(
        "progress", "exp-progress", max=str(max(progress.total, 1)), value=str(progress.done), aria_label="Runs that are done"
    )
    head = tag("div", "exp-head", marked_html(kind, told), " ", tag("b", "", words(count)))
    return join_html(head, tag("div", "exp-hint", words(" · ".join(_facts(progress)))), bar)


def _note(progress: Progress, variable: str) -> Html:
    """Return the next step or, if the experiment has ended, its outcome and where to find its results."""
    if not progress.is_over:
        if progress.state == "paused" and (running := progress.running):
            finish = "finishes" if running == 1 else "finish"
            return words(f"Pausing: {pluralize(running, 'run')} {finish} first.")
        return words(HINTS[progress.state])
    missing = progress.total - progress.done
    is_are = "is" if missing == 1 else "are"
    cut_off = f"{pluralize(missing, 'run')} {is_are} missing. {HINTS[progress.state]} " if progress.state in HINTS else ""
    results = join_html("The results are in ", tag("code", "exp-code", words(variable)), ".") if variable else NOTHING
    return join_html(words(cut_off), results or words("The call that ran the experiment returns the results."))


def _facts(progress: Progress) -> Iterator[str]:
    if progress.failed:
        yield f"{progress.failed:,} did not complete ({_reasons(progress)})"
    if progress.running and not progress.is_over:
        yield f"{progress.running:,} under way"
    yield format_time(progress.seconds)
    if not progress.is_over and progress.seconds_left is not None:
        yield f"about {format_time(progress.seconds_left)} left"
    yield ", ".join(_cost(progress))


def _cost(progress: Progress) -> Iterator[str]:
    cost = "cost unknown" if progress.cost is None else money(progress.cost)
    yield f"{cost} of {money(progress.cost_expected)} expected" if progress.cost_expected else cost
    if progress.budget is not None:
        yield f"budget {money(progress.budget)}"


def _reasons(progress: Progress) -> str:
    listed = [f"{count} x {first_line(end_words(reason), MAX_OF_A_REASON)}" for reason, count in progress.reasons[:MAX_REASONS]]
    more = len(progress.reasons) - MAX_REASONS
    return ", ".join([*listed, *([f"{more} other reasons"] if more > 0 else [])])
