"""Limits of experiments that a person may want to change."""

from __future__ import annotations

AT_A_TIME = 8
"""Maximum cells that run concurrently in the kernel, and in each process of ``executor="processes"``."""
MAX_DEATHS = 2
"""Maximum times that a process may die running the same cell; after that, the cell gets a row that says so."""
MAX_FLIPS = 200
"""Maximum pairs of runs that a comparison lists; `Comparison.flips` has all of them."""
