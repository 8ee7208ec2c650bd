"""Default limits of workflows, tasks and plans that people may want to change."""

from __future__ import annotations

DEFAULT_LOOPS = 100
"""Default maximum of runs of one step within one loop."""
AT_ONCE = 8
"""Default maximum of items that a `MapStep` works on in parallel."""
DEFAULT_PLANS = 50
"""Default maximum of plans in one run."""
MAX_PLAN_STEPS = 1_000
"""Maximum steps of a plan."""
MAX_RETRIES = 100
"""Maximum retries of a plan step; they follow without delay."""
MAX_STEPS = 20_000
"""Maximum steps of a file, including steps repeated by aliases."""
MAX_NESTED_RUNS = 1_000
"""Maximum nested runs that a workflow may declare: a file used by two steps counts twice, with all its nested runs."""
