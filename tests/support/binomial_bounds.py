"""Bounds that a count keeps in 99.9 per cent of all repetitions."""

from __future__ import annotations

from scipy.stats import binom


def at_least(share: float, of: int) -> int:
    """The least count of what has at least this probability."""
    return int(binom.ppf(0.001, of, share))


def at_most(share: float, of: int) -> int:
    """The largest count of what has at most this probability."""
    return int(binom.ppf(0.999, of, share))
