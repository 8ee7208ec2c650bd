"""A run that walks a graph: its start and its end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from agentnb.core.log import work_events as w
from agentnb.errors import StepFailed
from agentnb.policies.verdict import Stop
from agentnb.runtime.questions.elicitation import Elicitation
from agentnb.runtime.runs.lifecycle import Lifecycle
from agentnb.runtime.steps.step_orchestrator import StepOrchestrator
from agentnb.workflow.graph.nodes import Graph
from agentnb.workflow.running.execution import MAX_PLAN_ITERATIONS, Aborted
from agentnb.workflow.running.loops import LoopLimitReached
from agentnb.workflow.running.result import log_result
from agentnb.workflow.running.walker import MakeHands, Walker
from agentnb.workflow.templates.templates import Scope


@dataclass(frozen=True, slots=True)
class GraphStart:
    """The start of a run: its graph and its values."""

    graph: Graph
    hands: MakeHands
    values: Scope
    first: str | None = None
    """The id of the node that it begins at."""
    earlier: tuple[Any, ...] = ()
    """Events of another run, whose outputs it begins with."""


class GraphRun(StepOrchestrator):
    """Walks a graph as a run."""

    def __init__(self, lifecycle: Lifecycle, elicitation: Elicitation, start: GraphStart) -> None:
        super().__init__(lifecycle, elicitation)
        self.where = start.graph.where
        self.steps.cancelled_before = asyncio.CancelledError
        self._start = start
        self._walker = Walker(self.steps, start.graph, start.hands)  # before servers are connected, whose tools its hands call

    async def orchestrate(self) -> Stop:
        """Do the nodes; return how the run ends."""
        before, self.steps.on_end = self.steps.on_end, self._walker.note_end
        try:
            self._take_over()
            ids = [node.id for node in self._start.graph.nodes]
            values = self._start.values.begun(self.log.run)
            await self._walker.walk(values, 0 if self._start.first is None else ids.index(self._start.first))
            log_result(self._start.graph.output, values, self.log)
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
        finally:
            self.steps.on_end = before  # each holds the other: a run that has ended would wait for the collection of garbage
        return Stop("completed")

    def _take_over(self) -> None:
        """Log what nodes of another run gave, so that this one continues with it."""
        for event in self._start.earlier:
            if (again := self.steps.journal.take(type(event), event.step)) is None:
                fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in _HEAD}
                self.log.emit(type(event), **fields)
            if isinstance(again or event, w.StepStarted) and event.attempt == 1:
                self.steps.count_begun(event.step)


_HEAD = frozenset({"seq", "at", "run_id", "parent_id"})
