"""The columns of the results table, other than those of the checks."""

from __future__ import annotations

COLUMNS: dict[str, tuple[str, str]] = {
    "task": ("str", "Id of the task"),
    "cluster": ("str", "Group of tasks that the task belongs to; the task itself without one"),
    "variant": ("str", "Name of the variant"),
    "model": ("str", "Name of the model"),
    "repeat": ("int64", "Number of the repeat, from 1"),
    "seed": ("int64", "Seed of the task and repeat"),
    "run_id": ("str", "Id of the run; missing if no run started"),
    "status": ("str", "How the run ended"),
    "reason": ("str", "Why it did not complete, or who did not answer; empty if it completed"),
    "rounds": ("int64", "Rounds"),
    "cost": ("float64", "US dollars; missing if unknown"),
    "judging_cost": ("float64", "US dollars of the calls of judges; 0 for cached verdicts"),
    "tokens": ("Int64", "Tokens sent and received; missing if unknown"),
    "seconds": ("float64", "Duration in seconds"),
    "loop_round": ("Int64", "First round with a loop; missing without one"),
    "attempt": ("int64", "Number of the attempt: above 1 after a retry"),
    "redone": ("str", "recovered or again, if the run was cut off"),
    "at": ("datetime64[us, UTC]", "When it was finished"),
}
"""Columns of `Results.table` with their types. Each check's column, named after the check, follows `reason`; no check may have
one of these names.
"""
