"""What a plan may take if it runs: the calls that it shows with all arguments, and what is decided only on the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from agentnb.core.plans.plan_steps import PlanStep
from agentnb.core.request import ToolSpec
from agentnb.workflow.plans.offered_tools import StepWay, way_of_step
from agentnb.workflow.plans.plan_spec import PlanSpec
from agentnb.workflow.plans.step_references import references_in


class PlanReach(NamedTuple):
    """What a plan may take: the places of its steps, from 0, by what is known of them before."""

    shown: tuple[int, ...]
    """Those that are one call, with all arguments."""
    filled: tuple[int, ...]
    """Those that are one call, whose arguments are outputs of earlier steps."""
    executors: tuple[int, ...]
    """Those that agents do."""
    replies: tuple[int, ...]
    """Those that are one reply of a model."""

    @property
    def calls(self) -> int:
        """The number of calls that the plan makes itself."""
        return len(self.shown) + len(self.filled)


def reach_of(plan: PlanSpec, specs: Iterable[ToolSpec]) -> PlanReach:
    """Return what a plan may take. ``specs``: the tools on offer; a step whose tools are others is done by nobody."""
    given = [*specs]
    ways = [way_among(step, given) for step in plan.steps]

    def places(way: StepWay, *, refers: bool | None = None) -> tuple[int, ...]:
        found = [place for place, one in enumerate(ways) if one == way]
        return tuple([place for place in found if refers is None or _refers(plan.steps[place]) is refers])

    return PlanReach(places("call", refers=False), places("call", refers=True), places("executor"), places("reply"))


def _refers(step: PlanStep) -> bool:
    """Return whether arguments of a step are outputs of earlier ones."""
    return next(references_in(step.args or {}), None) is not None


def arguments_text(arguments: Any) -> str:
    """Return the arguments of a step as JSON with sorted keys."""
    return msgspec.json.encode(arguments or {}, order="sorted").decode()


def way_among(step: PlanStep, specs: Iterable[ToolSpec]) -> StepWay | None:
    """Return what does a step with these tools; None if one of its tools is not among them."""
    known = {spec.name: spec for spec in specs}
    is_known = known.keys() >= set(step.tools)
    return way_of_step(step, [known[name] for name in step.tools]) if is_known else None
