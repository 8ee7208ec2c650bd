"""The list of a run's changes to files, as JSON Lines: each is appended before the file is changed.

Each line has a mark of the person's own (`store.own_logs`), so that a line by another author is recognized.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from agentnb.store.own_logs import log_marks

ABSENT = "absent"
"""Digest of a missing file."""
NotKept: TypeAlias = Literal["", "earlier", "new_file", "too_large", "run_full", "holds_key", "no_call"]
"""Reason for a change without an image: an earlier change of the run leads to it, the file is new, it or the run's images
are too large, it contains a known key, before or after, or no call of the run made it.
"""


class FileChanged(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="file_changed", gc=False
):
    """A call was about to change a file, or the file changed without a call during the run."""

    run_id: str
    number: int
    """Its index among the changes of the run."""
    at: datetime
    call_id: str
    """Id of the call; empty if no call made the change."""
    work_dir: str
    """Working folder of the run's tools, with links resolved."""
    path: str
    """Absolute path, with links resolved."""
    before: str = ""
    """Digest of the file before, or `ABSENT`; empty if it contains a key."""
    after: str = ""
    size: int = 0
    """Bytes before."""
    mode: int | None = None
    """Permissions before."""
    image: str = ""
    """Name of the file with the earlier content; empty if that is not kept."""
    not_kept: NotKept = ""

    @property
    def has_digests(self) -> bool:
        """True if the states of the file before and after are known."""
        return bool(self.before and self.after)


class ChangesUndone(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="changes_undone", gc=False):
    """Changes of the run were undone: later undos skip them."""

    run_id: str
    at: datetime
    numbers: tuple[int, ...]


Record: TypeAlias = FileChanged | ChangesUndone
_decoder = msgspec.json.Decoder(Record)


class ListedChanges(NamedTuple):
    """The changes in a list."""

    changes: tuple[FileChanged, ...] = ()
    """All changes, in order."""
    undone: frozenset[int] = frozenset()
    """Numbers of undone changes."""
    foreign: int = 0
    """Number of lines that this person's agentnb did not write."""

    @property
    def pending(self) -> list[FileChanged]:
        """Changes that were not undone."""
        return [change for change in self.changes if change.number not in self.undone]


def encode_record(record: Record) -> bytes:
    """Encode a record as a line, with a mark if the person's folder can hold the secret."""
    line, marks = msgspec.json.encode(record) + b"\n", log_marks()
    return line if marks is None else marks.add_mark(line)[0]


def read_records(data: bytes, run_id: str) -> ListedChanges:
    """Return the changes of a run from its list. A torn line belongs to a change that was not made."""
    changes: list[FileChanged] = []
    undone: set[int] = set()
    foreign = 0
    for record in _own_records(data.splitlines(keepends=True), run_id):
        if record is None:
            foreign += 1
        elif isinstance(record, FileChanged):
            changes.append(record)
        else:
            undone.update(record.numbers)
    return ListedChanges(tuple(changes), frozenset(undone), foreign)


def _own_records(lines: Iterable[bytes], run_id: str) -> Iterator[Record | None]:
    """Yield the record of each complete line, or None for a line by another author."""
    for line in lines:
        try:
            record = _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        marks = log_marks()
        yield record if marks is not None and marks.read([line]) and record.run_id == run_id else None
