"""Limits on reading: no file takes memory or time out of proportion to its size, or more than about 1 GB of memory.

In Python, JSON may take forty times the size of its text, so both its bytes and, above a certain size, the number of its values
are limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from agentnb.errors import TraceError

MAX_FILE_BYTES = 1_000_000_000
"""Maximum bytes of a file, unless it is read as a stream."""
MAX_STREAMED_BYTES = 1_000_000_000_000
"""Maximum bytes of a file that is read as a stream, such as JSON Lines with many runs."""
MAX_HELD_BYTES = 200_000_000
"""Maximum bytes of a file held in memory all at once: a run, a document, a log, an unpacked database."""
MAX_LINE_BYTES = 2 * MAX_HELD_BYTES
MAX_RECORD_BYTES = 100_000_000
"""Maximum bytes of a line of JSON Lines, or of a part of a document that is read in parts."""
MAX_HELD_VALUES = 3_000_000
"""Maximum number of JSON values held at once: as many as in a text of 50 MB with twenty bytes per value."""
UNCOUNTED_BYTES = 10_000_000
"""Up to this size of JSON in bytes, values are not counted: they take at most 400 MB, and most files are smaller."""
MAX_RUN_EVENTS = 300_000
"""Maximum number of events in a run: 60,000 rounds with one call each. An event takes about 1.2 KB."""
MAX_ROUND_CALLS = 10_000
"""Maximum number of calls in one reply, since the time to process each call grows with their number."""
MAX_MESSAGES_IN_A_ROW = 5_000
"""Maximum number of consecutive replies or user messages. (A request merges them into one message, which is rebuilt for each of
them.)
"""
MAX_RECORDS = 5_000_000
"""Maximum number of lines in a file, or of parts in a document."""
MAX_PROBLEMS = 1_000
"""Maximum number of omitted parts to list; the rest are only counted."""
SURELY_FEW_VALUES = 10_000
"""Up to this number of JSON values, commas in strings are counted as values too."""
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_TOO_MUCH = "Split it, or remove what you do not need"
MAX_EXPANSION = 200
"""Maximum expanded bytes of a compressed file, as a multiple of its size, across all of a reader's passes."""
MIN_EXPANDED_BYTES = 2_000_000_000
"""Expanded size in bytes that every compressed file is allowed."""


class BoundExceeded(TraceError):
    """Raised for a file that exceeds a limit on reading."""


def check_bytes(size: int, max_bytes: int, source: str, hint: str = _TOO_MUCH) -> None:
    """Raise `BoundExceeded` if there are more than ``max_bytes``. ``source``: the file, for the error."""
    if size > max_bytes:
        raise BoundExceeded(f"{source} is larger than {max_bytes / 1e6:,.0f} MB, the limit for reading", hint)


def check_events(count: int, source: str) -> None:
    """Raise `BoundExceeded` if a run has too many events."""
    if count > MAX_RUN_EVENTS:
        raise BoundExceeded(f"{source} has a run with more than {MAX_RUN_EVENTS:,} events, the limit for reading", _TOO_MUCH)


def check_round_calls(count: int, source: str) -> None:
    """Raise `BoundExceeded` if one reply has too many calls."""
    if count > MAX_ROUND_CALLS:
        most = f"more than {MAX_ROUND_CALLS:,} calls, the limit for reading"
        raise BoundExceeded(f"{source} has a reply with {most}", _TOO_MUCH)


def check_messages_in_a_row(count: int, source: str) -> None:
    """Raise `BoundExceeded` if there are too many consecutive replies or user messages."""
    if count > MAX_MESSAGES_IN_A_ROW:
        most = f"more than {MAX_MESSAGES_IN_A_ROW:,} consecutive messages from one side, the limit for reading"
        raise BoundExceeded(f"{source} has {most}", _TOO_MUCH)


def check_records(count: int, source: str) -> None:
    """Raise `BoundExceeded` if a file has too many lines or parts."""
    if count > MAX_RECORDS:
        raise BoundExceeded(f"{source} has more than {MAX_RECORDS:,} records, the limit for reading", _TOO_MUCH)


class Expansion:
    """Counts the expanded bytes of a compressed file and the archives in it, whatever size they declare."""

    def __init__(self, name: str, size: int) -> None:
        """``size``: size of the compressed file in bytes."""
        self._name = name
        self._limit = self._left = max(MIN_EXPANDED_BYTES, MAX_EXPANSION * size)

    def take(self, size: int) -> None:
        """Count these bytes. Raises `BoundExceeded` if there are too many in total."""
        self._left -= size
        if self._left < 0:
            raise BoundExceeded(
                f"{self._name} expands to more than {self._limit / 1e9:g} GB", "Unpack it first, if you trust it"
            )


class HeldData:
    """Counts the JSON that the reader of a file holds in memory."""

    def __init__(self, source: str) -> None:
        """``source``: the file, for errors."""
        self._source = source
        self._bytes = self._values = 0

    def add(self, data: bytes) -> None:
        """Count this text. Raises `BoundExceeded` once the total is too large."""
        self._bytes += len(data)
        if self._bytes <= UNCOUNTED_BYTES:
            return
        check_bytes(self._bytes, MAX_HELD_BYTES, self._source)
        self._values += _count_values(data)
        if self._values > MAX_HELD_VALUES:
            raise BoundExceeded(
                f"{self._source} contains more than {MAX_HELD_VALUES:,} JSON values, the limit for reading", _TOO_MUCH
            )


def _count_values(data: bytes) -> int:
    count = sum(map(data.count, (b",", b"[", b"{")))
    return sum(map(_TEXT.sub(b"", data).count, (b",", b"[", b"{"))) if count > SURELY_FEW_VALUES else count


def checked_lines(file: BinaryIO, source: str) -> Iterator[bytes]:
    """Yield the lines of a log of any size. Raises `BoundExceeded` for a line that is too large for memory, or too
    many values in total.
    """
    values = count = 0
    while line := file.readline(MAX_LINE_BYTES):
        if len(line) == MAX_LINE_BYTES:
            raise BoundExceeded(f"{source} has a line longer than {len(line) / 1e6:,.0f} MB", _TOO_MUCH)
        values, count = values + _count_values(line), count + 1
        if values > MAX_HELD_VALUES:
            raise BoundExceeded(
                f"{source} contains more than {MAX_HELD_VALUES:,} JSON values, the limit for reading", _TOO_MUCH
            )
        check_events(count, source)
        yield line


def check_log(data: bytes, source: str) -> None:
    """Raise `BoundExceeded` if an agentnb log exceeds the limits."""
    check_json(data, source)
    if len(data) > UNCOUNTED_BYTES:
        check_events(data.count(b"\n"), source)


def check_json(data: bytes, source: str) -> None:
    """Raise `BoundExceeded` if a document exceeds the limits."""
    HeldData(source).add(data)
