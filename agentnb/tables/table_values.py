"""Tables built from the rows of runs. Rows become column values at once, so that only one run is in memory at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from agentnb.detect.run import Run
from agentnb.interchange.files import RunSource, each_run, warn_of
from agentnb.interchange.trace_file import Problem
from agentnb.store.store import Fold
from agentnb.tables.columns import Column, column_of

if TYPE_CHECKING:
    import pandas as pd

R = TypeVar("R")


class Table(NamedTuple, Generic[R]):
    """A table in which each row is about one run."""

    name: str
    columns: Sequence[Column[R]]
    rows: Callable[[Any], Iterable[R]]
    """Returns the rows of a `Run`, or of the result of ``fold``."""
    fold: Fold[Any] = Run.from_events
    """Folds a log's events into the facts that the rows need; less than a `Run` if the rows need no judgements."""


class Values(Generic[R]):
    """The values of a growing table, by column."""

    def __init__(self, columns: Sequence[Column[R]]) -> None:
        self._columns = columns
        self._clear()

    def _clear(self) -> None:
        self._values: list[list[Any]] = [[] for _ in self._columns]
        self._adders = [
            (values.append, values.extend, column.value) for values, column in zip(self._values, self._columns, strict=True)
        ]
        self.rows = 0

    def add(self, rows: Iterable[R]) -> None:
        """Add rows."""
        rows = [*rows]
        if len(rows) == 1:  # fast path, as in the table of runs: half the time
            row = rows[0]
            for append, _, value in self._adders:
                append(value(row))
        else:
            for _, extend, value in self._adders:
                extend(map(value, rows))
        self.rows += len(rows)

    def take_lists(self) -> list[list[Any]]:
        """Return the collected values by column, and clear them."""
        values = self._values
        self._clear()
        return values

    def take(self) -> pd.DataFrame:
        """Return the collected rows as a data frame, and clear them."""
        return frame_of_lists(self.take_lists(), self._columns)


def frame_of_lists(values: Sequence[list[Any]], columns: Sequence[Column[Any]]) -> pd.DataFrame:
    """Return the data frame of these values by column."""
    import pandas as pd

    series = {
        column.name: _texts(items) if column.dtype == "str" else column_of(items, column.dtype)
        for items, column in zip(values, columns, strict=True)
    }
    return pd.DataFrame(series)


def _texts(values: list[Any]) -> pd.Series:
    """Return a text column; pandas alone takes six times as long to make one."""
    import pandas as pd

    try:
        import pyarrow as pa

        return pd.Series(pa.array(values, pa.large_string(), from_pandas=True).to_pandas(), dtype="str")
    except (ImportError, TypeError, ValueError):  # without pyarrow, or for values that pandas converts to text
        return pd.Series(values, dtype="str")


def read_frame(source: RunSource, table: Table[Any]) -> pd.DataFrame:
    """Return the table of a source, read from its logs. Unreadable files are skipped with a warning."""
    problems: list[Problem] = []
    values = Values(table.columns)
    for run in each_run(source, problems, table.fold):
        values.add(table.rows(run))
    warn_of(problems)
    return values.take()
