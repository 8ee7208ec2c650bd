"""Backs up files while a run works, within limits, except for files that contain a known key."""

from __future__ import annotations

import os
import stat
import threading
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from msgspec.structs import replace

from agentnb.core.log.stores import MAX_KEPT_FILE_BYTES, FileBefore
from agentnb.core.messages import encodable
from agentnb.core.redaction import holds_key, redact
from agentnb.store.before_images.images import digest, folder_of_run, listed_changes, write_record
from agentnb.store.before_images.records import ABSENT, FileChanged, NotKept

MAX_RUN_BYTES = 100_000_000
"""Maximum total bytes of a run's images."""


class BeforeImages:
    """Backs up files before a run's calls change them. Thread-safe."""

    def __init__(self, log: str | Path, *, sync: bool = False) -> None:
        """``log``: the path of the run's log; ``sync``: whether images are forced to disk."""
        path = Path(log)
        self._store, self._run_id = path.parent, path.stem
        self._folder = folder_of_run(self._store, self._run_id, sync=sync)
        self._lock = threading.Lock()
        self._is_loaded = False
        self._next, self._kept_bytes = 0, 0
        self._last: dict[str, FileChanged] = {}
        """The latest change of each file, unless it was undone."""

    def keep(self, file: FileBefore) -> None:
        """Back up the file before it is changed, or record why it is not backed up. Raises OSError on failure."""
        change = _change_of(file, self._run_id)
        with self._lock:
            self._load()
            change = replace(change, number=self._next)
            not_kept = change.not_kept or self._not_kept(change)
            if not_kept:
                change = replace(change, not_kept=not_kept)
                write_record(self._folder, change)
            else:
                change = replace(change, image=f"{self._next:06d}x{os.urandom(4).hex()}")
                self._write_image(change, file.before or b"")
                self._kept_bytes += change.size
            self._next += 1
            self._last[change.path] = change

    def _write_image(self, change: FileChanged, data: bytes) -> None:
        self._folder.make()
        self._folder.create(change.image, data)
        try:
            write_record(self._folder, change)
        except OSError:
            with suppress(OSError):
                self._folder.remove(change.image)
            raise

    def _not_kept(self, change: FileChanged) -> NotKept:
        """Return why the content of a file need not or cannot be kept; empty if it is to be kept."""
        last = self._last.get(change.path)
        if last is not None and last.has_digests and change.before in (last.before, last.after):
            return "earlier"
        if change.before == ABSENT:
            return "new_file"
        if change.size > MAX_KEPT_FILE_BYTES:
            return "too_large"
        return "run_full" if self._kept_bytes + change.size > MAX_RUN_BYTES else ""

    def _load(self) -> None:
        """Read the list left by a process that died."""
        if self._is_loaded:
            return
        listed = listed_changes(self._store, self._run_id)
        self._next = 1 + max((change.number for change in listed.changes), default=-1)
        self._kept_bytes = sum(change.size for change in listed.changes if change.image)
        self._last = {change.path: change for change in listed.pending}
        self._is_loaded = True


def _change_of(file: FileBefore, run_id: str) -> FileChanged:
    """Return the record of a change, without its number. If the file contains a key, the record has no digests."""
    work_dir, path, call_id = map(encodable, (str(file.work_dir.resolve()), str(file.path), file.call_id))
    change = FileChanged(run_id=run_id, number=0, at=datetime.now(UTC), call_id=call_id, work_dir=work_dir, path=path)
    shown = redact(change)
    if file.after is None:
        return replace(shown, not_kept="no_call")
    if shown is not change or (file.before is not None and holds_key(file.before)) or holds_key(file.after):
        return replace(shown, not_kept="holds_key")
    size = 0 if file.before is None else len(file.before)
    return replace(change, before=digest(file.before), after=digest(file.after), size=size, mode=_mode(file))


def _mode(file: FileBefore) -> int | None:
    """Return the permissions of a file, or None for a new file."""
    if file.before is None:
        return None
    with suppress(OSError):
        return stat.S_IMODE(file.path.lstat().st_mode) & 0o777
    return None
