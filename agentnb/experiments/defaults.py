"""Numbers of experiments that a person may want to change."""

from __future__ import annotations

AT_A_TIME = 8
"""Cells that run at the same time in the kernel, and in each process of `executor="processes"`."""
MAX_DEATHS = 2
"""Deaths of a process at the same cell after which the cell is a row that says so."""
MAX_FLIPS = 200
"""Pairs of runs that a comparison lists; `Comparison.flips` has them all."""
