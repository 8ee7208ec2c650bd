"""Numbers of workflows, tasks and plans that a person may want to change."""

from __future__ import annotations

DEFAULT_LOOPS = 100
"""How often a step may run within one loop, unless the workflow says otherwise."""
AT_ONCE = 8
"""Items of a `MapStep` that are worked on at the same time, unless it says otherwise."""
DEFAULT_PLANS = 50
"""Plans that a run may make unless its file says otherwise."""
MAX_PLAN_STEPS = 1_000
"""Steps of a plan."""
MAX_RETRIES = 100
"""Further attempts of a step of a plan: they follow each other at once."""
MAX_STEPS = 20_000
"""Steps of a file, those that aliases repeat included."""
MAX_NESTED_RUNS = 1_000
"""Runs of files that a workflow may declare: a file that two steps run counts twice, with all that it runs."""
