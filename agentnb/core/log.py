"""The doors of a run's log: who stores its events, and who watches them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

from agentnb.core.events import AnyEvent, Delta

Watcher: TypeAlias = Callable[[AnyEvent | Delta], Any]
"""A callback for each event after it was stored, and for each delta. Its return value is ignored."""


class Writer(Protocol):
    """Storage for the events of one run."""

    def append(self, event: AnyEvent) -> None:
        """Store the event durably before returning; raise OSError if that fails."""

    def close(self) -> None:
        """Close the storage: no more events will come."""


class RunStore(Protocol):
    """Storage for runs."""

    async def open(self, run_id: str, *, nested: bool = False) -> Writer:
        """Begin the log of a new run. May wait until another run has ended, except for a nested run."""
