"""The cell that runs: the runs that its Python code begins are shown below it. It imports what shows them only then."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from agentnb.notebook.cells.cell_host import CellHost
    from agentnb.runtime.host.host import Host

_CELL = "_agentnb_cell"


class BegunCell:
    """An execution of a cell."""

    def __init__(self, source: str, make: Callable[[], CellHost]) -> None:
        self.source = source
        """The id of the cell, or its text in a frontend that sends no ids."""
        self.made: CellHost | None = None
        """What shows the runs of the cell, once something asked for it."""
        self._make = make
        self._host: Host | None = None

    @property
    def shown(self) -> CellHost:
        """What shows the runs of the cell."""
        if self.made is None:
            self.made = self._make()
        return self.made

    def host(self) -> Host:
        """Return what the runs take that the code of the cell begins."""
        if self._host is None:
            self._host = self.shown.host()
        return self._host


def begin(shell: Any, cell: BegunCell) -> None:
    """Take this cell as the one that runs in a shell."""
    setattr(shell, _CELL, cell)


def begun_cell(shell: Any) -> BegunCell:
    """Return the cell that runs, or the one that ran last. The extension is loaded."""
    cell: BegunCell = getattr(shell, _CELL)
    return cell
