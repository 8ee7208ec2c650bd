"""A run that walks a graph: what it begins with, and how it ends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from agentnb.errors import StepFailed
from agentnb.policies.verdict import Stop
from agentnb.runtime.questions.elicitation import Elicitation
from agentnb.runtime.runs.lifecycle import Lifecycle
from agentnb.runtime.steps.step_orchestrator import StepOrchestrator
from agentnb.workflow.graph.nodes import Graph
from agentnb.workflow.running.execution import MAX_PLAN_ITERATIONS, Aborted
from agentnb.workflow.running.loops import LoopLimitReached
from agentnb.workflow.running.walker import MakeHands, Values, Walker


@dataclass(frozen=True, slots=True)
class GraphStart:
    """What a run begins with."""

    graph: Graph
    hands: MakeHands
    values: Values


class GraphRun(StepOrchestrator):
    """Walks a graph as a run."""

    def __init__(self, lifecycle: Lifecycle, elicitation: Elicitation, start: GraphStart) -> None:
        super().__init__(lifecycle, elicitation)
        self.where = start.graph.where
        self.steps.cancelled_before = asyncio.CancelledError
        self._start = start
        self._walker = Walker(self.steps, start.graph, start.hands, start.values)

    async def orchestrate(self) -> Stop:
        """Do the nodes; return how the run ends."""
        try:
            await self._walker.walk()
        except LoopLimitReached as error:
            self.steps.close_suspended()
            return Stop("max_loop_iterations", "failed", problem=error.what, hint=error.advice)
        except Aborted as error:
            if MAX_PLAN_ITERATIONS in error.failure.words:
                return Stop(MAX_PLAN_ITERATIONS, "limited", limit=self._start.graph.max_plans)
            return Stop("error", "failed", problem=error.failure.text, hint=error.failure.advice)
        except StepFailed as error:
            self.steps.close_suspended()
            spent = self.steps.budget.exhausted()
            if spent is not None:
                return Stop(spent.name, "limited", limit=spent.limit)
            return Stop("step_failed", "failed", problem=error.what, hint=error.advice)
        return Stop("completed")
