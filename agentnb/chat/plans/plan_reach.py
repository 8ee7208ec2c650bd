"""What a plan may take if it runs: the calls that it shows with all arguments, and what is decided only on the way."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from agentnb.core.request import ToolSpec
from agentnb.errors import UnknownTool
from agentnb.workflow.plans.offered_tools import StepWay, way_of_step
from agentnb.workflow.plans.plan_spec import PlanSpec, PlanStep
from agentnb.workflow.plans.step_references import references_in


class ShownCall(NamedTuple):
    """A call of a plan whose tool and arguments are known before it runs."""

    place: int
    """The place of its step, from 0."""
    tool: str
    arguments: str
    """As JSON with sorted keys."""


class PlanReach(NamedTuple):
    """What a plan may take."""

    shown: tuple[ShownCall, ...]
    """The calls with all arguments."""
    filled: int
    """The number of calls whose arguments are outputs of earlier steps."""
    executors: int
    """The number of steps that agents do."""
    replies: int
    """The number of steps that are one reply of a model."""

    @property
    def calls(self) -> int:
        """The number of all calls that the plan makes itself."""
        return len(self.shown) + self.filled


def reach_of(plan: PlanSpec, specs: Iterable[ToolSpec]) -> PlanReach:
    """Return what a plan may take. ``specs``: the tools on offer; a step whose tools are others is done by nobody."""
    given = [*specs]
    ways = [way_among(step, given) for step in plan.steps]
    calls = [(place, step) for place, (step, way) in enumerate(zip(plan.steps, ways, strict=True)) if way == "call"]
    shown = [(place, step) for place, step in calls if not [*references_in(step.args or {})]]
    return PlanReach(
        tuple([ShownCall(place, step.tools[0], arguments_text(step.args)) for place, step in shown]),
        len(calls) - len(shown),
        ways.count("executor"),
        ways.count("reply"),
    )


def arguments_text(arguments: Any) -> str:
    """Return the arguments of a step as JSON with sorted keys."""
    return msgspec.json.encode(arguments or {}, order="sorted").decode()


def way_among(step: PlanStep, specs: Iterable[ToolSpec]) -> StepWay | None:
    """Return what does a step with these tools; None if one of its tools is not among them."""
    known = {spec.name: spec for spec in specs}

    def spec_of(name: str) -> ToolSpec:
        if name not in known:
            raise UnknownTool(f"there is no tool {name}")
        return known[name]

    try:
        return way_of_step(step, spec_of)
    except UnknownTool:
        return None
