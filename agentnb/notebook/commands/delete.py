"""``%agent delete``: deletes the logs of ended runs, after showing how much space this frees and asking for confirmation."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from agentnb.display.lists.history_list import history_text
from agentnb.display.texts.labels import clean, file_size, pluralize
from agentnb.errors import SettingsError, StoreError, suggest_names
from agentnb.notebook.commands.history_command import families_known_here
from agentnb.notebook.frontend import asker
from agentnb.runtime.questions.model_code import check_person
from agentnb.session.session import Session
from agentnb.store.summaries import RunSummary

FAILED, OLDER_THAN, YES = "--failed", "--older-than", "--yes"
OPTIONS = (FAILED, OLDER_THAN, YES)
USAGE = f"Write: %agent delete ID ..., {OLDER_THAN} 30d, or {FAILED}"
UNITS = {"h": timedelta(hours=1), "d": timedelta(days=1), "w": timedelta(weeks=1)}
MAX_SHOWN = 20
"""Maximum runs listed before the question; any others are counted."""
KEPT = frozenset({"running", "waiting_on_user"})
"""States of runs that are kept: live, or waiting for an answer, unless suspended and named by id."""
_AGE = re.compile(r"(\d{1,5})([hdw])")


class Wanted(NamedTuple):
    """The runs to delete: those with these ids, or all that started before a certain time or have failed."""

    ids: tuple[str, ...]
    before: datetime | None
    is_failed: bool


def delete_command(session: Session, shell: Any, words: list[str]) -> str:
    """Delete the runs that the words specify, with their nested runs, after confirmation; return a report."""
    chosen, kept = _choose(session, _parse(session, [word for word in words if word != YES]))
    if not chosen:
        return "\n".join(filter(None, ["No runs were deleted", kept]))
    runs = [run for family in chosen for run in family]
    size = file_size(sum(session.store.size(run.id) for run in runs))
    nested = f" with {pluralize(len(runs) - len(chosen), 'nested run')}" if len(runs) > len(chosen) else ""
    subject = f"{pluralize(len(chosen), 'run')}{nested}"
    lines = [history_text([family[0] for family in chosen[:MAX_SHOWN]], f"{subject} in {session.store.shown_folder}, {size}")]
    if len(chosen) > MAX_SHOWN:
        lines.append(f"and {len(chosen) - MAX_SHOWN:,} more")
    print("\n".join(filter(None, [*lines, kept])))
    if YES in words:
        check_person("Deleting runs")
        return _delete(session, chosen)
    ask = asker(shell)
    if ask is None:
        again = f"To delete without a question: %agent delete {' '.join(words)} {YES}"
        raise SettingsError("Nothing was deleted: nobody can confirm it in this frontend", again)
    reply = ask(f"Delete {subject}? This frees {size} and cannot be undone. [y/N] ")
    return _delete(session, chosen) if reply.strip().lower() in ("y", "yes") else "Nothing was deleted"


def _delete(session: Session, chosen: list[list[RunSummary]]) -> str:
    freed, count, refused = 0, 0, []
    for family in chosen:
        try:
            freed += session.store.delete(family[0].id, [run.id for run in family[1:]])
            count += 1
        except StoreError as error:  # resumed or deleted elsewhere meanwhile
            refused.append(error.what)
    return "\n".join([f"{pluralize(count, 'run')} deleted, {file_size(freed)} freed", *refused])


def _parse(session: Session, words: list[str]) -> Wanted:
    ids, before, is_failed, remaining = [], None, False, iter(words)
    for word in remaining:
        option, equals, value = word.partition("=")
        if option == OLDER_THAN:
            before = _time_before(value if equals else next(remaining, ""))
        elif option == FAILED:
            is_failed = True
        elif word.startswith("-"):
            raise SettingsError(f"%agent delete has no option {word}", (*suggest_names(word, OPTIONS),))
        else:
            ids.append(session.store.find(word))
    if bool(ids) == (before is not None or is_failed):
        raise SettingsError("Which runs?" if not ids else f"Give either IDs or {OLDER_THAN} and {FAILED}", USAGE)
    return Wanted(tuple(ids), before, is_failed)


def _time_before(age: str) -> datetime:
    """Return the time that long ago."""
    match = _AGE.fullmatch(age)
    if match is None:
        raise SettingsError(
            f"{OLDER_THAN} needs an age, got {age or 'nothing'}", f"Write hours, days or weeks: {OLDER_THAN} 30d"
        )
    return datetime.now(UTC) - int(match[1]) * UNITS[match[2]]


def _choose(session: Session, wanted: Wanted) -> tuple[list[list[RunSummary]], str]:
    """Return each run to delete, followed by its nested runs, and a note on the runs that are kept."""
    chosen: list[list[RunSummary]] = []
    kept: list[list[RunSummary]] = []
    nested = set(wanted.ids)
    for family in families_known_here(session):
        run = family[0]
        if run.id in wanted.ids if wanted.ids else _fits(run, wanted):
            is_kept = any(member.status in KEPT and not (wanted.ids and member.can_be_answered) for member in family)
            (kept if is_kept else chosen).append(family)
        nested.discard(run.id)
    if nested:
        run_id = min(nested)
        parent = session.store.summary(run_id).parent_id
        raise SettingsError(
            f"Run {run_id} belongs to run {parent}, which started it", f"Delete the parent run: %agent delete {parent}"
        )
    ids = ", ".join(clean(family[0].id) for family in kept[:MAX_SHOWN])
    return chosen, f"Kept because they are live or waiting for you: {ids}" if kept else ""


def _fits(run: RunSummary, wanted: Wanted) -> bool:
    is_old = wanted.before is None or (run.started_at is not None and run.started_at < wanted.before)
    return is_old and (has_failed(run) or not wanted.is_failed)


def has_failed(run: RunSummary) -> bool:
    """True if the run ended with an error or failed its task."""
    return run.status == "failed" or run.outcome == "failed"
