"""SQLite databases of other products: opened for reading, so that no file beside them is made, changed or missed."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from agentnb.errors import TraceError
from agentnb.traces.trace_file import MAX_RECORD, TraceFile

if TYPE_CHECKING:
    import sqlite3

_TRIES = 3
_COPIED = "copy.db"


@contextmanager
def database(file: TraceFile) -> Iterator[sqlite3.Connection]:
    """Open a database for reading. Raises `TraceError` if it is damaged.

    One in WAL mode whose newest rows are still in its ``-wal`` file is copied with it, and the copy is opened; any other is
    opened as it is, as a file that does not change, which leaves nothing beside it. One in an archive is unpacked.
    """
    import sqlite3  # its library is loaded only for those who read a database

    with TemporaryDirectory(prefix="agentnb-") as folder:
        path = file.path if file.path is not None and not _has_wal(file.path) else _copied(file, Path(folder))
        options = "immutable=1" if path == file.path else "mode=rw"
        try:
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?{options}", uri=True)) as opened:
                opened.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_RECORD)
                opened.execute("PRAGMA trusted_schema = OFF")
                opened.execute("PRAGMA query_only = ON")
                opened.row_factory = sqlite3.Row
                yield opened
        except sqlite3.Error as error:
            raise TraceError(f"{file.name} cannot be read: {error}", "The database is damaged, or locked") from error


def columns(opened: sqlite3.Connection, table: str) -> set[str]:
    """Return the names of the columns of a table; none if there is no such table."""
    return {row["name"] for row in opened.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def _wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _has_wal(path: Path) -> bool:
    wal = _wal(path)
    return wal.is_file() and wal.stat().st_size > 0


def _copied(file: TraceFile, folder: Path) -> Path:
    """Copy the database, with the rows that are in its ``-wal`` file; again if another process has written meanwhile."""
    target = folder / _COPIED
    if file.path is None:
        target.write_bytes(file.whole())
        return target
    for _ in range(_TRIES):
        before = file.path.stat()
        shutil.copyfile(file.path, target)
        if _has_wal(file.path):
            shutil.copyfile(_wal(file.path), _wal(target))
        after = file.path.stat()
        if (before.st_mtime_ns, before.st_size) == (after.st_mtime_ns, after.st_size):
            break
    return target
