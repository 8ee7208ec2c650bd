"""Tables of rows whose columns have names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd


def frame_from_rows(rows: Sequence[Mapping[str, Any]], kinds: Mapping[str, str | None]) -> pd.DataFrame:
    """Return a table of these columns of the rows. ``kinds``: the dtype of each column; None takes that of its values."""
    import pandas as pd

    return pd.DataFrame({name: pd.Series([row[name] for row in rows], dtype=kind) for name, kind in kinds.items()})
