"""The facts of a run that an agent's loop does not make itself: steps, plans, other model calls, findings, scope."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from agentnb.core import events as e
from agentnb.core import work_events as w
from agentnb.core.run_state import RunState
from agentnb.core.view import View
from agentnb.core.work_state import PlanRecord, StepCall, StepRecord, progress_of


class WorkFacts(RunState):
    """What a run keeps of the events in `agentnb.core.work_events`, read-only."""

    __slots__ = ()

    @property
    def context_type(self) -> str:
        """The kind of task that it works on, if that was named."""
        return self._work.context_type

    @property
    def entity(self) -> str:
        """Id of the thing that it works on, such as a project."""
        return self._work.entity

    @property
    def drawn(self) -> w.GuidanceDrawn | None:
        """The last draw of a guidance set, with its propensity; None without one."""
        return self._work.drawn

    @property
    def grants(self) -> View[w.GrantGiven]:
        """The grants in force: the tools whose calls are allowed without a question, oldest first."""
        return View([*self._work.grants.values()])

    def has_grant(self, tool: str) -> bool:
        """Return whether a grant allows the calls of this tool."""
        return any(grant.tool == tool for grant in self._work.grants.values())

    @property
    def step_records(self) -> Mapping[str, StepRecord]:
        """The steps by path, each as it stands."""
        return MappingProxyType(self._work.steps)

    @property
    def step_calls(self) -> View[StepCall]:
        """The tool calls of steps, in the order in which they began; those that a model made are in the rounds."""
        return View(self._work.calls)

    def open_step_call(self, call_id: str) -> StepCall | None:
        """Return the call of a step with this id that has no result; None if there is none."""
        path = self._work.open_calls.get(call_id, ())
        return self._work.calls[path[0]] if len(path) == 1 else None

    @property
    def step_count(self) -> int:
        """How many steps began or were skipped, those in blocks included; jumps are none."""
        return sum(one.kind != "goto" for one in self._work.steps.values())

    @property
    def steps(self) -> Mapping[str, dict[str, Any]]:
        """What the steps of a workflow gave: ``run.steps["par"]["outputs"]["gen_1"]["output"]``."""
        return self._work.outputs.steps

    def open_outputs(self, block: str) -> Mapping[str, dict[str, Any]]:
        """Return what the children of a block that is open gave so far, by id; nothing of one that is over."""
        return self._work.outputs.inside(block)

    @property
    def step_context(self) -> dict[str, Any]:
        """A copy of what the steps gave, as plain data: ``steps`` by id, and the ``order`` in which they first completed."""
        return self._work.outputs.snapshot()

    @property
    def back_edges(self) -> Mapping[str, int]:
        """How often each way back to an earlier step was taken, as ``from -> to``."""
        return MappingProxyType(self._work.back_edges)

    @property
    def variables(self) -> Mapping[str, Any]:
        """The variables of a task file: those that it began with, and those that its tasks have set since."""
        return MappingProxyType(self._work.variables)

    @property
    def progress(self) -> e.Progress | None:
        """How many of the steps known so far are over, and the titles of those that are open; None without steps."""
        return progress_of(self._work.steps.values())

    @property
    def plans(self) -> Mapping[str, PlanRecord]:
        """The plans by id, each as it stands."""
        return MappingProxyType(self._work.plans)

    @property
    def model_calls(self) -> View[w.ModelCalled]:
        """The model calls besides those of the rounds, such as those of a planner or a judge."""
        return View(self._work.model_calls)

    @property
    def findings(self) -> View[w.FindingMade]:
        """What detectors found while it ran."""
        return View(self._work.findings)
