"""Loading runs from files and saving them."""

from __future__ import annotations

import glob
import os
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import TypeAlias

from agentnb.core.wire import encode
from agentnb.detect.run import Run
from agentnb.errors import StoreError, TraceError
from agentnb.traces.store import Store, load_file

RunSource: TypeAlias = "Run | Store | str | Path | Iterable[Run | Store | str | Path]"
"""A run, a store, a path, a folder, a glob, or several of these."""


def load_trace(path: str | Path) -> Run:
    """Return the run of a log file. A log without an end gives a run with status ``interrupted``.

    Raises `TraceError` if the file is not a run log of agentnb or was written by a newer version,
    `StoreError` if it cannot be read.
    """
    path = Path(path).expanduser()
    if path.is_dir():
        raise TraceError(f"{path} is a folder", f"Load all runs in it with load_traces({str(path)!r})")
    return load_file(path)


def load_traces(source: RunSource) -> list[Run]:
    """Return all runs of a path, a folder, a glob, a store, or several of these, oldest first within each.

    A single path must be a run log. In a folder, a glob or a store, files that are not are skipped with a warning.
    """
    if isinstance(source, Run):
        return [source]
    if isinstance(source, Store):
        return _readable(sorted(source.folder.glob("*.jsonl")))
    if isinstance(source, str | Path):
        paths = _paths(source)
        return [load_trace(paths[0])] if paths == [Path(source).expanduser()] else _readable(paths)
    if not isinstance(source, Iterable):
        raise TraceError(f"{source!r} is not a run", "Give a Run, several, a path, a folder, a glob or a Store")
    return [run for one in source for run in load_traces(one)]


def save_log(run: Run, path: Path) -> Path:
    """Write the run's log to ``path`` (JSON Lines) atomically and return the path."""
    return write_whole(path, (encode(event) for event in run.events))


def write_whole(path: Path, pieces: Iterable[bytes], what: str = "The run") -> Path:
    """Write a file atomically and return its path. Raises `StoreError` if that fails, or if ``path`` exists and is not a file.

    ``what`` is written, in the words of the error.
    """
    _check_replaceable(path, what)
    try:
        target = path.resolve()  # so that a link stays a link
        _make_folder(target.parent)
        descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.writelines(pieces)
            Path(name).replace(target)
        except BaseException:
            Path(name).unlink()
            raise
    except (OSError, ValueError) as error:  # ValueError: characters that no file name can have
        why = getattr(error, "strerror", None) or error
        raise StoreError(f"{what} cannot be saved as {_shown(path)}: {why}", "Choose another name or folder") from error
    return path


def _shown(path: Path) -> str:
    return str(path) if str(path).isprintable() else ascii(str(path))


def _make_folder(folder: Path) -> None:
    """Make the folder of a file if it is not there; raise OSError that names it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(error.errno, f"its folder {_shown(folder)} cannot be made ({error.strerror})") from error


def _check_replaceable(path: Path, what: str) -> None:
    try:
        is_other = path.exists() and not path.is_file()
    except (OSError, ValueError):
        return  # writing reports it
    if is_other:
        raise StoreError(f"{what} cannot be saved as {path}: it is there already, and is not a file", "Choose another name")


def _readable(paths: list[Path]) -> list[Run]:
    """Return the runs of the files that are run logs; warn about each other file."""
    runs = []
    for path in paths:
        try:
            runs.append(load_file(path))
        except TraceError as error:
            warnings.warn(f"Left out: {error}", stacklevel=4)
    return runs


def _paths(source: str | Path) -> list[Path]:
    path = Path(source).expanduser()
    if path.is_dir():
        return sorted(path.glob("*.jsonl"))
    if path.exists() or not glob.has_magic(str(path)):
        return [path]
    found = sorted(Path(name) for name in glob.glob(str(path), recursive=True))
    if not found:
        raise StoreError(f"No file matches {source}")
    return found
