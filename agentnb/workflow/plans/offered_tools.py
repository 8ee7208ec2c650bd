"""The tools that a planner may choose from and that its plans may call."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import chain
from typing import Any, Literal, TypeAlias

from msgspec import structs

from agentnb.advice import GiveTools
from agentnb.core.plans.plan_steps import PlanStep
from agentnb.core.request import ToolSpec
from agentnb.errors import UnknownTool
from agentnb.tools.builtin.builtin_names import names_in_group, near_tools
from agentnb.tools.mcp.mcp_server import ServerTools, is_word
from agentnb.tools.mcp.wire_names import is_named, tool_of_word
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.plans.plan_spec import PlanSpec

StepWorker: TypeAlias = Literal["call", "executor", "reply"]
"""Worker of a chat plan's step: one call of its tool, an agent with its tools, or a single model reply."""


def select_tools(names: Any, toolbox: Toolbox) -> tuple[ToolSpec, ...]:
    """Return the tools with these names or in these groups; all tools if ``names`` is None. Raises `UnknownTool`."""
    if names is None:
        return toolbox.specs
    offered_specs: dict[str, ToolSpec] = {}
    for name in names if isinstance(names, list | tuple) else str(names).split(","):
        word = str(name).strip()
        specs = _specs_of(word, toolbox)
        if not specs:
            advice = near_tools(word, [spec.name for spec in toolbox.specs], GiveTools((word,)))
            raise UnknownTool(f"tools: there is no tool {word}", advice)
        offered_specs.update({spec.name: spec for spec in specs})
    return tuple(offered_specs.values())


def _specs_of(word: str, toolbox: Toolbox) -> list[ToolSpec]:
    """Return the tools for a word: a single tool, a group of built-in tools, or an MCP server's tools."""
    if is_word(word):
        return [spec for spec in toolbox.specs if is_named(spec.name, [word])]
    own = toolbox.get(tool_of_word(word))
    tools = [own] if own is not None else [tool for tool in toolbox.of_word(word) if not isinstance(tool, ServerTools)]
    return [tool.spec for tool in tools]


def with_tools_of_groups(plan: PlanSpec, known: Collection[str]) -> PlanSpec:
    """Expand tool groups in a chat plan's steps to the known tools in them."""
    if plan.form != "chat":
        return plan

    def names_for(word: str) -> list[str]:
        of_group = [] if word in known else [name for name in names_in_group(word) if name in known]
        return of_group or [word]

    steps = [structs.replace(step, tools=tuple(chain.from_iterable(map(names_for, step.tools)))) for step in plan.steps]
    return structs.replace(plan, steps=tuple(steps))


def worker_of_step(step: PlanStep, specs: Sequence[ToolSpec]) -> StepWorker:
    """Return the worker for a chat plan's step. ``specs``: the step's tools."""
    if not specs:
        return "reply"
    has_arguments = step.args is not None or not specs[0].input_schema.get("required")
    return "call" if has_arguments and not step.executor_required else "executor"
