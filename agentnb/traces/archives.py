"""Files within files: gzip and zip, with a bound on what they expand to."""

from __future__ import annotations

import gzip
import io
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, cast

from agentnb.errors import TraceError
from agentnb.examples import shown
from agentnb.traces.reading import MAX_STREAMED, check_file, opened
from agentnb.traces.trace_file import TraceFile

MAX_EXPANDED = 20_000_000_000
"""Bytes that one compressed file may expand to while it is read."""
MAX_MEMBERS = 100_000
"""Files in an archive."""
_STREAMED = frozenset({"lines", "zip"})
"""Kinds of files that are read piece by piece, and so may be larger than one that is read as a whole."""
_GZIP = b"\x1f\x8b"
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, gzip.BadGzipFile)
"""What damaged and encrypted archives raise."""


def trace_file(path: Path, *, strict: bool = True) -> TraceFile:
    """Return the file, expanded if it is compressed with gzip. Raises `TraceError` if it is no regular file."""
    with opened(path, MAX_STREAMED) as file:
        is_gzip = file.read(2) == _GZIP
    opener = _gzip(path) if is_gzip else lambda: opened(path, MAX_STREAMED)
    found = TraceFile(shown(path), opener, path=None if is_gzip else path, strict=strict)
    if not is_gzip and found.kind not in _STREAMED:
        check_file(path.stat(), path)
    return found


def members(archive: TraceFile) -> Iterator[TraceFile]:
    """Yield the files of a zip archive, in its order, without folders and hidden files."""
    with zip_file(archive) as names:
        found = [one for one in names.infolist() if not one.is_dir() and not _is_hidden(one.filename)]
    if len(found) > MAX_MEMBERS:
        raise TraceError(f"{archive.name} holds {len(found):,} files, and up to {MAX_MEMBERS:,} are read", "Unpack it first")
    for one in found:
        yield TraceFile(f"{archive.name}/{one.filename}", _member(archive, one), strict=archive.strict)


@contextmanager
def zip_file(archive: TraceFile) -> Iterator[zipfile.ZipFile]:
    """Open a zip archive. Raises `TraceError` if it is damaged."""
    with archive.open() as file:
        whole = file if file.seekable() else io.BytesIO(archive.whole())
        try:
            with zipfile.ZipFile(whole) as names:
                yield names
        except _UNREADABLE as error:
            raise TraceError(f"{archive.name} cannot be unpacked: {error}", "It is damaged, or locked by a password") from error


def read_member(names: zipfile.ZipFile, name: str, limit: int | None = None) -> bytes:
    """Return a file of an open archive. Raises `TraceError` if it expands to more than ``limit`` bytes (`MAX_EXPANDED`)."""
    with names.open(name) as file:
        return io.BufferedReader(_Bounded(cast(BinaryIO, file), name, limit)).read()


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))


def _gzip(path: Path) -> Callable[[], Any]:
    @contextmanager
    def expanded() -> Iterator[BinaryIO]:
        with opened(path, MAX_STREAMED) as file, gzip.GzipFile(fileobj=file) as whole:
            yield cast(BinaryIO, io.BufferedReader(_Bounded(cast(BinaryIO, whole), str(path))))

    return expanded


def _member(archive: TraceFile, one: zipfile.ZipInfo) -> Callable[[], Any]:
    @contextmanager
    def expanded() -> Iterator[BinaryIO]:
        with zip_file(archive) as names, names.open(one) as file:
            yield cast(BinaryIO, io.BufferedReader(_Bounded(cast(BinaryIO, file), f"{archive.name}/{one.filename}")))

    return expanded


class _Bounded(io.RawIOBase):
    """Reads what an archive expands to, up to a limit, whatever the archive says of its size."""

    def __init__(self, inner: BinaryIO, name: str, limit: int | None = None) -> None:
        self._inner, self._name, self._limit = inner, name, limit or MAX_EXPANDED
        self._left = self._limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._inner.read(len(buffer))
        except _UNREADABLE as error:
            raise TraceError(f"{self._name} cannot be unpacked: {error}", "It is damaged, or locked by a password") from error
        self._left -= len(data)
        if self._left < 0:
            raise TraceError(
                f"{self._name} expands to more than {self._limit / 1e9:.0f} GB", "Unpack it first, if you trust it"
            )
        buffer[: len(data)] = data
        return len(data)
