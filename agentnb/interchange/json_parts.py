"""Reads a large JSON document one part at a time: members of an object, and items of lists.

Only brackets, commas and strings are scanned; the caller decodes each part. Only one part and one block are in memory at a
time.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

BLOCK_BYTES = 1_000_000
"""Bytes per read, doubled for as long as a part continues."""
_NEXT_BRACKET = re.compile(rb'(?:[^"{}\[\]]++|"(?:[^"\\]++|\\.)*+")*+([{}\[\]])', re.DOTALL)
_NEXT_COMMA = re.compile(rb'(?:[^"{}\[\],]++|"(?:[^"\\]++|\\.)*+")*+([{}\[\],])', re.DOTALL)
"""Patterns that start outside strings and match up to the next bracket, or up to the next comma or bracket."""
_KEY = re.compile(rb'\s*"((?:[^"\\]|\\.)*)"\s*:', re.DOTALL)


class Part(NamedTuple):
    """A part of a document."""

    key: str
    """Name of the member, or of the member whose list holds the item; empty for an item in a top-level list."""
    place: int | None
    """Index in the list; None for other members and for an empty list."""
    data: bytes


class Malformed(ValueError):
    """The document is not a JSON object or list, or is truncated."""


class TooLarge(ValueError):
    """A part of the document exceeds the maximum size."""


def parts_of(file: BinaryIO, most: int, decoded: Callable[[bytes], Any]) -> Iterator[Part]:
    """Yield the parts of a document. Raises `TooLarge` if a part exceeds ``most`` bytes, and `Malformed` for invalid JSON.

    ``decoded``: a function that decodes the names of members.
    """
    reader = _Reader(file, most)
    bracket = reader.skip_to_first()
    if bracket == b"{":
        yield from _members(reader, decoded)
    elif bracket == b"[":
        yield from _items(reader, "")
    else:
        raise Malformed("it is neither an object nor a list")


def _members(reader: _Reader, decoded: Callable[[bytes], Any]) -> Iterator[Part]:
    while True:
        end = reader.next(_NEXT_COMMA)
        name = _KEY.match(reader.data, reader.start)
        if name is None:
            if end == b"}" and not reader.part_data().strip():
                return
            raise Malformed("a member has no name")
        key = str(decoded(b'"' + name[1] + b'"'))
        if end == b"[":
            has_items = False
            reader.start = reader.place
            for part in _items(reader, key):
                has_items = True
                yield part
            if not has_items:
                yield Part(key, None, b"[]")
            end = reader.next(_NEXT_COMMA)
        else:
            reader.start = name.end()
            if end == b"{":
                reader.skip_open()
                end = reader.next(_NEXT_COMMA)
            yield Part(key, None, reader.part_data())
        reader.start = reader.place
        if end == b"}":
            return
        if end != b",":
            raise Malformed(f"its member {key!r} is followed by {end!r}")


def _items(reader: _Reader, key: str) -> Iterator[Part]:
    index = 0
    while True:
        end = reader.next(_NEXT_COMMA)
        if end in (b"{", b"["):
            reader.skip_open()
            end = reader.next(_NEXT_COMMA)
        data = reader.part_data()
        reader.start = reader.place
        if data.strip():
            yield Part(key, index, data)
            index += 1
        if end == b"]":
            return
        if end != b"," or not data.strip():
            raise Malformed(f"an item of {key!r} is followed by {end!r}")


class _Reader:
    """A window on a file that extends from the start of the current part to the scan position."""

    def __init__(self, file: BinaryIO, most: int) -> None:
        self._file, self._most, self._block = file, most, BLOCK_BYTES
        self.data = b""
        self.start = self.place = 0
        """The start of the part, and the scan position, in ``data``."""

    def skip_to_first(self) -> bytes:
        """Return the first byte that is not white space, and move past it."""
        self._read_on()
        first = self.data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        self.start = self.place = self.data.find(first) + 1 if first else 0
        return first

    def next(self, sign: re.Pattern[bytes]) -> bytes:
        """Return the next bracket or comma outside strings, and move past it."""
        while True:
            match = sign.match(self.data, self.place)
            if match is not None:
                self.place = match.end()
                self._block = BLOCK_BYTES
                return match[1]
            if not self._read_on():
                raise Malformed("its end is missing")

    def skip_open(self) -> None:
        """Move past the bracket that closes the last opening bracket."""
        depth = 1
        while depth:
            depth += 1 if self.next(_NEXT_BRACKET) in (b"{", b"[") else -1

    def part_data(self) -> bytes:
        """Return the part, excluding the delimiter that follows it."""
        return self.data[self.start : self.place - 1]

    def _read_on(self) -> bool:
        """Read the next block, dropping the data before the part. Returns False at the end of the file."""
        if len(self.data) - self.start > self._most:
            raise TooLarge(f"a part of it is larger than {self._most / 1e6:.0f} MB")
        block = self._file.read(self._block)
        self._block = min(2 * self._block, self._most + 1)
        self.data = self.data[self.start :] + block
        self.place -= self.start
        self.start = 0
        return bool(block)
