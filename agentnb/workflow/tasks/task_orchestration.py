"""Builds the runs of task files: initial variables and workers."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from agentnb.agent.agent import Agent
from agentnb.agent.price_check import check_has_price
from agentnb.core.expressions import substitute
from agentnb.core.schema.json_schema import plain_data
from agentnb.errors import MissingKey, SettingsError, suggest_names
from agentnb.models.registry import check_destinations, make_model
from agentnb.runtime.budget import Budget
from agentnb.runtime.questions.elicitation import Elicitation
from agentnb.runtime.runs.lifecycle import Lifecycle
from agentnb.runtime.runs.orchestration import Orchestration
from agentnb.runtime.steps.step_runner import StepRunner
from agentnb.tools.builtin.builtin_names import logged_builtins
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.running.graph_run import GraphRun
from agentnb.workflow.running.walker import Handle
from agentnb.workflow.tasks.action_table import Action, ActionTable
from agentnb.workflow.tasks.task_calls import Calls
from agentnb.workflow.tasks.task_spec import ALWAYS_KNOWN, TaskFile
from agentnb.workflow.templates.templates import TaskScope

PLAN_TOOLS = "plan_tools"
"""Key in a run's settings for the names of the tools that its plans may call."""


def task_orchestration(
    file: TaskFile,
    inputs: Mapping[str, Any],
    tools: Iterable[Any] = (),
    actions: Mapping[str, Action] | None = None,
    *,
    models: Mapping[str, Any] | None = None,
    limits: Mapping[str, Any] | None = None,
    settings: Mapping[str, Any] | None = None,
) -> Orchestration:
    """Return an `Orchestration` of a task file with these inputs, which can be started, nested, limited and resumed.

    ``actions``: functions, other than tools, that its tasks call by name; ``models``: model settings for actions; ``limits``:
    limits of the run, which replace the file's; ``settings``: plain data for the log. Raises `SettingsError` for an unknown
    input, and `WorkflowProblems` for actions that are neither in the table nor a tool.
    """
    values = first_values(file, inputs)
    named = values.get("tools")
    words = [word for word in named if isinstance(word, str)] if isinstance(named, list) else []
    toolbox = Toolbox(tools).with_words([*file.actions, *file.approval.tool_names, *words])
    table = ActionTable(toolbox, actions or {})
    table.check(file)
    check_destinations([(models or {}).get("model")])

    def make(lifecycle: Lifecycle, elicitation: Elicitation) -> GraphRun:
        def hands(steps: StepRunner, handle: Handle) -> Calls:
            return Calls(steps, table, file.approval, models or {}, file.max_plan_iterations, handle)

        return GraphRun(lifecycle, elicitation, file.graph, hands, TaskScope.of_tasks(values, file.names_set))

    plans = any(name in table.actions for name in file.actions)
    name = file.name or (Path(file.source).stem if file.source else "tasks")
    logged = {
        "workflow": {"text": file.text, "source": file.source},
        "inputs": {},
        "variables": {name: value for name, value in values.items() if name not in inputs},
        **({PLAN_TOOLS: names} if plans and (names := [spec.name for spec in table.tools.specs]) else {}),
        **logged_builtins(table.tools),
        **(settings or {}),
    }
    logged = {**plain_data(logged), "inputs": {name: values[name] for name in inputs}}  # already copies
    limits = file.limits if limits is None else limits
    check = _price_check(models or {}) if plans else None
    more: dict[str, Any] = {"name": name, "rule_scope": (table.tools,), "server_tools": table.tools.servers, **limits}
    return Orchestration(make=make, settings=logged, is_plain=True, check=check, **more)


def _price_check(models: Mapping[str, Any]) -> Callable[[Budget], None] | None:
    """Return a check that the actions' model has a price if a budget needs one, or None without a model."""
    model = models.get("model")
    if model is None:
        return None

    def check(budget: Budget) -> None:
        if budget.has_limit():
            with suppress(MissingKey):  # reported by its call, if it is ever made
                agent = Agent(model, **(models.get("agent_settings") or {}))
                check_has_price(make_model(model), agent, budget, "The planner")

    return check


def first_values(file: TaskFile, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """Return a run's initial variables. Raises `SettingsError` for an unknown input."""
    names = dict.fromkeys([*file.variables, *file.inputs, *ALWAYS_KNOWN])
    for name in inputs:
        if name not in names:
            raise SettingsError(f"The task file has no input {name}", suggest_names(name, names))
    values: dict[str, Any] = dict(plain_data(dict(inputs), "The inputs"))
    seen = ChainMap(values, dict.fromkeys(names.keys() - {"query", *file.variables, *values}))  # the prompt is not known yet
    for name, value in file.variables.items():
        if name not in values:
            values[name] = substitute(value, seen)
    return values
