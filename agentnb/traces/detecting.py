"""The import path of `agentnb.interchange.detecting` in earlier versions."""

import warnings

from agentnb.interchange.detecting import detected_runs

__all__ = ["detected_runs"]

warnings.warn(
    "agentnb.traces.detecting is deprecated and goes with 0.2; import agentnb.interchange.detecting",
    DeprecationWarning,
    stacklevel=2,
)
