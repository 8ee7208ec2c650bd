"""The before-images of a run on disk: the list of its changes, and the content of files before them."""

from __future__ import annotations

import errno
from collections.abc import Iterable
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from agentnb.core.log.stores import MAX_KEPT_FILE_BYTES
from agentnb.store.before_images.private_folder import PrivateFolder
from agentnb.store.before_images.records import ABSENT, ChangesUndone, FileChanged, ListedChanges, Record, encoded, read_records

MAX_LIST_BYTES = 100_000_000
"""The longest list of changes that is read."""
_LIST = "changes.jsonl"
NO_CHANGES = ListedChanges()


def folder_of_run(store: Path, run_id: str, *, sync: bool = False) -> PrivateFolder:
    """Return the folder of a run's before-images, in the folder of its log."""
    return PrivateFolder(store, run_id, sync=sync)


def digest(data: bytes | None) -> str:
    """Return the digest of a file's content; `ABSENT` for no file."""
    return ABSENT if data is None else sha256(data).hexdigest()


def listed_changes(store: Path, run_id: str) -> ListedChanges:
    """Return the changes that a run has listed; none if it has no list. Raises OSError if it cannot be read."""
    folder = folder_of_run(store, run_id)
    if not folder.exists:
        return NO_CHANGES
    try:
        return read_records(folder.read(_LIST, MAX_LIST_BYTES), run_id)
    except FileNotFoundError:
        return NO_CHANGES


def write_record(folder: PrivateFolder, record: Record) -> None:
    """Add a record to the list of a run."""
    folder.make()
    folder.append(_LIST, encoded(record))


def read_image(store: Path, change: FileChanged) -> bytes:
    """Return the content of a file before a change. Raises OSError if it is not there as it was kept."""
    if not change.image.isalnum():  # no other name is given to an image
        raise OSError(errno.EINVAL, "it has no image")
    data = folder_of_run(store, change.run_id).read(change.image, MAX_KEPT_FILE_BYTES)
    if digest(data) != change.before:
        raise OSError(errno.EIO, "something else has changed its copy")
    return data


def note_undone(store: Path, run_id: str, numbers: Iterable[int]) -> None:
    """Note that these changes of a run were undone."""
    write_record(folder_of_run(store, run_id), ChangesUndone(run_id=run_id, at=datetime.now(UTC), numbers=tuple(numbers)))
