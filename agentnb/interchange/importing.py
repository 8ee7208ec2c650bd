"""Copies runs from files into a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple, TypeAlias, get_args
from uuid import uuid4

from msgspec.structs import replace

from agentnb.advice import NameOne, StopRun
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, StoreError
from agentnb.interchange.exports.sam_export import conversation_export
from agentnb.interchange.files import RunSource, load_traces
from agentnb.interchange.formats.sam import NAME as SAM
from agentnb.interchange.formats.sam import run_of
from agentnb.store.atomic_files import save_log
from agentnb.store.regular_files import open_regular
from agentnb.store.run_file import is_being_written
from agentnb.store.store import Store

Existing: TypeAlias = Literal["new", "skip", "replace", "merge"]
"""Treatment of a run whose id is in the store: keep both, skip it, replace the stored run, or merge their messages."""
CHOICES: tuple[str, ...] = get_args(Existing)
IMPORTED = " (Imported)"
"""Suffix for the title of a conversation that is stored under another id."""


class Imported(NamedTuple):
    """The result of importing a run."""

    run_id: str
    """The id of the run in the store."""
    what: Literal["added", "new", "skipped", "replaced", "merged"]
    messages: int
    """Number of messages that are new to the store."""


def import_traces(source: RunSource, store: Store, existing: Existing | None = None) -> list[Imported]:
    """Copy the runs in ``source`` to ``store`` as logs, and return the result for each.

    ``existing``: what to do with runs whose ids are in the store. ``new`` stores them under new ids; ``skip`` keeps the stored
    runs; ``replace`` replaces them; ``merge`` (only for SAM conversations, whose messages have ids) adds the messages whose ids
    are new. By default, such a run raises `SettingsError`, and nothing is stored. Raises `StoreError` if a run to be changed is
    still running.
    """
    if existing is not None and existing not in CHOICES:
        raise SettingsError(f"existing={existing!r} is unknown", NameOne(known=CHOICES, lead="Choose one of"))
    runs = load_traces(source)
    existing_ids = [run.id for run in runs if store.has(run.id)]
    if existing_ids and existing is None:
        subject = f"{existing_ids[0]} is" if len(existing_ids) == 1 else f"{len(existing_ids):,} of these runs are"
        raise SettingsError(f"{subject} already in {store.shown_folder}", f"Say what to do: existing= {', '.join(CHOICES)}")
    return [_WAYS[existing](run, store) if existing and store.has(run.id) else _add(run, store) for run in runs]


def _add(run: Run, store: Store, what: Literal["added", "new", "replaced"] = "added") -> Imported:
    _save(run, store)
    return Imported(run.id, what, len(run.messages))


def _merge(run: Run, store: Store) -> Imported:
    if run.origin is None or run.origin.format != SAM:
        raise SettingsError(f"Run {run.id} cannot be merged: its messages have no ids", "Choose new, skip or replace")
    stored, imported = conversation_export(store.load(run.id)), conversation_export(run)
    messages: list[dict[str, Any]] = stored["conversation"]["messages"]
    known_ids, recorded = (
        {message["id"] for message in messages},
        {message.get("id") for message in run.settings["recorded"]["messages"]},
    )
    added = [message for message in imported["conversation"]["messages"] if message["id"] in recorded - known_ids]
    messages += added
    stored["conversation"]["updated"] = imported["conversation"]["updated"]
    _save(run_of(stored, run.origin.file, run.origin.position), store)
    return Imported(run.id, "merged", len(added))


_WAYS: dict[str, Callable[[Run, Store], Imported]] = {
    "new": lambda run, store: _add(_copy_as(run, str(uuid4()).upper()), store, "new"),
    "skip": lambda run, store: Imported(run.id, "skipped", 0),
    "replace": lambda run, store: _add(run, store, "replaced"),
    "merge": _merge,
}


def _save(run: Run, store: Store) -> None:
    path = store.path(run.id)
    try:
        if path.exists():
            with open_regular(path) as file:
                if is_being_written(file):
                    raise StoreError(f"Run {run.id} is running: it cannot be replaced", StopRun(run.id, lead="Stop it first"))
        store.prepare()
        save_log(run, path)
    except StoreError:
        raise
    except OSError as error:
        raise StoreError(
            f"Run {run.id} cannot be stored in {store.shown_folder}: {error.strerror or error}",
            "Choose a writable folder",
        ) from error


def _copy_as(run: Run, run_id: str) -> Run:
    """Return the run under another id, with a title that marks it as imported."""
    events = [replace(event, run_id=run_id) for event in run.events]
    settings = run.opening.settings
    if isinstance(recorded := settings.get("recorded"), dict):
        conversation = dict(recorded.get("conversation") or {})
        conversation["id"] = run_id
        conversation["title"] = f"{conversation.get('title') or ''}{IMPORTED}".strip()
        events[0] = replace(
            run.opening, run_id=run_id, settings={**settings, "recorded": {**recorded, "conversation": conversation}}
        )
    fresh = Run.from_events(events)
    fresh.mark_interrupted()
    return fresh
