"""Logs of Inspect: JSON, large ones a sample at a time, and ``.eval`` archives. Each sample and epoch is a run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from agentnb.detect.run import Run
from agentnb.errors import TraceError
from agentnb.interchange.archives import Archive, read_member, zip_file
from agentnb.interchange.conversion.nested_usage import with_nested_usage
from agentnb.interchange.formats.inspect_sample import Log, read_sample
from agentnb.interchange.trace_file import TraceFile, decoded
from agentnb.store.bounds import MAX_HELD_BYTES, check_json

NAME = "inspect"
TITLE = "log of Inspect"
RECORDS_END = "`scores`, `completed_at`, `error` or `limit` of the sample, the log's `status`"
_HEADERS = ("header.json", "_journal/start.json")
"""Where an archive says what was evaluated; the second alone if the evaluation has not finished."""
_SAMPLES = "samples/"


def sniff(file: TraceFile) -> str:
    """Return what the file lacks."""
    if file.kind == "zip":
        try:
            with zip_file(file) as names:
                found = set(names.namelist())
        except TraceError:
            return "it is a damaged archive"
        return "" if found & set(_HEADERS) else f"it is an archive without {_HEADERS[0]}"
    missing = file.lacks("eval", "status", kind="json")
    return missing or ("" if isinstance(file.first["eval"], dict) else "its eval is not an object")


def read(file: TraceFile) -> Iterator[Run]:
    """Yield a run for each sample and epoch, each followed by the runs of its sub-agents."""
    if file.kind == "zip":
        yield from _archive(file)
        return
    log = Log.of(NAME, file.first)
    has_samples = bool(file.first.get("samples"))
    for position, sample in file.items("samples") if has_samples else ():
        with file.guarded(position):
            yield from with_nested_usage(read_sample(file, log, position, sample))
    if not has_samples:
        file.note("It has no samples: the evaluation did not log them, or has not begun")


def _archive(file: TraceFile) -> Iterator[Run]:
    with zip_file(file) as names:
        found = dict.fromkeys(names.namelist())  # a sample that was written again has its name twice: the last one counts
        header = next(_member(names, name) for name in _HEADERS if name in found)
        log = Log.of(NAME, header)
        samples = [name for name in found if name.startswith(_SAMPLES) and name.endswith(".json")]
        for name in samples:
            position = name if len(samples) > 1 else ""
            with file.guarded(name):
                yield from with_nested_usage(read_sample(file, log, position, _member(names, name)))
        if not samples:
            file.note("It has no samples: the evaluation did not log them, or has not begun")


def _member(names: Archive, name: str) -> Any:
    data = read_member(names, name, MAX_HELD_BYTES)
    check_json(data, name)
    found = decoded(data)
    if found is None:
        raise ValueError("it is not JSON")
    return found
