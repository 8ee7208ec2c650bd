"""The doors of a run's log: who stores its events, and who watches them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, runtime_checkable

from agentnb.core.log.events import AnyEvent, Delta

Watcher: TypeAlias = Callable[[AnyEvent | Delta], Any]
"""A callback for each event after it was stored, and for each delta. Its return value is ignored."""


class Writer(Protocol):
    """Storage for the events of one run.

    If it has a ``size``, the bytes of the log so far, the run ends with a `Totals` for lists of runs.
    """

    def append(self, event: AnyEvent) -> None:
        """Store the event durably before returning; raise OSError if that fails."""

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
