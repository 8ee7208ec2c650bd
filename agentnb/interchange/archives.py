"""Files within files: gzip and zip, with bounds on their expanded size and their depth."""

from __future__ import annotations

import gzip
import io
import os
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from posixpath import normpath
from typing import Any, BinaryIO, cast

from agentnb.errors import TraceError
from agentnb.examples import shown
from agentnb.interchange.trace_file import TraceFile
from agentnb.store.bounds import MAX_STREAMED_BYTES, BoundExceeded, Expansion
from agentnb.store.regular_files import check_file, opened

MAX_MEMBERS = 100_000
"""Files in an archive."""
MAX_DIRECTORY_BYTES = 20_000_000
"""The directory of an archive, which is held in memory: 100,000 names of 150 bytes."""
MAX_DEPTH = 3
"""Archives within each other. All but the outermost are held in memory."""
_STREAMED = frozenset({"lines", "zip"})
"""Kinds of files that are read piece by piece, and so may be larger than one that is read as a whole."""
_BUFFER_BYTES = 65_536
_GZIP = b"\x1f\x8b"
_UNREADABLE = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, gzip.BadGzipFile)
"""What damaged and encrypted archives raise."""


def trace_file(path: Path, *, strict: bool = True) -> TraceFile:
    """Return the file, expanded if it is compressed with gzip. Raises `TraceError` if it is no regular file."""
    with opened(path, MAX_STREAMED_BYTES) as file:
        is_gzip = file.read(2) == _GZIP
        expansion = Expansion(shown(path), os.fstat(file.fileno()).st_size)
    opener = _gzip(path, expansion) if is_gzip else lambda: opened(path, MAX_STREAMED_BYTES)
    beside = partial(_beside, path)
    found = TraceFile(shown(path), opener, path=None if is_gzip else path, strict=strict, expansion=expansion, beside=beside)
    if not is_gzip and found.kind not in _STREAMED:
        check_file(path.stat(), path)
    return found


def members(archive: TraceFile) -> Iterator[TraceFile]:
    """Yield the files of a zip archive, in its order, without folders and hidden files.

    The archive is open, and its members can be read, until the next one is asked for.
    """
    if archive.depth >= MAX_DEPTH:
        raise BoundExceeded(
            f"{archive.name} is an archive within {archive.depth} others, and up to {MAX_DEPTH} are unpacked", "Unpack it first"
        )
    with zip_file(archive) as names:
        found = [one for one in names.infolist() if not one.is_dir() and not _is_hidden(one.filename)]
        if len(found) > MAX_MEMBERS:
            what = f"{archive.name} holds {len(found):,} files, and up to {MAX_MEMBERS:,} are read"
            raise BoundExceeded(what, "Unpack it first")
        by_name = {member.filename: member for member in found}
        for member in found:
            yield _file_in(archive, names, member, by_name)


def _file_in(archive: TraceFile, names: Archive, member: zipfile.ZipInfo, by_name: Mapping[str, zipfile.ZipInfo]) -> TraceFile:
    """Return a member of an open archive; ``by_name``: all its members."""
    name = f"{archive.name}/{member.filename}"
    folder = member.filename[: member.filename.rfind("/") + 1]

    def beside(other: str) -> TraceFile | None:
        there = by_name.get(normpath(folder + other))
        return None if there is None else _file_in(archive, names, there, by_name)

    opener, depth = _member(names, member, name), archive.depth + 1
    return TraceFile(name, opener, strict=archive.strict, depth=depth, expansion=archive.expansion, beside=beside)


def _beside(path: Path, name: str) -> TraceFile | None:
    """Return the file of this name, which may be a relative path, beside another; None if there is none."""
    other = path.parent / name
    return trace_file(other) if other.is_file() else None


class Archive(zipfile.ZipFile):
    """An open zip archive that counts the bytes of its expanded members."""

    def __init__(self, file: BinaryIO, name: str, expansion: Expansion) -> None:
        directory = _Directory(file, name)
        super().__init__(cast(BinaryIO, directory))
        directory.is_read = True
        self.expansion = expansion


@contextmanager
def zip_file(archive: TraceFile) -> Iterator[Archive]:
    """Open a zip archive. Raises `TraceError` if it is damaged, `BoundExceeded` if its directory is too large."""
    with archive.open() as file:
        whole = file if file.seekable() else io.BytesIO(archive.whole())
        try:
            with Archive(whole, archive.name, archive.expansion) as names:
                yield names
        except _UNREADABLE as error:
            raise _damaged(archive.name, error) from error


def read_member(names: Archive, name: str, max_bytes: int) -> bytes:
    """Return a file of an open archive. Raises `BoundExceeded` if it expands to more bytes."""
    with _expanded(names.open(name), names.expansion, name) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise BoundExceeded(f"{name} expands to more than {max_bytes / 1e6:g} MB", "Leave it out of the archive")
    return data


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))


def _gzip(path: Path, expansion: Expansion) -> Callable[[], Any]:
    @contextmanager
    def expanded() -> Iterator[BinaryIO]:
        with opened(path, MAX_STREAMED_BYTES) as file, gzip.GzipFile(fileobj=file) as whole:
            yield _expanded(whole, expansion, str(path))

    return expanded


def _member(names: Archive, member: zipfile.ZipInfo, name: str) -> Callable[[], Any]:
    @contextmanager
    def expanded() -> Iterator[BinaryIO]:
        try:
            file = names.open(member)
        except _UNREADABLE as error:
            raise _damaged(name, error) from error
        with file:
            yield _expanded(file, names.expansion, name)

    return expanded


def _expanded(file: Any, expansion: Expansion, name: str) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_Bounded(file, expansion, name), _BUFFER_BYTES))


def _damaged(name: str, error: Exception) -> TraceError:
    return TraceError(f"{name} cannot be unpacked: {error}", "It is damaged, or locked by a password")


class _Bounded(io.RawIOBase):
    """Reads the expanded bytes of a compressed file, and counts them."""

    def __init__(self, inner: BinaryIO, expansion: Expansion, name: str) -> None:
        self._inner, self._expansion, self._name = inner, expansion, name

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            data = self._inner.read(len(buffer))
        except _UNREADABLE as error:
            raise _damaged(self._name, error) from error
        self._expansion.take(len(data))
        buffer[: len(data)] = data
        return len(data)


class _Directory:
    """An archive while its directory is read, which `zipfile` does in one piece of the size that the archive names."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
        self.is_read = False

    def read(self, size: int = -1) -> bytes:
        if size > MAX_DIRECTORY_BYTES and not self.is_read:
            what = f"{self._name} has a directory of more than {MAX_DIRECTORY_BYTES / 1e6:g} MB"
            raise BoundExceeded(what, "Unpack it first")
        return self._file.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
