"""Checks of planner inputs in task files before a run begins."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentnb.core.expressions import substitute
from agentnb.core.plans.plan_history import EXECUTION, PLANNING
from agentnb.errors import ExpressionError
from agentnb.models.destinations.destination import FileModelName
from agentnb.models.registry import check_destinations, check_key, check_model
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.files.declared_files import WorkflowDefinition
from agentnb.workflow.graph.nodes import Call
from agentnb.workflow.plans.offered_tools import select_tools
from agentnb.workflow.plans.plan_results import guard_of
from agentnb.workflow.plans.prompt_template import template_text
from agentnb.workflow.tasks.task_orchestration import first_values
from agentnb.workflow.tasks.task_spec import ALWAYS_KNOWN, TaskFile


def check_planner_inputs(
    declared: WorkflowDefinition, inputs: Mapping[str, Any], tools: Iterable[Any] | None, folder: Path
) -> None:
    """Raise `SettingsError` for an invalid template, unknown tool names, or invalid duplicate-guard settings of a
    task file.

    ``inputs``: the run's inputs; ``tools``: all of its tools, if known. Inputs computed by a task are checked during the run,
    and so are the tools of MCP servers, which are known only once connected.
    """
    toolbox = None if tools is None else Toolbox(tools)
    for call_inputs in _inputs_of(EXECUTION, declared, inputs):
        guard_of(call_inputs.get("guard"))
    for call_inputs in _inputs_of(PLANNING, declared, inputs):
        template_text(call_inputs.get("promptTemplate"), folder)
        if toolbox is not None and not toolbox.servers:
            select_tools(call_inputs.get("tools"), toolbox)


def check_planner_models(declared: WorkflowDefinition, inputs: Mapping[str, Any], model: Any) -> None:
    """Raise `SettingsError` if a planner's model is unusable or its key is not set.

    ``model``: the model of planners that do not name one.
    """
    for call_inputs in _inputs_of(PLANNING, declared, inputs):
        named = call_inputs.get("model")
        if isinstance(named, str) and named:
            check_destinations([FileModelName(named)])  # the name may come from a file
        chosen = named or model
        if isinstance(chosen, str):
            check_model(chosen)
            check_key(chosen)


def _inputs_of(action: str, declared: WorkflowDefinition, inputs: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield the inputs of each call of an action in a task file, limited to constants and variables that no task sets."""
    if not isinstance(declared, TaskFile):
        return
    set_later = {name for task in declared.tasks for name in task.sets}
    values = {**dict.fromkeys(ALWAYS_KNOWN), **first_values(declared, inputs)}
    constants = {name: value for name, value in values.items() if name not in set_later}
    for task in declared.tasks:
        if isinstance(task.does, Call) and task.does.name == action:
            call_inputs: dict[str, Any] = {}
            for key, value in task.does.args.items():
                with suppress(ExpressionError):  # the value depends on a task
                    call_inputs[key] = substitute(value, constants)
            yield call_inputs
