"""Interfaces to a run's log: storage for its events, and watchers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from agentnb.core.log.events import AnyEvent, Delta

Watcher: TypeAlias = Callable[[AnyEvent | Delta], Any]
"""Callback for each delta, and for each event after it is stored. The return value is ignored."""

BEFORE_IMAGES = ".before-"
"""Name prefix of folders with files saved before a change. Hidden, so that listings skip them; tools do not read them, since
the files may contain keys."""
MAX_KEPT_FILE_BYTES = 10_000_000
"""Maximum size of a file saved before a change."""


class FileBefore(NamedTuple):
    """A file before a tool call changes it, or a file that changed without a call."""

    call_id: str
    """Id of the tool call; empty if the file changed without a call."""
    work_dir: Path
    """Working directory of the run's tools."""
    path: Path
    """Absolute path with links resolved."""
    before: bytes | None
    """The old content, or None for a new file."""
    after: bytes | None
    """The content to be written, or None if the file changed without a call (then both contents are unknown)."""


class Writer(Protocol):
    """Storage for the events of one run.

    If it has a ``size`` attribute (bytes logged so far), a `Totals` for lists of runs is written when the run ends. An optional
    method ``keep_before`` saves a `FileBefore` durably before it returns, from any thread. Another, ``keep_stderr``, appends
    lines of a program's standard error to a file and returns its path. Both raise OSError on failure.
    """

    def append(self, event: AnyEvent) -> None:
        """Store the event durably before returning. Raises OSError on failure, or `EventTooLarge` for an event that must first
        be cut.
        """

    def close(self) -> None:
        """Close the storage."""


class RunStore(Protocol):
    """Storage for runs."""

    async def open(self, run_id: str, *, nested: bool = False) -> Writer:
        """Begin the log of a new run. May wait for another run to end, unless the new run is nested."""


@runtime_checkable
class ReopeningStore(RunStore, Protocol):
    """Storage that can reopen interrupted runs."""

    def reopen(self, run_id: str) -> tuple[Writer, Any]:
        """Return the run and its log, opened for appending."""

    def load(self, run_id: str) -> Any:
        """Return the run."""

    def has(self, run_id: str) -> bool:
        """Return True if the store has a log of this run that includes its first event."""
