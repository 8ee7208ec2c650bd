"""Possible actions of a plan: calls with known arguments, and actions decided only at run time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal, TypeAlias

import msgspec

from agentnb.core.plans.plan_steps import PlanStep
from agentnb.core.request import ToolSpec
from agentnb.workflow.plans.offered_tools import worker_of_step
from agentnb.workflow.plans.plan_spec import PlanSpec
from agentnb.workflow.plans.step_references import references_in

Reach: TypeAlias = Literal["shown", "filled", "executor", "reply", ""]
"""Possible actions of a step: a call with known arguments, a call with arguments from earlier steps, calls chosen by
an agent, or a model's reply; empty if one of its tools is unavailable.
"""


def reach_of(plan: PlanSpec, specs: Iterable[ToolSpec]) -> list[Reach]:
    """Return the possible actions of each step. ``specs``: the available tools."""
    by_name = {spec.name: spec for spec in specs}

    def reach(step: PlanStep) -> Reach:
        if not by_name.keys() >= set(step.tools):
            return ""
        worker = worker_of_step(step, [by_name[name] for name in step.tools])
        return worker if worker != "call" else "filled" if any(references_in(step.args or {})) else "shown"

    return [reach(step) for step in plan.steps]


def arguments_text(arguments: Any) -> str:
    """Return the arguments of a step as JSON with sorted keys."""
    return msgspec.json.encode(arguments or {}, order="sorted").decode()
