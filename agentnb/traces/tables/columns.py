"""Tables built from lists of columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

if TYPE_CHECKING:
    import pandas as pd

R = TypeVar("R")
TIME = "datetime64[us, UTC]"


class Column(NamedTuple, Generic[R]):
    """A column: its name, its dtype, and a function from a row's object to its value."""

    name: str
    dtype: str
    value: Callable[[R], Any]


def table(rows: Iterable[R], columns: Sequence[Column[R]]) -> pd.DataFrame:
    """Return a DataFrame, built column by column, which is several times faster than row by row."""
    import pandas as pd

    rows = list(rows)
    return pd.DataFrame({column.name: pd.Series([column.value(row) for row in rows], dtype=column.dtype) for column in columns})
