"""A file from any product that may hold traces: its kind, and ways to read it within limits.

Nothing in a file is ever executed. The amount of data held and expanded is limited (`agentnb.store.bounds`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias, TypeVar

import msgspec

from agentnb.advice import PYTHON, AnyAdvice, Commands, ReadLoosely, pieces
from agentnb.core.log.events import Origin
from agentnb.detect.run import Run
from agentnb.errors import TraceError
from agentnb.interchange.conversion.run_writer import RunWriter
from agentnb.interchange.json_parts import Malformed, Part, TooLarge, parts_of
from agentnb.store.bounds import (
    MAX_HELD_BYTES,
    MAX_PROBLEMS,
    MAX_RECORD_BYTES,
    MAX_RECORDS,
    BoundExceeded,
    Expansion,
    HeldData,
    check_bytes,
    check_json,
    check_records,
)

Kind: TypeAlias = Literal["json", "lines", "zip", "sqlite", "parquet", "html", "text", "empty"]
"""The kind of a file. ``json`` is a single document; ``lines`` means JSON Lines with two or more records."""
LARGE_BYTES = 100_000_000
"""Size above which a document is recognized by its `outline`, and read in parts by formats that support it."""
MAX_OUTLINE_ITEMS = 50
"""Number of items of each list in an `outline`; two, if items are large."""
START_BYTES = 65_536
"""Number of bytes at the start of a file used to recognize its kind."""
_MAGIC: tuple[tuple[bytes, Kind], ...] = (
    (b"PK\x03\x04", "zip"),
    (b"PK\x05\x06", "zip"),
    (b"SQLite format 3\0", "sqlite"),
    (b"PAR1", "parquet"),
)
MAX_DIGITS = 300
"""Maximum digits of an integer; a longer one would not fit into a float."""
_LARGE_NUMBER = re.compile(rb"[0-9]{18}|[eE]\+?[0-9]{3}")
MALFORMED = (
    msgspec.MsgspecError,
    ArithmeticError,
    AttributeError,
    IndexError,
    KeyError,
    RecursionError,
    TypeError,
    UnicodeError,
    ValueError,
)
"""Exceptions that a malformed record can cause."""
T = TypeVar("T")


class Problem(NamedTuple):
    """A part of a file that could not be read."""

    file: str
    position: str
    """Position in the file, such as ``line 7``; empty for the file as a whole."""
    message: str
    advice: tuple[AnyAdvice, ...] = ()
    """Advice on what to do next."""
    names_file: bool = False
    """True if ``message`` itself names the file."""
    is_unknown: bool = False
    """True if the format of the file is unknown."""

    def text_for(self, commands: Commands) -> str:
        """Return the problem with its position and with advice, worded for a surface."""
        location = ", ".join(filter(None, (self.file, self.position)))
        return "".join(pieces(self.message if self.names_file else f"{location}: {self.message}", self.advice, commands))

    def __str__(self) -> str:
        return self.text_for(PYTHON)


class TraceFile:
    """A file, or a member of an archive, that may hold traces.

    With ``strict``, the first `problem` raises `TraceError`; otherwise as much as possible is read, and `problems` lists the
    parts that were not.
    """

    def __init__(
        self,
        name: str,
        opener: Callable[[], AbstractContextManager[BinaryIO]],
        *,
        path: Path | None = None,
        strict: bool = True,
        depth: int = 0,
        expansion: Expansion | None = None,
        beside: Callable[[str], TraceFile | None] = lambda name: None,
    ) -> None:
        """``opener``: opens the file for reading; may be called repeatedly; ``path``: None within an archive.

        ``depth``: number of enclosing archives; ``expansion``: bytes to which the outermost one expands; ``beside``: returns
        the file at a relative path, or None.
        """
        self.name = name
        self.path = path
        self.depth = depth
        self.expansion = expansion or Expansion(name, 0)
        self.strict = strict
        self.problems: list[Problem] = []
        self.open = opener
        self.beside = beside

    @property
    def base_name(self) -> str:
        """The file's name without folders."""
        return self.name.replace("\\", "/").rpartition("/")[2]

    # Recognition

    @cached_property
    def start(self) -> bytes:
        """The first bytes of the file, excluding a byte order mark."""
        with self.open() as file:
            return file.read(START_BYTES).removeprefix(b"\xef\xbb\xbf")

    @cached_property
    def kind(self) -> Kind:
        """The kind of the file, determined from its content, whatever its name."""
        start = self.start
        for magic, kind in _MAGIC:
            if start.startswith(magic):
                return kind
        start = start.lstrip()
        if not start:
            return "empty"
        if start[:1] not in (b"{", b"["):
            return "html" if start[:15].lower().startswith((b"<!doctype html", b"<html")) else "text"
        return "lines" if self._is_lines() else "json"

    def _is_lines(self) -> bool:
        with self.open() as file:
            pieces = islice(iter(lambda: file.readline(MAX_RECORD_BYTES + 1), b""), MAX_RECORDS)
            lines = (line for line in pieces if line.strip())
            first, second = next(lines, b""), next(lines, b"")
        if not second or len(first) > MAX_RECORD_BYTES:
            return False
        check_json(first, f"{self.name}, line 1")
        return decode_json(first.removeprefix(b"\xef\xbb\xbf")) is not None

    @cached_property
    def first(self) -> Any:
        """The document, or the first record of JSON Lines; None for other kinds and for invalid JSON.

        A large document is represented by its `outline`.
        """
        if self.kind == "lines":
            return next((record for _, record in self.records()), None)
        if self.kind != "json":
            return None
        return self.outline if self.is_large else self._json

    @property
    def first_record(self) -> Any:
        """The first record of JSON Lines or of a list, or, for any other document, the document itself."""
        return self.first[0] if isinstance(self.first, list) and self.first else self.first

    @cached_property
    def is_large(self) -> bool:
        """True if it is larger than `LARGE_BYTES`."""
        with self.open() as file:
            remaining = LARGE_BYTES
            while remaining >= 0 and (block := file.read(min(START_BYTES, remaining + 1))):
                remaining -= len(block)
        return remaining < 0

    @cached_property
    def outline(self) -> Any:
        """The document, reduced to its smaller members and the first items of its lists, or None for invalid JSON."""
        members: dict[str, Any] = {}
        remaining = LARGE_BYTES // 10
        held = HeldData(self.name)
        try:
            for part in self.parts():
                if part.place is None:
                    members[part.key] = decode_json(part.data) if len(part.data) <= LARGE_BYTES // 10 else {}
                elif part.place in (0, 1) or (part.place < MAX_OUTLINE_ITEMS and remaining > 0):
                    held.add(part.data)
                    members.setdefault(part.key, []).append(decode_json(part.data))
                    remaining -= len(part.data)
        except BoundExceeded:
            raise
        except TraceError:
            return None
        return members[""] if members.keys() == {""} else members

    def lacks(self, *keys: str, kind: Kind | None = None) -> str:
        """Return the keys missing from the file's first JSON object, as the end of a sentence; empty if all are present.

        ``kind``: the kind that is required, ``json`` or ``lines``.
        """
        if kind is not None and self.kind != kind:
            return f"it is not {KIND_WORDS[kind]}"
        if self.kind == "json" and self.first is None:
            return "it is not JSON, or its end is missing"
        if not isinstance(self.first, dict):
            return f"it has no object with {', '.join(keys)}"
        missing = [key for key in keys if key not in self.first]
        return f"it has no {', '.join(missing)}" if missing else ""

    # Reading

    @property
    def document(self) -> Any:
        """The complete file as one JSON value. Raises `TraceError` if it is invalid or too large."""
        if self._json is None:
            raise self.wrong("It is not JSON, or its end is missing")
        return self._json

    @cached_property
    def _json(self) -> Any:
        data = self.whole()
        check_json(data, self.name)
        return decode_json(data)

    def whole(self) -> bytes:
        """Return the content of the complete file. Raises `BoundExceeded` if it is too large."""
        with self.open() as file:
            data = file.read(MAX_HELD_BYTES + 1)
        check_bytes(len(data), MAX_HELD_BYTES, self.name)
        return data.removeprefix(b"\xef\xbb\xbf")

    def items(self, key: str = "") -> Iterator[tuple[str, Any]]:
        """Yield the items in this member, or in the document, with their positions (empty for a single item).

        If the document is an object, it is the only item. Only one item of a large document is in memory at a time.
        """
        items = self.first[key] if key else self.first
        if not isinstance(items, list):
            yield "", self.document
        elif not self.is_large:
            yield from ((str(index) if len(items) > 1 else "", item) for index, item in enumerate(items))
        else:
            for part in self.parts():
                if part.key == key and part.place is not None:
                    check_json(part.data, self.name)
                    yield str(part.place) if len(items) > 1 else "", decode_json(part.data)

    def parts(self) -> Iterator[Part]:
        """Yield the parts of a JSON document: members of an object, and items of lists. Raises `TraceError` for invalid
        JSON.
        """
        try:
            with self.open() as file:
                for count, part in enumerate(parts_of(file, MAX_RECORD_BYTES, decode_json), 1):
                    check_records(count, self.name)
                    yield part
        except Malformed as error:
            raise self.wrong(f"It is not JSON: {error}") from error
        except TooLarge as error:
            raise self.wrong(str(error).capitalize()) from error

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Yield the lines that are not blank, with their numbers counted from 1.

        Raises `BoundExceeded` if a line is too long or if there are too many lines.
        """
        with self.open() as file:
            for number, line in enumerate(iter(lambda: file.readline(MAX_RECORD_BYTES + 1), b""), 1):
                check_bytes(len(line), MAX_RECORD_BYTES, f"{self.name}, line {number}")
                check_records(number, self.name)
                content = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
                if content.strip():
                    yield number, content

    def records(self, *, one_by_one: bool = False) -> Iterator[tuple[int, Any]]:
        """Yield the records of JSON Lines with their line numbers.

        A truncated last line is noted and skipped; any other invalid line is a `problem`. ``one_by_one``: the caller drops each
        record before taking the next, so a file of any size can be read; otherwise raises `BoundExceeded` if the file is too
        large to hold.
        """
        held = HeldData(self.name)
        for number, line in self.lines():
            if one_by_one:
                check_json(line, f"{self.name}, line {number}")
            else:
                held.add(line)
            record = decode_json(line)
            if record is not None:
                yield number, record
            elif line.endswith(b"\n"):
                self.problem("It is not JSON", f"line {number}")
            else:
                self.note("It was cut off", f"line {number}")

    def numbered_records(self) -> Iterable[tuple[int, Any]]:
        """Return the records of JSON Lines with their line numbers, as `records` does; a single document counts as line 1."""
        return self.records() if self.kind == "lines" else [(1, self.document)]

    def positioned_records(self) -> Iterator[tuple[str, Any]]:
        """Yield the records of JSON Lines, or the `items` of a document, with their positions; only one is held at a time."""
        if self.kind == "lines":
            return ((f"line {number}", record) for number, record in self.records(one_by_one=True))
        return self.items()

    def writer(
        self, format_name: str, position: str = "", *, task: str = "", trial: str = "", benchmark: Any = "", **about: Any
    ) -> RunWriter:
        """Return a writer for a run in this file. ``position``: the run's position, if the file holds several.

        ``benchmark``: the benchmark of the task; None, if the trace does not name it, means the file name.
        """
        benchmark_name = self.base_name.removesuffix(".gz").rpartition(".")[0] if benchmark is None else str(benchmark)
        return RunWriter(Origin(format_name, self.name, position, task, trial, benchmark_name), **about)

    def each(self, items: Iterable[tuple[str, T]], read: Callable[[str, T], Run]) -> Iterator[Run]:
        """Yield the run of each item, read together with its position. A malformed item is a `problem`."""
        for position, item in items:
            with self.guard(position):
                yield read(position, item)

    def take_each(
        self, items: Iterable[T], take: Callable[[T], object], position: str = "", what: str = "message", first: int = 0
    ) -> None:
        """Call ``take`` with each part of a run. A malformed part is a `problem`, and the rest are still read.

        ``first``: the index of the first item.
        """
        for index, item in enumerate(items, first):
            with self.guard(", ".join(filter(None, (position, f"{what} {index}")))):
                take(item)

    @contextmanager
    def guard(self, position: str = "") -> Iterator[None]:
        """Convert exceptions caused by malformed data to a `problem`."""
        try:
            yield
        except TraceError as error:
            if self.strict:
                raise
            self.note(error.what, position, names_file=not position)
        except MALFORMED as error:
            self.problem(_reason(error), position, error)

    # Problems

    def wrong(self, message: str, position: str = "") -> TraceError:
        """Return an error that states the problem and its position."""
        return TraceError(str(Problem(self.name, position, message)), ReadLoosely(lead="Read the intact parts"))

    def problem(self, message: str, position: str = "", cause: Exception | None = None) -> None:
        """Raise `TraceError` if the file is read strictly; otherwise record the part that was skipped."""
        if self.strict:
            raise self.wrong(message, position) from cause
        self.note(message, position)

    def note(self, message: str, position: str = "", *, names_file: bool = False) -> None:
        """Record a part that was skipped, up to a maximum number."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(self.name, position, message, names_file=names_file))
        elif len(self.problems) == MAX_PROBLEMS:
            self.problems.append(Problem(self.name, "", "Further parts were left out"))


