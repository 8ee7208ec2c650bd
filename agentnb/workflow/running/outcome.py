"""The verdict with which a run of steps ends."""

from __future__ import annotations

from collections.abc import Awaitable

from agentnb.errors import StepFailed
from agentnb.policies.verdict import Stop
from agentnb.runtime.steps.step_runner import StepRunner
from agentnb.workflow.running.loops import LoopLimitReached


async def verdict_of(work: Awaitable[None], steps: StepRunner) -> Stop:
    """Await the work of a run, and return how the run ends."""
    try:
        await work
    except LoopLimitReached as error:
        steps.close_suspended()
        return Stop("max_loop_iterations", "failed", problem=error.what, hint=error.advice)
    except StepFailed as error:
        steps.close_suspended()
        spent = steps.budget.exhausted()
        if spent is not None:
            return Stop(spent.name, "limited", limit=spent.limit)
        return Stop("step_failed", "failed", problem=error.what, hint=error.advice)
    return Stop("completed")
