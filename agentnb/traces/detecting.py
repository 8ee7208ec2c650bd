"""Import path of `agentnb.interchange.detecting` in earlier versions, removed in 0.2."""

from agentnb.interchange.detecting import detected_runs

__all__ = ["detected_runs"]
