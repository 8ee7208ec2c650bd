"""Reads compressed files (gzip, zip, Zstandard) with limits on their expanded size and nesting depth."""

from __future__ import annotations

import gzip
import io
import os
import sys
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from functools import partial
from pathlib import Path
from posixpath import normpath
from typing import Any, BinaryIO, cast

from agentnb.errors import TraceError
from agentnb.examples import display_path
from agentnb.interchange.trace_file import TraceFile
from agentnb.store.bounds import MAX_STREAMED_BYTES, BoundExceeded, Expansion
from agentnb.store.regular_files import check_file, open_regular

if sys.version_info >= (3, 14):
    from compression.zstd import ZstdError, ZstdFile
else:
    from backports.zstd import ZstdError, ZstdFile

MAX_MEMBERS = 100_000
"""Maximum number of files in an archive."""
MAX_DIRECTORY_BYTES = 20_000_000
"""Maximum size of an archive's directory, which is held in memory; enough for 100,000 names of 150 bytes."""
MAX_DEPTH = 3
"""Maximum nesting of archives. All except the outermost are held in memory."""
_STREAMED = frozenset({"lines", "zip"})
"""Kinds of files that are read piece by piece, and so may exceed the limit for files read in one go."""
_BUFFER_BYTES = 65_536
_GZIP = b"\x1f\x8b"
_ENCRYPTED = 0x1
"""Flag bit that marks a member as password-protected."""
_ZSTANDARD = 93
"""The number of the Zstandard compression method in zip archives."""
_DAMAGED = (zipfile.BadZipFile, zlib.error, EOFError, ZstdError, gzip.BadGzipFile)
"""Exceptions raised for truncated or corrupted compressed data."""


def trace_file(path: Path, *, strict: bool = True) -> TraceFile:
    """Return the file, expanded if it is compressed with gzip. Raises `TraceError` if it is not a regular file."""
    name = display_path(path)
    with open_regular(path, MAX_STREAMED_BYTES) as file:
        is_gzip = file.read(2) == _GZIP
        expansion = Expansion(name, os.fstat(file.fileno()).st_size)
    opener = _gzip(path, expansion) if is_gzip else lambda: open_regular(path, MAX_STREAMED_BYTES)
    beside = partial(_beside, path)
    trace = TraceFile(name, opener, path=None if is_gzip else path, strict=strict, expansion=expansion, beside=beside)
    if not is_gzip and trace.kind not in _STREAMED:
        check_file(path.stat(), path)
    return trace


def members(archive: TraceFile) -> Iterator[TraceFile]:
    """Yield the files in a zip archive, in archive order, leaving out folders and hidden files.

    Each member can be read, and the archive stays open, until the next member is requested.
    """
    if archive.depth >= MAX_DEPTH:
        raise BoundExceeded(
            f"{archive.name} is nested in {archive.depth} other archives; the limit is {MAX_DEPTH}", "Unpack it first"
        )
    with zip_file(archive) as names:
        infos = [info for info in names.infolist() if not info.is_dir() and not _is_hidden(info.filename)]
        if len(infos) > MAX_MEMBERS:
            problem = f"{archive.name} contains {len(infos):,} files; the limit is {MAX_MEMBERS:,}"
            raise BoundExceeded(problem, "Unpack it first")
        by_name = {member.filename: member for member in infos}
        for member in infos:
            yield _file_in(archive, names, member, by_name)


def _file_in(archive: TraceFile, names: Archive, member: zipfile.ZipInfo, by_name: Mapping[str, zipfile.ZipInfo]) -> TraceFile:
    """Return a member of an open archive. ``by_name``: all of its members."""
    name = f"{archive.name}/{member.filename}"
    folder = member.filename[: member.filename.rfind("/") + 1]

    def beside(other: str) -> TraceFile | None:
        sibling = by_name.get(normpath(folder + other))
        return None if sibling is None else _file_in(archive, names, sibling, by_name)

    opener, depth = _member(names, member, name), archive.depth + 1
    return TraceFile(name, opener, strict=archive.strict, depth=depth, expansion=archive.expansion, beside=beside)


