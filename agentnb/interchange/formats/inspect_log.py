"""Inspect logs: JSON files and ``.eval`` archives. Each epoch of a sample is a run.

In an archive, a sample is a single file, or a folder with its messages, events and attachments in chunks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from agentnb.detect.run import Run
from agentnb.errors import TraceError
from agentnb.interchange.archives import Archive, read_member, zip_file
from agentnb.interchange.conversion.nested_usage import with_nested_usage
from agentnb.interchange.formats.inspect_sample import Log, read_sample
from agentnb.interchange.trace_file import TraceFile, decode_json
from agentnb.store.bounds import MAX_HELD_BYTES, HeldData

NAME = "inspect"
TITLE = "log of Inspect"
RECORDS_END = "`scores`, `completed_at`, `error`, `limit`, `status`"
_HEADERS = ("header.json", "_journal/start.json")
"""Header files in an archive; an unfinished evaluation has only the second."""
_SAMPLE = re.compile(r"(samples/.+?)(?:\.json|/(sample|metadata|skeleton|(?:messages|events|calls|attachments)/\w+)\.json)")
"""A file in a sample: the complete sample, or a part of it in the sample's folder."""


def sniff(file: TraceFile) -> str:
    """Return an empty string if the file has this format, otherwise what is missing."""
    if file.kind == "zip":
        try:
            with zip_file(file) as names:
                member_names = set(names.namelist())
        except TraceError:
            return "it is an archive that cannot be unpacked"
        return "" if member_names & set(_HEADERS) else f"it is an archive without {_HEADERS[0]}"
    missing = file.lacks("eval", "status", kind="json")
    return missing or ("" if isinstance(file.first["eval"], dict) else "its eval is not an object")


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each epoch of each sample, followed by the runs of its sub-agents."""
    if file.kind == "zip":
        yield from _archive(file)
        return
    log = Log.of(NAME, file.first)
    has_samples = bool(file.first.get("samples"))
    for position, sample in file.items("samples") if has_samples else ():
        with file.guard(position):
            yield from with_nested_usage(read_sample(file, log, position, sample))
    if not has_samples:
        file.note("It has no samples: the evaluation did not log them, or has not begun")


def _archive(file: TraceFile) -> Iterator[Run]:
    with zip_file(file) as names:
        member_names = dict.fromkeys(names.namelist())  # a rewritten sample is listed twice: the last one counts
        held = HeldData(file.name)
        header = next(_member(names, name, held) for name in _HEADERS if name in member_names)
        log = Log.of(NAME, header)
        samples: dict[str, list[str]] = {}
        for name in member_names:
            if part := _SAMPLE.fullmatch(name):
                samples.setdefault(part[1] if part[2] else name, []).append(part[2] or "")
        for name, parts in samples.items():
            position = name if len(samples) > 1 else ""
            with file.guard(name):
                held = HeldData(name)
                sample = _join_chunks(names, name, parts, held) if parts[0] else _member(names, name, held)
                yield from with_nested_usage(read_sample(file, log, position, sample))
        if not samples:
            file.note("It has no samples: the evaluation did not log them, or has not begun")


def _join_chunks(names: Archive, folder: str, parts: Sequence[str], held: HeldData) -> dict[str, Any]:
    """Return a sample whose lists are stored in chunks; each chunk is named after the index of its first item."""

    def read(part: str) -> Any:
        return _member(names, f"{folder}/{part}.json", held)

    def items(kind: str) -> list[Any]:
        chunks = sorted(int(start) for part in parts if (start := part.removeprefix(f"{kind}/")).isdecimal())
        return [*chain.from_iterable(read(f"{kind}/{start}") for start in chunks)]

    sample: dict[str, Any] = read("sample")
    messages = items("messages")
    return sample | {
        "metadata": read("metadata") if "metadata" in parts else None,
        "messages": [message for first, end in sample["message_refs"] for message in messages[first:end]],
        "events": items("events"),
        "events_data": {"messages": messages},
        "attachments": {str(index): text for index, text in enumerate(items("attachments"))},
    }


def _member(names: Archive, name: str, held: HeldData) -> Any:
    data = read_member(names, name, MAX_HELD_BYTES)
    held.add(data)
    value = decode_json(data)
    if value is None:
        raise ValueError("it is not JSON")
    return value
