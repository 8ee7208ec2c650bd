"""The context window of a run's model, if known."""

from __future__ import annotations

import re
from functools import lru_cache

from agentnb.detect.run import Run
from agentnb.interchange.conversion.run_writer import UNNAMED
from agentnb.models import prices


def context_window(run: Run) -> int | None:
    """Return the model's context window in tokens: as configured (``History(window=...)``), or from the price table."""
    configured = run.settings.get("history", {}).get("window")
    return configured if isinstance(configured, int) and not isinstance(configured, bool) else _of_model(run.model)


@lru_cache(maxsize=prices.MAX_MODELS)
def _of_model(name: str) -> int | None:
    """Return the context window from the price table; loading the table takes half a second.

    Traces of other products name models without a provider (``gpt-4o``), or with a provider before a slash.
    """
    provider, separator, model = re.split("([:/])", name, maxsplit=1) if re.search("[:/]", name) else ("", "", name)
    if separator:
        return prices.look_up(provider, model)[0] if provider in prices.IN_TABLE else None
    if model == UNNAMED:
        return None
    windows = (prices.look_up(candidate, model)[0] for candidate in dict.fromkeys(prices.IN_TABLE.values()))
    return next((window for window in windows if window is not None), None)
