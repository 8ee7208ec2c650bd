"""Import paths of earlier versions, removed in 0.2."""

import warnings

from agentnb import plots, tables

__all__ = ["plots", "tables"]

warnings.warn(
    "agentnb.traces is deprecated and will be removed in 0.2. Import tables, plots and Store from agentnb,"
    " and detected_runs from agentnb.interchange.detecting",
    DeprecationWarning,
    stacklevel=2,
)
