"""The list of a run's changes to files, as JSON Lines: each is added before the file is changed.

Each line has a mark of the person's own (`store.own_logs`), so that a line by somebody else is recognized.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from agentnb.store.own_logs import log_marks

ABSENT = "absent"
"""The digest of a file that is not there."""
NotKept: TypeAlias = Literal["", "earlier", "new_file", "too_large", "run_full", "holds_key", "no_call"]
"""Why a change has no image: an earlier change of the run leads to it, the file is new, it or those of the run are too large,
a known key is in it, before or after, or no call of the run made it."""


class FileChanged(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind", tag="file_changed", gc=False
):
    """A call was about to change a file, or it has changed without one while the run went."""

    run_id: str
    number: int
    """Its place among the changes of the run."""
    at: datetime
    call_id: str
    """Empty if no call made the change."""
    work_dir: str
    """The folder of the run's tools, links followed."""
    path: str
    """Absolute, links followed."""
    before: str = ""
    """The digest of the file before, or `ABSENT`; empty if a key is in it."""
    after: str = ""
    size: int = 0
    """Bytes before."""
    mode: int | None = None
    """Its permissions before."""
    image: str = ""
    """The name of the file that holds its content before; empty if that is not kept."""
    not_kept: NotKept = ""

    @property
    def has_digests(self) -> bool:
        """Whether the states of the file before and after are known."""
        return bool(self.before and self.after)


class ChangesUndone(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", tag="changes_undone", gc=False):
    """Changes of the run were undone: later undos leave them out."""

    run_id: str
    at: datetime
    numbers: tuple[int, ...]


Record: TypeAlias = FileChanged | ChangesUndone
_decoder = msgspec.json.Decoder(Record)


class ListedChanges(NamedTuple):
    """The changes in a list."""

    changes: tuple[FileChanged, ...] = ()
    """All, in their order."""
    undone: frozenset[int] = frozenset()
    """The numbers of those that were undone."""
    foreign: int = 0
    """Lines that this person's agentnb did not write."""

    @property
    def pending(self) -> list[FileChanged]:
        """Those that were not undone."""
        return [change for change in self.changes if change.number not in self.undone]


def encoded(record: Record) -> bytes:
    """Return the line of a record, with its mark if the person's folder can hold the secret."""
    line, marks = msgspec.json.encode(record) + b"\n", log_marks()
    return line if marks is None else marks.marked(line)[0]


def read_records(data: bytes, run_id: str) -> ListedChanges:
    """Return the changes of a run from its list. A torn line is that of a change that was not made."""
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
    """Yield the record of each whole line; None for one by somebody else."""
    for line in lines:
        try:
            record = _decoder.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            continue
        marks = log_marks()
        yield record if marks is not None and marks.read([line]) and record.run_id == run_id else None
