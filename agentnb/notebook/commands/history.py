"""``%agent history``: the runs in the store, as a list whose entries open."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

from IPython.display import display

from agentnb.display.compact import compact_html
from agentnb.display.history import history_html, history_text, matches
from agentnb.display.labels import counted, first_line
from agentnb.display.markup import Html, words
from agentnb.errors import AgentnbError, SettingsError
from agentnb.session.session import Session
from agentnb.traces.summaries import RunSummary

SHOWN = 20
MAX_LISTED = 200
"""Runs in one list, even if more are requested."""
MAX_LEFT_OUT = 200
"""Characters of the names of files that are no run logs."""
KINDS = ["failed", "completed", "limited", "stopped", "cancelled", "interrupted", "running"]
"""Words that tab completion offers."""


def show_history(session: Session, shell: Any, wanted: list[str]) -> None:
    """Show the newest runs that match all of the ``wanted`` words and have each ``--tag``; a leading number sets how many."""
    most = SHOWN
    tags, wanted = _tags(wanted)
    if wanted and wanted[0].isdecimal():
        most, wanted = min(int(wanted[0]), MAX_LISTED), wanted[1:]
    if not most:
        raise SettingsError("A list of no runs shows nothing", f"Write a number from 1 to {MAX_LISTED}: %agent history 50")
    left_out: list[str] = []
    fitting = (one for one in as_known_here(session, left_out) if tags <= {*one.tags} and matches(one, wanted))
    found = list(islice(fitting, most))
    told = _told(session, found, [*[f"#{one}" for one in sorted(tags)], *wanted], most)
    if left_out:
        told += f". Left out, as they are no run logs: {first_line(', '.join(left_out), MAX_LEFT_OUT)}"
    text = history_text(found, told)
    if getattr(shell, "kernel", None) is None:
        print(text)
        return
    html = history_html(found, told, lambda run_id: _opened(session, run_id))
    display({"text/plain": text, "text/html": html}, raw=True)


def _tags(wanted: list[str]) -> tuple[set[str], list[str]]:
    """Return the tags that were asked for with ``--tag``, and the other words."""
    tags, others, words = set(), [], iter(wanted)
    for word in words:
        option, equals, value = word.partition("=")
        if option != "--tag":
            others.append(word)
        elif tag := value if equals else next(words, ""):
            tags.add(tag)
        else:
            raise SettingsError("--tag says no tag", "Write %agent history --tag WORD")
    return tags, others


def as_known_here(session: Session, left_out: list[str] | None = None) -> Iterator[RunSummary]:
    """Yield the store's summary of each run; a run that is live in this kernel is running, whatever its log says so far.

    The names of files that are no run logs are appended to ``left_out``.
    """
    going_on = {live.run_id for live in session.running()}
    for one in session.store.each_summary(left_out):
        yield one._replace(status="running") if one.id in going_on else one


def _told(session: Session, found: list[RunSummary], wanted: list[str], most: int) -> str:
    count = len(session.store.ids())
    where = f"{counted(count, 'run')} in {session.store.shown_folder}"
    newest = "" if len(found) < most or count <= most else f", the newest {most}"
    if wanted:
        newest = f"{newest or f', {len(found)}'} with {' and '.join(wanted)}"
    interrupted = any(one.status == "interrupted" for one in found)
    return f"{where}{newest}{'. Go on with one that was interrupted: %agent recover ID' if interrupted else ''}"


def _opened(session: Session, run_id: str) -> Html:
    """Return the run, or why it cannot be shown: one damaged log must not break the list."""
    live = next((live for live in session.running() if live.run_id == run_id), None)
    try:
        return compact_html(live.run if live is not None else session.store.load(run_id))
    except AgentnbError as error:
        return words(str(error), 1_000)
