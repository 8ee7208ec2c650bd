"""The list of a run's changes to files, as JSON Lines: each is appended before the file is changed.

Each line carries the person's own mark (`store.own_logs`), so that lines written by anyone else are recognized.
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
"""Why a change has no image: an earlier change of the run produced this content, the file is new, the file or the run's
images are too large, the file contains a known key, before or after, or no call of the run made the change.
"""


class FileChanged(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="file_changed", gc=False
):
    """A call was about to change a file, or a file changed during the run without a call."""

    run_id: str
    number: int
    """Its index among the run's changes."""
    at: datetime
    call_id: str
    """Id of the call; empty if no call made the change."""
    work_dir: str
    """Working folder of the run's tools, with links resolved."""
    path: str
    """Absolute path of the file, with links resolved."""
    before: str = ""
    """Digest of the file before the change, or `ABSENT`; empty if the file contains a key."""
    after: str = ""
    size: int = 0
    """Size in bytes before the change."""
    mode: int | None = None
    """Permissions before the change."""
    image: str = ""
    """Name of the file that holds the earlier content; empty if the content is not kept."""
    not_kept: NotKept = ""

    @property
    def has_digests(self) -> bool:
        """True if the file's states before and after are known."""
        return bool(self.before and self.after)


class ChangesUndone(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="changes_undone", gc=False):
    """Changes of the run were undone; later undos skip them."""

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
    """Numbers of the changes that were undone."""
    foreign: int = 0
    """Number of lines not written by this person's agentnb."""

    @property
    def pending(self) -> list[FileChanged]:
        """Changes that have not been undone."""
        return [change for change in self.changes if change.number not in self.undone]


def encode_record(record: Record) -> bytes:
    """Encode a record as a line, with a mark if the secret can be kept in the person's folder."""
    line, marks = msgspec.json.encode(record) + b"\n", log_marks()
    return line if marks is None else marks.add_mark(line)[0]


def read_records(data: bytes, run_id: str) -> ListedChanges:
    """Return the changes in a run's list. A torn line belongs to a change that was never made."""
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
    """Yield the record on each complete line, or None for a line by another author."""
    for line in lines:
        try:
            record = _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        marks = log_marks()
        yield record if marks is not None and marks.read([line]) and record.run_id == run_id else None
