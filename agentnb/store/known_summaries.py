"""Summaries of a folder's logs, cached alongside them once there are many, so that listing runs reads only new logs.

The file has a line for each field, so that repeated values are stored once and few bytes are read at a time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import cache
from hashlib import blake2b
from itertools import starmap
from operator import attrgetter
from pathlib import Path
from typing import Any, BinaryIO, Generic, TypeAlias, TypeVar, get_type_hints

import msgspec

from agentnb.core.redaction import FileRedactor
from agentnb.store.atomic_files import write_whole
from agentnb.store.folder_cache import HOME, Stamp, made_by, made_of, make_home, remove_torn
from agentnb.store.summaries import RunSummary

T = TypeVar("T")
FILE = "summaries.json"
LAYOUT = 6
"""Increased when the file's format changes."""
MANY = 50
"""Minimum number of new summaries for which the file is written: reading fewer takes less time than writing it."""
UNSETTLED = frozenset({"running", "interrupted", "waiting_on_user"})
"""Statuses that depend on more than the log: on whether a process holds it, or on the log of its parent run."""
Known: TypeAlias = dict[str, tuple[Stamp, RunSummary]]


class _Head(msgspec.Struct, frozen=True):
    """The first line of the file."""

    made_by: str
    made_of: str


class _Column(msgspec.Struct, Generic[T], frozen=True):
    """A field of all summaries: its values or, if most are repeated, each value once and an index for every summary."""

    values: list[T]
    places: list[int] | None = None

    @property
    def all(self) -> Iterator[T]:
        """Values, one per summary. Raises IndexError for an invalid index."""
        return iter(self.values) if self.places is None else map(self.values.__getitem__, self.places)


class KnownSummaries:
    """Cached summaries of a folder's logs. A cache that is damaged or belongs to another folder is rebuilt."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: Known | None = None
        self._new = 0

    def get(self, run_id: str, stamp: Stamp) -> RunSummary | None:
        """Return the summary of a log that has not changed, or None."""
        if self._known is None:
            self._known = self._read()
        kept = self._known.get(run_id)
        return kept[1] if kept is not None and kept[0] == stamp else None

    def add(self, run_id: str, stamp: Stamp, summary: RunSummary) -> None:
        """Keep a summary if nothing but its log can change it. ``stamp``: the log's stamp before it was read."""
        if summary.status not in UNSETTLED and self._known is not None:
            self._known[run_id] = (stamp, summary)
            self._new += 1

    def save(self, ids: Collection[str]) -> None:
        """Write the summaries of these logs if enough are new. If that fails, the logs are read again next time."""
        if self._new < MANY or self._known is None:
            return
        for run_id in self._known.keys() - ids:
            del self._known[run_id]
        with suppress(OSError):  # includes StoreError
            home = make_home(self._folder)
            write_whole(home / FILE, self._lines(self._known))
            remove_torn(home)
        self._new = 0

    def _lines(self, known: Known) -> Iterator[bytes]:
        """Yield the lines of the file; the last one is the digest of all others."""
        digest = blake2b(digest_size=16)
        for line in (_Head(made_by(LAYOUT), made_of(self._folder)), *_columns(known)):
            data = msgspec.json.encode(line) + b"\n"
            digest.update(data)
            yield data
        yield digest.hexdigest().encode()

    def _read(self) -> Known:
        try:
            with (self._folder / HOME / FILE).open("rb") as file:
                return self._known_in(file)
        except (OSError, ValueError, IndexError, RecursionError):  # msgspec's errors are ValueErrors
            return {}

    def _known_in(self, file: BinaryIO) -> Known:
        """Return the summaries in the file; raises ValueError if it is damaged, or belongs to another folder or version."""
        head, digest, redactor = file.readline(), blake2b(digest_size=16), FileRedactor()
        if msgspec.json.decode(head, type=_Head) != _Head(made_by(LAYOUT), made_of(self._folder)):
            raise ValueError("of another version, or another folder")
        digest.update(head)
        columns: list[Iterator[Any]] = []
        for decoder in _decoders():
            line = file.readline()
            digest.update(line)
            # Summaries were redacted with the keys known when they were written.
            if redactor.finds_key(line):
                raise ValueError("it contains a key learned since then")
            columns.append(decoder.decode(line).all)
        if file.read() != digest.hexdigest().encode():
            raise ValueError("it was changed")
        stamps = map(Stamp, *columns[1:_STAMPED])
        rows = starmap(RunSummary, zip(*columns[_STAMPED:], strict=True))
        return dict(zip(columns[0], zip(stamps, rows, strict=True), strict=True))


_STAMPED = 1 + len(Stamp.__struct_fields__)
"""Columns that precede those of the summaries: the log's name and stamp."""


@cache
def _decoders() -> Sequence[msgspec.json.Decoder[_Column[Any]]]:
    kinds = (str, *get_type_hints(Stamp).values(), *get_type_hints(RunSummary).values())
    return [msgspec.json.Decoder(_Column[kind]) for kind in kinds]  # type: ignore[valid-type]


def _columns(known: Known) -> Iterator[_Column[Any]]:
    yield _Column([*known])
    stamps, summaries = zip(*known.values(), strict=True)
    for field in Stamp.__struct_fields__:
        yield _Column([*map(attrgetter(field), stamps)])
    for field in RunSummary.__struct_fields__:
        yield _column([*map(attrgetter(field), summaries)])


def _column(values: list[Any]) -> _Column[Any]:
    if values.count(values[0]) == len(values):  # fast path, as for most fields
        return _Column(values[:1], [0] * len(values))
    distinct = [*dict.fromkeys(values)]
    if len(distinct) > len(values) // 2:
        return _Column(values)
    places = {value: index for index, value in enumerate(distinct)}
    return _Column(distinct, [*map(places.__getitem__, values)])
