"""Former names of columns. They still work for one release, with a warning that states the new name."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def with_former_columns(frame: pd.DataFrame, former: Mapping[str, str]) -> pd.DataFrame:
    """Return the table so that these former column names, mapped to the current ones, still work as in ``frame["name"]``.

    Data frames derived from the table are ordinary ones.
    """
    wrapped: pd.DataFrame = _class()(frame)
    wrapped.attrs[FORMER] = dict(former)
    return wrapped


FORMER = "agentnb_former_columns"
"""Data frame attribute that holds the former names."""


@cache
def _class() -> Any:
    import pandas as pd

    class TableWithFormerColumns(pd.DataFrame):  # type: ignore[misc]  # pandas is untyped here
        """A data frame that also reads columns by their former names."""

        @property
        def _constructor(self) -> Any:
            return pd.DataFrame

        def __repr__(self) -> str:
            return repr(pd.DataFrame(self)) if self.empty else super().__repr__()  # an empty frame prints its class

        def __getitem__(self, key: Any) -> Any:
            better = self.attrs.get(FORMER, {}).get(key) if isinstance(key, str) else None
            if better is None or key in self.columns:
                return super().__getitem__(key)
            warnings.warn(f"The column {key} is now called {better}", DeprecationWarning, stacklevel=2)
            return super().__getitem__(better)

        def __getattr__(self, name: str) -> Any:
            if not name.startswith("_") and name in self.attrs.get(FORMER, {}) and name not in self.columns:
                return self[name]
            return super().__getattr__(name)

    return TableWithFormerColumns
