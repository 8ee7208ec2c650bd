"""The running cell, and how it shows the runs that its Python code starts. Views are imported only when needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentnb.notebook.cells.cell_host import CellHost
    from agentnb.runtime.host.host import Host

_CELL = "_agentnb_cell"


class BegunCell:
    """A single execution of a cell."""

    def __init__(self, source: str, make: Callable[[], CellHost]) -> None:
        self.source = source
        """The id of the cell, or its text if the frontend sends no ids."""
        self.made: CellHost | None = None
        """The host of the cell's runs, once created."""
        self._make = make
        self._host: Host | None = None

    @property
    def shown(self) -> CellHost:
        """The host of the cell's runs, created on first use."""
        if self.made is None:
            self.made = self._make()
        return self.made

    def host(self) -> Host:
        """Return the `Host` for runs started by the cell's code."""
        if self._host is None:
            self._host = self.shown.host()
        return self._host


def begin(shell: Any, cell: BegunCell) -> None:
    """Set the shell's running cell."""
    setattr(shell, _CELL, cell)


def begun_cell(shell: Any) -> BegunCell:
    """Return the running cell, or the one that ran last. The extension must be loaded."""
    cell: BegunCell = getattr(shell, _CELL)
    return cell
