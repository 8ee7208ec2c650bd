"""Loading runs from files of any format, folders, archives, patterns and stores."""

from __future__ import annotations

import glob
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias, overload

from agentnb.detect.run import Run
from agentnb.errors import StoreError, TraceError
from agentnb.examples import find
from agentnb.traces.archives import members, trace_file
from agentnb.traces.follow import FollowedRun
from agentnb.traces.formats import UnknownFormat, format_of
from agentnb.traces.store import Store, load_file, unreadable
from agentnb.traces.trace_file import Problem, TraceFile

RunSource: TypeAlias = "Run | Store | str | Path | Iterable[Run | Store | str | Path]"
"""A run, a store, a path, a folder, a glob, or several of these."""
ENDINGS = frozenset(
    {".jsonl", ".ndjson", ".json", ".traj", ".eval", ".yaml", ".yml", ".db", ".sqlite", ".sqlite3", ".parquet"}
    | {".html", ".htm", ".har", ".zip", ".gz", ".log", ".txt"}
)
"""Endings of the files that are looked at in a folder; a file that is named is read whatever its ending."""
MAX_WARNINGS = 10
"""Files left out that are named in warnings of their own; further ones are counted."""


class Runs(list[Run]):
    """The runs of a source, and the `problems`: what of it could not be read."""

    def __init__(self, runs: Iterable[Run] = (), problems: Iterable[Problem] = ()) -> None:
        super().__init__(runs)
        self.problems: list[Problem] = [*problems]


@overload
def load_trace(path: str | Path, *, strict: bool = True, follow: Literal[False] = False) -> Run: ...
@overload
def load_trace(path: str | Path, *, strict: bool = True, follow: Literal[True]) -> FollowedRun: ...
def load_trace(path: str | Path, *, strict: bool = True, follow: bool = False) -> Run | FollowedRun:
    """Return the run of a file of any format that agentnb reads. A log without an end gives a run with status ``interrupted``.

    Of a run with nested runs and forks in the same file, the outer one is returned. ``strict=False`` leaves out what is
    damaged. ``follow=True`` returns a `FollowedRun`, which grows with a log that another process writes. Raises `TraceError`
    if the file cannot be read or holds several runs, `StoreError` if it cannot be opened.
    """
    path = _expanded(path)
    if path.is_dir():
        raise TraceError(f"{path} is a folder", f"Load all runs in it with load_traces({str(path)!r})")
    if follow:
        return FollowedRun(path)
    runs = [*_of_path(path, strict, [])]
    ids = {run.id for run in runs}
    outer = [run for run in runs if run.parent_id not in ids and (run.forked_from is None or run.forked_from.run_id not in ids)]
    if len(outer) != 1:
        what = f"{path} holds {len(outer):,} runs" if outer else f"{path} holds no run"
        raise TraceError(what, f"Load all of them with load_traces({str(path)!r})" if outer else "")
    return outer[0]


def load_traces(source: RunSource, *, strict: bool = True) -> Runs:
    """Return all runs of a path, a folder, a glob, an archive, a store, or several of these, in order of their names.

    The runs are a list, whose ``problems`` say what could not be read. A file that is named must be a trace, and with
    ``strict`` a sound one; in a folder, a glob, an archive or a store, files that are not are left out with a warning.
    ``strict=False`` reads of each file what can be read, and warns of nothing.
    """
    problems: list[Problem] = []
    runs = Runs(_each(source, strict, problems))
    runs.problems += problems
    if strict:
        _warn(problems)
    return runs


def iter_traces(source: RunSource, *, strict: bool = True, problems: list[Problem] | None = None) -> Iterator[Run]:
    """Yield what `load_traces` returns, one run after the other, so that a source of any size fits into memory.

    What could not be read is appended to ``problems``.
    """
    yield from _each(source, strict, [] if problems is None else problems)


def _each(source: RunSource, strict: bool, problems: list[Problem]) -> Iterator[Run]:
    if isinstance(source, Run):
        yield source
    elif isinstance(source, Store):
        yield from _sound(((str(path), partial(_logged, path)) for path in sorted(source.folder.glob("*.jsonl"))), problems)
    elif isinstance(source, str | Path):
        yield from _named(source, strict, problems)
    elif isinstance(source, Iterable):
        for one in source:
            yield from _each(one, strict, problems)
    else:
        raise TraceError(f"{source!r} is not a run", "Give a Run, several, a path, a folder, a glob or a Store")


def _named(source: str | Path, strict: bool, problems: list[Problem]) -> Iterator[Run]:
    path = _expanded(source)
    if path.is_dir():
        yield from _readable(_files_in(path), strict, problems)
    elif path.exists() or not glob.has_magic(str(path)):
        yield from _of_path(path, strict, problems)
    else:
        found = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
        if not found:
            raise StoreError(f"No file matches {source}")
        yield from _readable(found, strict, problems)


def _files_in(folder: Path) -> list[Path]:
    """Return the files of a folder and its subfolders that may be traces, without hidden ones."""
    found = (path for path in folder.rglob("*") if path.suffix.lower() in ENDINGS)
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(folder).parts))


def _readable(paths: Iterable[Path], strict: bool, problems: list[Problem]) -> Iterator[Run]:
    """Yield the runs of these files, of any format."""
    return _sound(((str(path), partial(_of_path, path, strict, problems)) for path in paths), problems)


def _sound(sources: Iterable[tuple[str, Callable[[], Iterator[Run]]]], problems: list[Problem]) -> Iterator[Run]:
    """Yield the runs of these sources, each with its name; one that cannot be read is a problem, and stops nothing."""
    for name, read in sources:
        try:
            yield from read()
        except TraceError as error:
            problems.append(Problem(name, "", str(error)))


def _logged(path: Path) -> Iterator[Run]:
    yield load_file(path)


def _of_path(path: Path, strict: bool, problems: list[Problem]) -> Iterator[Run]:
    try:
        yield from _of_file(trace_file(path, strict=strict), problems)
    except OSError as error:
        raise unreadable(path, error) from None


def _of_file(file: TraceFile, problems: list[Problem]) -> Iterator[Run]:
    """Yield the runs of a file, or of the files in an archive that is of no format itself."""
    try:
        found = format_of(file)
    except UnknownFormat:
        if file.kind != "zip":
            raise
        yield from _sound(((one.name, partial(_of_file, one, problems)) for one in members(file)), problems)
        return
    with file.guarded():
        yield from found.read(file)
    problems += file.problems


def _warn(problems: list[Problem]) -> None:
    for problem in problems[:MAX_WARNINGS]:
        warnings.warn(f"Left out: {problem}", stacklevel=3)
    if len(problems) > MAX_WARNINGS:
        warnings.warn(
            f"Left out: {len(problems) - MAX_WARNINGS:,} more. load_traces(...).problems lists all of them", stacklevel=3
        )


def is_there(source: str | Path) -> bool:
    """Return whether there is such a file or folder, or an example of this name."""
    return _expanded(source).exists()


def _expanded(source: str | Path) -> Path:
    """Return the path, or that of an example if there is no such file."""
    try:
        found = Path(source).expanduser()
        return found if found.exists() else find(str(source)) or found
    except RuntimeError as error:
        raise StoreError(f"{source} cannot be read: {error}", "Name the folder in full") from error
