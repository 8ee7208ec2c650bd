"""Limits of experiments that a person may want to change."""

from __future__ import annotations

AT_A_TIME = 8
"""Maximum number of cells that run concurrently, in the kernel or in each process of ``executor="processes"``."""
MAX_DEATHS = 2
"""Maximum number of times that a process may die while running the same cell; then the cell's row records the failure."""
MAX_FLIPS = 200
"""Maximum number of pairs of runs listed by a comparison; `Comparison.flips` has all of them."""
