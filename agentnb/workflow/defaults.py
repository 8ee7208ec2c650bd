"""Default limits of workflows, tasks and plans that users may want to change."""

from __future__ import annotations

DEFAULT_LOOPS = 100
"""Default maximum number of times that a step runs within one loop."""
MAX_PARALLEL_ITEMS = 8
"""Default maximum number of items that a `MapStep` processes in parallel."""
DEFAULT_PLANS = 50
"""Default maximum number of plans in one run."""
MAX_PLAN_STEPS = 1_000
"""Maximum steps of a plan."""
MAX_RETRIES = 100
"""Maximum retries of a plan step, without a delay between them."""
MAX_STEPS = 20_000
"""Maximum steps of a file, including steps repeated by aliases."""
MAX_NESTED_RUNS = 1_000
"""Maximum nested runs that a workflow may declare; a file used by two steps counts twice, with all its nested runs."""
