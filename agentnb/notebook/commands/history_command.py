"""``%agent history``: lists the store's runs as expandable entries."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

from IPython.display import display
from msgspec.structs import replace

from agentnb.core.log.outcome import Outcome
from agentnb.detect.run import Run
from agentnb.display.card.compact import compact_html
from agentnb.display.lists.history_list import history_html, history_text, list_title, matches
from agentnb.display.markup import Html, words
from agentnb.display.texts.labels import first_line, pluralize
from agentnb.display.texts.notebook_commands import error_in_notebook
from agentnb.errors import AgentnbError, SettingsError
from agentnb.notebook.magic_errors import split_words
from agentnb.notebook.widget_tools import has_kernel
from agentnb.session.session import Session
from agentnb.store.summaries import RunSummary, families

DEFAULT_COUNT = 20
MAX_LISTED = 200
"""Maximum runs listed, even if more are requested."""
MAX_LEFT_OUT = 200
"""Maximum characters for listing names of files that are not run logs."""
NESTED, FAILED = "--nested", "--failed"
KINDS = [
    "failed",
    "completed",
    "limited",
    "stopped",
    "cancelled",
    "interrupted",
    "unknown",
    "running",
    "waiting_on_user",
    FAILED,
    NESTED,
]
"""Words that tab completion offers."""


def history_command(session: Session, shell: Any, rest: str) -> None:
    """[N] [WORD ...] [--failed] [--nested]: list the newest runs, those with all these words, or with a failed check"""
    most, wanted = DEFAULT_COUNT, split_words(rest)
    with_nested = NESTED in wanted  # a match in a nested run is enough
    outcome: Outcome | None = "failed" if FAILED in wanted else None
    tags, wanted = _tags([word for word in wanted if word not in (NESTED, FAILED)])
    if wanted and wanted[0].isdecimal():
        most, wanted = min(int(wanted[0]), MAX_LISTED), wanted[1:]
    if not most:
        raise SettingsError(
            "The number of runs must be at least 1", f"Write a number from 1 to {MAX_LISTED}: %agent history 50"
        )
    left_out: list[str] = []
    lists = (family if with_nested else family[:1] for family in families_known_here(session, left_out))
    fitting = (
        family for family in lists if any(tags <= {*summary.tags} and matches(summary, wanted, outcome) for summary in family)
    )
    summaries = list(islice(chain.from_iterable(islice(fitting, most)), MAX_LISTED))
    title = _title(session, summaries, [*([FAILED] if outcome else []), *[f"#{tag}" for tag in sorted(tags)], *wanted], most)
    if left_out:
        predicate = "is not a run log" if len(left_out) == 1 else "are not run logs"
        title += f". {pluralize(len(left_out), 'file')} {predicate}: {first_line(', '.join(left_out), MAX_LEFT_OUT)}"
    text = history_text(summaries, title)
    if not has_kernel(shell):
        print(text)
        return
    html = history_html(summaries, title, lambda run_id: _open_run(session, run_id))
    display({"text/plain": text, "text/html": html}, raw=True)


def _tags(wanted: list[str]) -> tuple[set[str], list[str]]:
    """Return the tags passed with ``--tag``, and the other words."""
    tags, others, words = set(), [], iter(wanted)
    for word in words:
        option, equals, value = word.partition("=")
        if option != "--tag":
            others.append(word)
        elif tag := value if equals else next(words, ""):
            tags.add(tag)
        else:
            raise SettingsError("--tag needs a tag", "Write %agent history --tag WORD")
    return tags, others


def families_known_here(session: Session, left_out: list[str] | None = None) -> Iterator[list[RunSummary]]:
    """Yield the summaries of each top-level run and its nested runs.

    Runs that are live in this kernel have their current state, which their log may not show yet. Names of files that are not
    run logs are appended to ``left_out``.
    """
    live_runs = {live.run_id: live.run for live in session.running()}
    summaries = session.store.each_summary(left_out)
    current = (_as_live(summary, live_runs[summary.id]) if summary.id in live_runs else summary for summary in summaries)
    return families(current, set(session.store.ids()))


def _as_live(summary: RunSummary, run: Run) -> RunSummary:
    """Return the summary of a run in this kernel, with its current state."""
    return replace(summary, status=run.status, stop_reason=run.stop_reason or "running", paused=not run.waiting)


def _title(session: Session, summaries: list[RunSummary], wanted: list[str], most: int) -> str:
    store = session.store
    title = list_title(summaries, count=len(store.ids()), folder=store.shown_folder, most=most, wanted=wanted)
    if any(summary.can_be_recovered for summary in summaries):
        title += ". Resume an interrupted run: %agent recover ID"
    if any(summary.can_be_answered for summary in summaries):
        title += ". Answer a run that is waiting for you: %agent answer ID TEXT"
    return title


def _open_run(session: Session, run_id: str) -> Html:
    """Return the run, or the reason why it cannot be shown: a damaged log must not break the list."""
    live = next((live for live in session.running() if live.run_id == run_id), None)
    try:
        return compact_html(live.run if live is not None else session.store.load(run_id))
    except AgentnbError as error:
        return words(error_in_notebook(error), 1_000)
