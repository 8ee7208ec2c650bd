"""Writes files atomically."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from agentnb.core.log.wire import encode
from agentnb.detect.run import Run
from agentnb.errors import StoreError


def save_log(run: Run, path: Path) -> Path:
    """Write the run's log to ``path`` (JSON Lines) atomically and return the path."""
    return write_whole(path, (encode(event) for event in run.events))


def write_whole(path: Path, pieces: Iterable[bytes], what: str = "The run") -> Path:
    """Write a file atomically and return its path. Raises `StoreError` on failure, or if ``path`` exists and is not a
    file.

    ``what``: subject of the sentence in an error.
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
        raise StoreError(f"{what} cannot be saved as {_printable(path)}: {why}", "Choose another name or folder") from error
    return path


def _printable(path: Path) -> str:
    return str(path) if str(path).isprintable() else ascii(str(path))


def _make_folder(folder: Path) -> None:
    """Create a file's folder, unless it exists; raises an OSError that names it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OSError(error.errno, f"its folder {_printable(folder)} cannot be created ({error.strerror})") from error


def _check_replaceable(path: Path, what: str) -> None:
    try:
        is_other = path.exists() and not path.is_file()
    except (OSError, ValueError):
        return  # writing reports it
    if is_other:
        raise StoreError(f"{what} cannot be saved as {path}: it already exists and is not a file", "Choose another name")
