"""Start and end of a run that walks a graph."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from agentnb.core.log import work_events as w
from agentnb.core.run.step_outputs import text_of
from agentnb.core.schema.json_schema import plain_data
from agentnb.errors import SettingsError, StepFailed
from agentnb.policies.verdict import Stop
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.questions.elicitation import Elicitation
from agentnb.runtime.runs.lifecycle import Lifecycle
from agentnb.runtime.steps.step_orchestrator import StepOrchestrator
from agentnb.workflow.graph.nodes import Graph
from agentnb.workflow.running.execution import MAX_PLAN_ITERATIONS, Aborted
from agentnb.workflow.running.walker import LoopLimitReached, MakeHands, Walker
from agentnb.workflow.templates.templates import NoOutput, Scope, has_templates, render


class GraphRun(StepOrchestrator):
    """An orchestrator that walks a graph."""

    def __init__(
        self,
        lifecycle: Lifecycle,
        elicitation: Elicitation,
        graph: Graph,
        hands: MakeHands,
        values: Scope,
        first: str | None = None,
        earlier: Iterable[Any] = (),
    ) -> None:
        """``first``: id of the node at which to begin; ``earlier``: events of another run whose outputs are available from the
        start.
        """
        super().__init__(lifecycle, elicitation)
        self.where = graph.where
        self.steps.cancelled_before = asyncio.CancelledError
        self._graph, self._values, self._first, self._earlier = graph, values, first, earlier
        self._walker = Walker(self.steps, graph, hands)  # before servers are connected, because the hands call their tools

    async def orchestrate(self) -> Stop:
        """Run the nodes, and return the run's verdict."""
        before, self.steps.on_end = self.steps.on_end, self._walker.note_end
        try:
            self._take_over()
            ids, values = [node.id for node in self._graph.nodes], self._values.with_run(self.log.run)
            await self._walker.walk(values, 0 if self._first is None else ids.index(self._first))
            log_result(self._graph.output, values, self.log)
        except LoopLimitReached as error:
            self.steps.close_suspended()
            return Stop("max_loop_iterations", "failed", problem=error.what, hint=error.advice)
        except Aborted as error:
            if MAX_PLAN_ITERATIONS in error.failure.words:
                return Stop(MAX_PLAN_ITERATIONS, "limited", limit=self._graph.max_plans)
            return Stop("error", "failed", problem=error.failure.text, hint=error.failure.advice)
        except StepFailed as error:
            self.steps.close_suspended()
            spent = self.steps.budget.exhausted()
            if spent is not None:
                return Stop(spent.name, "limited", limit=spent.limit)
            return Stop("step_failed", "failed", problem=error.what, hint=error.advice)
        finally:
            self.steps.on_end = before  # breaks a reference cycle, so that the ended run is freed without garbage collection
        return Stop("completed")

    def _take_over(self) -> None:
        """Copy the outputs logged by another run into this run's log."""
        for event in self._earlier:
            if (again := self.steps.journal.take(type(event), event.step)) is None:
                fields = {name: getattr(event, name) for name in event.__struct_fields__ if name not in _HEAD}
                self.log.emit(type(event), **fields)
            if isinstance(again or event, w.StepStarted) and event.attempt == 1:
                self.steps.count_begun(event.step)


_HEAD = frozenset({"seq", "at", "run_id", "parent_id"})


def log_result(output: tuple[str, ...], scope: Any, log: EventLog) -> None:
    """Log the result of a completed workflow: the first of these ids and templates that has a value.

    If none has one, because their steps did not run, log a warning; the run's text is then the output of the last
    step. Raises `StepFailed` for a template that lacks a value for another reason.
    """
    if not output or any(isinstance(event, w.ResultGiven) for event in reversed(log.run.events)):
        return
    missing: list[str] = []
    for candidate in output:
        try:
            log.emit(w.ResultGiven, **_result(candidate, scope))
        except NoOutput as error:
            missing.append(error.what)
        except SettingsError as error:
            raise StepFailed(f"output: {error.what}", error.advice) from error
        else:
            return
    log.warn_once(f"output: {'; '.join(missing)}. The result is the output of the last step")


def _result(candidate: str, scope: Scope) -> dict[str, Any]:
    if has_templates(candidate):
        return {"output": plain_data(render(candidate, scope))}
    entry = scope.steps.get(candidate)
    if entry is None:
        raise NoOutput(f"the step {candidate} has no output")
    return {"output": _value(entry), "text": text_of(entry) if "outputs" in entry else ""}


def _value(entry: Mapping[str, Any]) -> Any:
    """Return a step's output; for a parallel block, its children's outputs by id."""
    if "outputs" in entry:
        return {name: _value(child) for name, child in entry["outputs"].items()}
    return entry["output"]