def _beside(path: Path, name: str) -> TraceFile | None:
    """Return the file at this path relative to another file's folder, or None."""
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
    """Open a zip archive. Raises `TraceError` if it is damaged, or `BoundExceeded` if its directory is too large."""
    with archive.open() as file:
        seekable = file if file.seekable() else io.BytesIO(archive.whole())
        with _unpacking(archive.name):
            names = Archive(seekable, archive.name, archive.expansion)
        with names:
            yield names


def read_member(names: Archive, name: str, max_bytes: int) -> bytes:
    """Return the content of a file in an open archive. Raises `BoundExceeded` if it expands to more than this many bytes."""
    with _open_member(names, names.getinfo(name), name) as file:
        data = file.read(max_bytes + 1)
    if len(data) > max_bytes:
        raise BoundExceeded(f"{name} expands to more than {max_bytes / 1e6:g} MB", "Leave it out of the archive")
    return data


def _is_hidden(name: str) -> bool:
    return any(part.startswith((".", "__MACOSX")) for part in name.split("/"))


def _gzip(path: Path, expansion: Expansion) -> Callable[[], Any]:
    @contextmanager
    def open_expanded() -> Iterator[BinaryIO]:
        with open_regular(path, MAX_STREAMED_BYTES) as file, gzip.GzipFile(fileobj=file) as unpacked:
            yield _count_expanded(unpacked, expansion, str(path))

    return open_expanded


def _member(names: Archive, member: zipfile.ZipInfo, name: str) -> Callable[[], Any]:
    return lambda: _open_member(names, member, name)


@contextmanager
def _open_member(names: Archive, member: zipfile.ZipInfo, name: str) -> Iterator[BinaryIO]:
    """Open a file in an archive. Raises `TraceError` if it needs a password or uses an unsupported compression method."""
    if member.flag_bits & _ENCRYPTED:
        raise TraceError(f"{name} is protected by a password", "Unpack it with the password first")
    with ExitStack() as stack:
        if member.compress_type != _ZSTANDARD:
            with _unpacking(name):
                file: Any = stack.enter_context(names.open(member))
            checksum = None
        else:  # `zipfile` supports it since Python 3.14, but stops after the first frame
            packed = copy(member)
            packed.compress_type, packed.file_size, packed.CRC = zipfile.ZIP_STORED, member.compress_size, None  # type: ignore[assignment]  # unchecked
            with _unpacking(name):
                file = stack.enter_context(ZstdFile(stack.enter_context(names.open(packed))))
            checksum = member.CRC
        yield _count_expanded(file, names.expansion, name, checksum)


def _count_expanded(file: Any, expansion: Expansion, name: str, checksum: int | None = None) -> BinaryIO:
    return cast(BinaryIO, io.BufferedReader(_Bounded(file, expansion, name, checksum), _BUFFER_BYTES))


@contextmanager
def _unpacking(name: str) -> Iterator[None]:
    """Convert decompression errors to `TraceError`."""
    try:
        yield
    except NotImplementedError as error:
        raise TraceError(f"{name} cannot be unpacked: {error}", "Pack it with Deflate or Zstandard") from error
    except _DAMAGED as error:
        raise TraceError(f"{name} cannot be unpacked: {error}", "Copy it again from its source") from error


class _Bounded(io.RawIOBase):
    """Reader for a compressed file that counts the expanded bytes. ``checksum``: their CRC-32, or None to skip the check."""

    def __init__(self, inner: BinaryIO, expansion: Expansion, name: str, checksum: int | None) -> None:
        self._inner, self._expansion, self._name, self._checksum = inner, expansion, name, checksum
        self._sum = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        with _unpacking(self._name):
            data = self._inner.read(len(buffer))
            self._sum = self._sum if self._checksum is None else zlib.crc32(data, self._sum)
            if not data and self._checksum not in (None, self._sum):
                raise zipfile.BadZipFile("its checksum is wrong")
        self._expansion.take(len(data))
        buffer[: len(data)] = data
        return len(data)


class _Directory:
    """Limits the size of an archive's directory, because `zipfile` reads it in one go, whatever size the archive states."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
        self.is_read = False

    def read(self, size: int = -1) -> bytes:
        if size > MAX_DIRECTORY_BYTES and not self.is_read:
            problem = f"{self._name} has a directory of more than {MAX_DIRECTORY_BYTES / 1e6:g} MB"
            raise BoundExceeded(problem, "Unpack it first")
        return self._file.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)
