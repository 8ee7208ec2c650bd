"""The doors of a run's log: who stores its events, and who watches them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

from agentnb.core.log.events import AnyEvent, Delta

Watcher: TypeAlias = Callable[[AnyEvent | Delta], Any]
"""A callback for each event after it was stored, and for each delta. Its return value is ignored."""

BEFORE_IMAGES = ".before-"
"""How the names of folders begin that hold files as they were before they were changed. Readers of folders pass over hidden
ones; no tool reads in them, as what they hold may be keys."""
MAX_KEPT_FILE_BYTES = 10_000_000
"""The largest file that is kept before it is changed."""


class FileBefore(NamedTuple):
    """A file as it is before a tool call changes it, or one that has changed without a call."""

    call_id: str
    """Empty if it has changed without a call."""
    work_dir: Path
    """The folder of the run's tools."""
    path: Path
    """Absolute, links followed."""
    before: bytes | None
    """Its content; None for a new file."""
    after: bytes | None
    """The content to be written; None if it has changed without a call: then neither content is known."""


class Writer(Protocol):
    """Storage for the events of one run.

    If it has a ``size``, the bytes of the log so far, the run ends with a `Totals` for lists of runs. If it has a method
    ``keep_before``, that keeps a `FileBefore` durably before it returns, from any thread; it raises OSError if it cannot.
    """

    def append(self, event: AnyEvent) -> None:
        """Store the event durably before returning; raise OSError if that fails, `EventTooLarge` for one to be cut first."""

    def close(self) -> None:
        """Close the storage: no more events will come."""


class RunStore(Protocol):
    """Storage for runs."""

    async def open(self, run_id: str, *, nested: bool = False) -> Writer:
        """Begin the log of a new run. May wait until another run has ended, except for a nested run."""


@runtime_checkable
class ReopeningStore(RunStore, Protocol):
    """Storage in which interrupted runs are found again."""

    def reopen(self, run_id: str) -> tuple[Writer, Any]:
        """Return the log of an interrupted run, open for appending, and the run."""

    def load(self, run_id: str) -> Any:
        """Return the run."""

    def has(self, run_id: str) -> bool:
        """Return whether there is a log of this run that holds its first event."""
