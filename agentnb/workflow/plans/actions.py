"""The actions of plans, by the names that task files call them by."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from agentnb.core.plans.plan_history import EXECUTION, PLANNING
from agentnb.tools.mcp.wire_names import tool_of_word
from agentnb.workflow.plans.execution import run_plan
from agentnb.workflow.plans.planner import plan
from agentnb.workflow.tasks.actions import Action

PLAN_ACTIONS: Mapping[str, Action] = MappingProxyType({PLANNING: plan, EXECUTION: run_plan})
ACTION_NAMES = frozenset(map(tool_of_word, PLAN_ACTIONS))
"""The same as if they were names of tools."""