KIND_WORDS: dict[Kind, str] = {
    "json": "one JSON document",
    "lines": "JSON Lines",
    "zip": "a zip archive",
    "sqlite": "an SQLite database",
    "parquet": "a Parquet file",
    "html": "an HTML page",
    "text": "text",
    "empty": "empty",
}


def decode_json(data: bytes) -> Any:
    """Return the JSON value, or None if it is invalid. Accepts NaN, infinities and lone surrogates as Python writes them.

    NaN, infinities and numbers that are too large are replaced by None.
    """
    try:
        return msgspec.json.decode(data)
    except RecursionError:
        return None
    except (msgspec.DecodeError, UnicodeDecodeError):
        pass
    if not any(odd in data for odd in (b"NaN", b"Infinity", b"\\ud", b"\\uD")) and not _LARGE_NUMBER.search(data):
        return None
    try:
        return json.loads(data, parse_constant=lambda name: None, parse_float=_parse_float, parse_int=_parse_int)
    except (ValueError, RecursionError):
        return None


def _parse_float(digits: str) -> float | None:
    value = float(digits)
    return value if isfinite(value) else None


def _parse_int(digits: str) -> int | None:
    return int(digits) if len(digits) <= MAX_DIGITS else None


def _reason(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"It has no {error}"
    if isinstance(error, RecursionError):
        return "It is nested too deeply"
    return f"It does not match its format ({type(error).__name__}: {error})"
