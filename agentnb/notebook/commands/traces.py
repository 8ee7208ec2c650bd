"""``%traces``: reads traces of any format, reports on them, and shows them in the trace browser."""

from __future__ import annotations

from glob import has_magic
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from agentnb.advice import ReadLoosely
from agentnb.display.lists.browser import problem_lines, runs_title
from agentnb.errors import SettingsError, TraceError, suggest_names
from agentnb.examples import FILES
from agentnb.interchange.files import Runs, source_exists
from agentnb.interchange.importing import CHOICES, Imported, import_traces
from agentnb.notebook.browser import Browser
from agentnb.notebook.browser.trace_loading import read_runs
from agentnb.notebook.variable_names import check_variable, unquote
from agentnb.session.session import Session
from agentnb.store.store import Store

MAX_PROBLEMS = 5
"""Maximum skipped files named; any others are counted."""
OPTIONS = ("--out", "--loose", "--import", "--existing")
NAME = "runs"
WHAT_THEY_DO = {
    "new": "stores them under new ids",
    "skip": "keeps existing runs",
    "replace": "replaces existing runs",
    "merge": "adds new messages to SAM conversations",
}


def show_traces(session: Session, shell: Any, options: Any, line: str) -> Browser | None:
    """Read the traces, store them in a variable, print a report, and return their browser.

    ``options``: ``path``, ``out``, ``loose``, ``do_import``, ``existing``; ``line``: as typed.
    """
    out = check_variable(options.out or NAME)
    if options.existing and not options.do_import:
        raise SettingsError("--existing needs --import", f"Write: %traces {line} --import")
    path = unquote(options.path)
    runs = _read(path, session, shell, loose=options.loose)
    shell.user_ns[out] = runs
    if len(runs) == 1:
        shell.user_ns["run"] = runs[0]
    if not runs:
        print("\n".join([_summary(runs, path, session), *problem_lines(runs.problems, MAX_PROBLEMS)]))
        return None
    location = f"in {out}" + (" and run" if len(runs) == 1 and out != "run" else "")
    left_out = f". {len(runs.problems):,} left out: {out}.problems says why" if runs.problems else ""
    print(f"{_summary(runs, path, session)}, {location}{left_out}")
    if options.do_import:
        print(_import(runs, session.store, options.existing, line))
    return Browser(runs)


def _read(path: str, session: Session, shell: Any, *, loose: bool) -> Runs:
    """Return the runs at a path or in the session's store. Errors suggest notebook commands."""
    if path and not (source_exists(path) or has_magic(path)):
        raise SettingsError(f"There is no file {path}", suggest_names(path, FILES) or f"Examples: {', '.join(FILES)}")
    try:
        return read_runs(path or session.store, shell, strict=bool(path) and not loose)
    except TraceError as error:
        advice = [replace(item, path=path) if isinstance(item, ReadLoosely) else item for item in error.advice]
        error.replace(error.what, tuple(advice))
        raise


def _summary(runs: Runs, path: str, session: Session) -> str:
    if not runs:
        return f"0 runs in {path or session.store.shown_folder}"
    return runs_title(run.origin.format if run.origin else "agentnb" for run in runs)


def _import(runs: Runs, store: Store, existing: str, line: str) -> str:
    """Copy the runs into the store, and return a report. Raises `SettingsError` if it is undecided what to do with existing
    runs.
    """
    stored_count = sum(store.has(run.id) for run in runs)
    if stored_count and not existing:
        ways = "; ".join(f"%traces {line} --existing {choice} ({effect})" for choice, effect in WHAT_THEY_DO.items())
        subject = "This run is" if len(runs) == 1 else f"{stored_count:,} of these {len(runs):,} runs are"
        raise SettingsError(f"{subject} already in {store.shown_folder}", f"Type one of: {ways}")
    imported = import_traces([*runs], store, existing or None)  # type: ignore[arg-type]  # one of CHOICES, as the magic says
    return f"Imported into {store.shown_folder}: {_counts(imported)}"


def _counts(done: list[Imported]) -> str:
    counts = {
        result: sum(imported.what == result for imported in done)
        for result in dict.fromkeys(imported.what for imported in done)
    }
    return (
        ", ".join(f"{count:,} {'under a new id' if result == 'new' else result}" for result, count in counts.items())
        or "nothing"
    )


def words_after(before: list[str], fragment: str) -> list[str]:
    """Return completions for ``%traces``: examples, files and options, or the values of an option."""
    if before and before[-1] == "--existing":
        return [*CHOICES]
    if before and before[-1] in ("-o", "--out"):
        return []
    if fragment.startswith("-"):
        return [*OPTIONS]
    return [*FILES, *_files(fragment)]


def _files(fragment: str) -> list[str]:
    """Return files and folders whose paths start with this prefix; hidden ones only if the prefix starts with a dot."""
    folder, _, name = fragment.rpartition("/")
    start = f"{folder}/" if folder or fragment.startswith("/") else ""
    try:
        entries = sorted(Path(start or ".").expanduser().iterdir())
    except (OSError, RuntimeError):
        return []
    shown = (entry for entry in entries if name.startswith(".") or not entry.name.startswith("."))
    return [f"{start}{entry.name}{'/' if entry.is_dir() else ''}" for entry in shown]
