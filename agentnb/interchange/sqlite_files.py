"""Opens SQLite databases of other products for reading, without creating, changing or ignoring files next to them.

Only tables are read. Views are refused because there is no limit on what they compute.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from agentnb.errors import TraceError
from agentnb.interchange.trace_file import TraceFile
from agentnb.store.bounds import MAX_HELD_BYTES, MAX_RECORD_BYTES, BoundExceeded, check_bytes, check_records

if TYPE_CHECKING:
    import sqlite3

MAX_STEPS = 500_000_000
"""Maximum number of instructions of SQLite's virtual machine per file; they take about 10 s."""
STEPS_BETWEEN_CHECKS = 100_000
_TRIES = 3
_COPIED = "copy.db"


@contextmanager
def database(file: TraceFile) -> Iterator[sqlite3.Connection]:
    """Open a database for reading. Raises `TraceError` if it is damaged.

    If a database is in WAL mode and has rows in its ``-wal`` file, both files are copied, and the copy is opened. Other
    databases are opened in place as immutable files, which leaves no files next to them. A database in an archive is unpacked.
    """
    import sqlite3  # imported lazily: only needed for databases

    with TemporaryDirectory(prefix="agentnb-") as folder:
        path = file.path if file.path is not None and not _has_wal(file.path) else _copy_database(file, Path(folder))
        options = "immutable=1" if path == file.path else "mode=rw"
        try:
            with closing(sqlite3.connect(f"{path.resolve().as_uri()}?{options}", uri=True)) as connection:
                connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_RECORD_BYTES)
                connection.execute("PRAGMA trusted_schema = OFF")
                connection.execute("PRAGMA query_only = ON")
                connection.row_factory = _CountedRows(file.name, path.stat().st_size)
                connection.set_authorizer(_authorize)
                connection.set_progress_handler(_Steps(), STEPS_BETWEEN_CHECKS)
                yield connection
        except sqlite3.Error as error:
            code = getattr(error, "sqlite_errorcode", None)
            if code == sqlite3.SQLITE_AUTH:
                problem = f"{file.name} has views instead of tables, which agentnb does not read"
                raise TraceError(problem, "Export the data you need as JSON") from error
            if code == sqlite3.SQLITE_INTERRUPT:
                problem = f"{file.name} takes more than {MAX_STEPS:,} SQLite steps to read"
                raise BoundExceeded(problem, "Export the data you need as JSON") from error
            raise TraceError(
                f"{file.name} cannot be read: {error}", "Close the programs that use it, and copy it again"
            ) from error


class _Steps:
    """Interrupts SQLite after too many instructions."""

    def __init__(self) -> None:
        self._left = MAX_STEPS

    def __call__(self) -> bool:
        self._left -= STEPS_BETWEEN_CHECKS
        return self._left < 0


class _CountedRows:
    """Row factory that refuses to return more data than a file of this size can hold."""

    def __init__(self, name: str, size: int) -> None:
        self._name = name
        self._max_bytes = size + MAX_HELD_BYTES
        self._bytes = self._rows = 0

    def __call__(self, cursor: sqlite3.Cursor, values: tuple[Any, ...]) -> sqlite3.Row:
        import sqlite3

        self._rows += 1
        self._bytes += sum([len(value) for value in values if isinstance(value, str | bytes)])
        check_bytes(self._bytes, self._max_bytes, self._name)
        check_records(self._rows, self._name)
        return sqlite3.Row(cursor, values)


def _authorize(action: int, first: str | None, second: str | None, database: str | None, view: str | None) -> int:
    """Allow the operations of agentnb's own queries, except in a view."""
    import sqlite3

    return sqlite3.SQLITE_OK if view is None else sqlite3.SQLITE_DENY


def columns(opened: sqlite3.Connection, table: str) -> set[str]:
    """Return the column names of a table; empty if the table does not exist."""
    return {row["name"] for row in opened.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def _wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _has_wal(path: Path) -> bool:
    wal = _wal(path)
    return wal.is_file() and wal.stat().st_size > 0


def _copy_database(file: TraceFile, folder: Path) -> Path:
    """Copy the database with its ``-wal`` file, retrying if another process writes in the meantime."""
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
