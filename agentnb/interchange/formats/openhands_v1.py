"""Conversations of OpenHands since version 1: events in a list, in JSON Lines, or each in its own file.

OpenHands has a folder ``events`` with one file per event; the first file represents all of them. The archive downloaded from
its web page has the same files, and the ``output.jsonl`` of its benchmarks has one conversation per line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from agentnb.detect.run import Run
from agentnb.errors import TraceError
from agentnb.interchange.archives import read_member, zip_file
from agentnb.interchange.formats.endings import recorded_settings
from agentnb.interchange.formats.message_content import str_at, value_at
from agentnb.interchange.formats.openhands_v1_events import ConversationReader, is_event
from agentnb.interchange.formats.session_log import run_id_of
from agentnb.interchange.formats.total_usage import total_of
from agentnb.interchange.trace_file import TraceFile, decode_json
from agentnb.models.providers.serialization import object_of
from agentnb.store.bounds import MAX_RECORD_BYTES
from agentnb.store.regular_files import open_regular

NAME = "openhands_v1"
TITLE = "conversation of OpenHands 1"
RECORDS_END = "the state, a message, `finish`, an error"
SNIFFED_EVENTS = 20
"""Number of initial events used to recognize a conversation."""
_EVENT_FILE = re.compile(r"event[-_](\d+)[-_][^/]+\.json")
_STATE_FILES = ("base_state.json", "meta.json")
"""Metadata files next to the events; the first is written by the program, the second is part of a download."""
MAX_FOLDERS_REMEMBERED = 1_000
_RECORDED = ("error", "test_result", "instance", "title", "selected_repository", "selected_branch", "trigger")


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    if file.kind == "zip":
        return "" if _event_members(file) else "it is an archive without files such as event_000000_ID.json"
    if file.kind == "lines" and is_event(file.first):
        return ""
    events = _events_of(file.first)
    if events is None:
        return "" if _is_state(file) else "it has no events with a kind, such as MessageEvent"
    matches = sum(map(is_event, events[:SNIFFED_EVENTS]))  # single events may be damaged
    return "" if matches and 2 * matches >= len(events[:SNIFFED_EVENTS]) else "its events have no kind, such as MessageEvent"


def read(file: TraceFile) -> Iterator[Run]:
    """Yield the run of each conversation."""
    if file.kind == "zip":
        yield from _archive(file)
    elif file.kind == "lines" and is_event(file.first):
        yield _run(file, "", {}, file.records(), "line {}")
    elif file.kind == "lines":
        for number, record in file.records(one_by_one=True):
            with file.guard(f"line {number}"):
                yield _run(file, f"line {number}", record, enumerate(record["history"]))
    elif is_event(file.document):
        yield from _folder(file)
    elif not _is_state(file):
        document = file.document
        yield _run(file, "", object_of(document), enumerate(_events_of(document) or ()))


def _events_of(value: Any) -> list[Any] | None:
    """Return the events in a document: a list, a single event, a record, or a server response."""
    if is_event(value):
        return [value]
    for key in ("history", "items", "events") if isinstance(value, dict) else ():
        if isinstance(value.get(key), list) and any(map(is_event, value[key][:SNIFFED_EVENTS])):
            return list(value[key])
    return value if isinstance(value, list) and any(map(is_event, value[:SNIFFED_EVENTS])) else None


def _run(
    file: TraceFile, position: str, about: Mapping[str, Any], events: Iterable[tuple[int, Any]], named: str = "event {}"
) -> Run:
    """Return the run in these numbered events. ``about``: the record, or the content of the state file next to the events."""
    recorded_models = value_at(about, "agent", "llm", "model"), value_at(about, "metadata", "llm_config", "model")
    model = next(filter(None, recorded_models), about.get("llm_model"))
    reader = ConversationReader(str(model or ""))
    for number, event in events:
        with file.guard(", ".join(filter(None, (position if "line" not in named else "", named.format(number))))):
            reader.take(event)
    cost = (about.get("metrics") or {}).get("accumulated_cost")
    settings = recorded_settings(about, *_RECORDED, accumulated_cost=cost)
    writer = file.writer(
        NAME,
        position,
        task=str_at(about, "instance_id"),
        trial=str_at(about, "attempt"),
        run_id=run_id_of(about["id"]) if isinstance(about.get("id"), str) else "",
        model=reader.model,
        tools=reader.tools,
        settings=settings,
    )
    writer.total(total_of(cost=cost))
    return reader.write(writer, about)


# One file per event


def _folder(file: TraceFile) -> Iterator[Run]:
    """Yield one run for all event files of the folder if this is the first of them; otherwise nothing."""
    path = file.path
    if path is None or not _EVENT_FILE.fullmatch(path.name):
        yield _run(file, "", {}, [(0, file.document)])
        return
    if _follows_another(path):
        return
    names = sorted((entry.name for entry in path.parent.iterdir() if _EVENT_FILE.fullmatch(entry.name)), key=_order)
    first = next(name for name in names if name == path.name or _is_event_file(path.with_name(name)))
    _remember_first(path.parent, first)
    if first == path.name:
        yield _run(file, "", _state_beside(file, path), _events_in(file, [path.with_name(name) for name in names]))


_first_names: dict[Path, str] = {}
"""The first event file in each folder, cached because listing the folder for each of its files would take quadratic time."""


def _follows_another(path: Path) -> bool:
    """True if the cached first event file of the folder still exists and comes before this one."""
    first = _first_names.get(path.parent)
    return first is not None and _order(first) < _order(path.name) and path.with_name(first).is_file()


def _remember_first(folder: Path, name: str) -> None:
    if len(_first_names) >= MAX_FOLDERS_REMEMBERED:
        _first_names.clear()
    _first_names[folder] = name


def _is_event_file(path: Path) -> bool:
    """True if the file contains an event. A damaged file cannot represent its folder."""
    try:
        return is_event(_in_file(path))
    except (OSError, TraceError):
        return False


def _events_in(file: TraceFile, paths: list[Path]) -> Iterator[tuple[int, Any]]:
    """Yield the events in these files; unreadable files become problems."""
    for number, path in enumerate(paths):
        try:
            yield number, _in_file(path)
        except (OSError, TraceError) as error:
            file.problem(f"{path.name} cannot be read: {error}", f"event {number}")


def _state_beside(file: TraceFile, path: Path) -> Mapping[str, Any]:
    states = (folder / name for folder in (path.parent, path.parent.parent) for name in _STATE_FILES)
    state_path = next((candidate for candidate in states if candidate.is_file()), None)
    try:
        state = None if state_path is None else _in_file(state_path)
    except (OSError, TraceError) as error:
        file.problem(f"The state beside it cannot be read: {error}")
        state = None
    return object_of(state)


def _in_file(path: Path) -> Any:
    with open_regular(path, MAX_RECORD_BYTES) as file:
        return decode_json(file.read())


def _is_state(file: TraceFile) -> bool:
    """True if this is a state file next to the events of a conversation."""
    if file.path is None or file.path.name not in _STATE_FILES:
        return False
    return any(folder.is_dir() and _has_events(folder) for folder in (file.path.parent / "events", file.path.parent))


def _has_events(folder: Path) -> bool:
    return any(_EVENT_FILE.fullmatch(entry.name) for entry in folder.iterdir())


def _archive(file: TraceFile) -> Iterator[Run]:
    by_folder = _event_members(file)
    with zip_file(file) as names:
        inside = set(names.namelist())
        for folder, members in by_folder.items():
            position = folder.rstrip("/") if len(by_folder) > 1 else ""
            above = folder.removesuffix("events/")
            state = next((f"{at}{name}" for at in (folder, above) for name in _STATE_FILES if f"{at}{name}" in inside), None)
            state_data = decode_json(read_member(names, state, MAX_RECORD_BYTES)) if state else None
            events = (
                (number, decode_json(read_member(names, member, MAX_RECORD_BYTES))) for number, member in enumerate(members)
            )
            with file.guard(position):
                yield _run(file, position, object_of(state_data), events)


def _event_members(file: TraceFile) -> dict[str, list[str]]:
    """Return the event files in an archive, in order, by folder; empty if the archive is damaged."""
    by_folder: dict[str, list[str]] = {}
    try:
        with zip_file(file) as names:
            for name in names.namelist():
                folder, slash, last = name.rpartition("/")
                if _EVENT_FILE.fullmatch(last):
                    by_folder.setdefault(folder + slash, []).append(name)
    except TraceError:
        return {}
    return {folder: sorted(members, key=lambda name: _order(name.rpartition("/")[2])) for folder, members in by_folder.items()}


def _order(name: str) -> tuple[int, str]:
    """Return the sort key for an event file's name: first its number, then the name."""
    match = _EVENT_FILE.fullmatch(name)
    return (int(match[1]) if match else 0), name
