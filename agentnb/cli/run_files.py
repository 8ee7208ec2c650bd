"""The files that commands run and check: workflows, task files, plans, and the built-in planner by name."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from agentnb.cli.kinds import PLAN, kind_of_text
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.files.nested_files import file_text
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.plan import Plan
from agentnb.workflow.plans.default_planner import PLANNER, planner_text
from agentnb.workflow.plans.plan_checks import read_and_check
from agentnb.workflow.plans.plan_reader import ReadPlan
from agentnb.workflow.workflow import Workflow


def is_planner(path: Path) -> bool:
    """True if this path means the built-in planner: no file has that name, though a folder may."""
    return str(path) == PLANNER and not path.is_file()


def text_of_file(path: Path) -> str:
    """Return the text of a file, or the task file of the built-in planner."""
    return planner_text() if is_planner(path) else file_text(path)


def is_plan(path: Path) -> bool:
    """True if a file is a plan."""
    return kind_of_text(text_of_file(path)) == PLAN


def read_workflow(
    path: Path, tools: list[Any] | None, *, strict: bool, inputs: Collection[str] = (), checks_actions: bool = False
) -> Workflow:
    """Read a workflow from a file; raises an error that lists every problem. ``tools``: the complete list, if known."""
    if is_planner(path):
        return Workflow.planner(tools or ())
    return Workflow.from_yaml(path, strict=strict, tools=tools, inputs=inputs, checks_actions=checks_actions)


def read_plan(path: Path, tools: list[Any]) -> Plan:
    """Read a plan from a file, and check that it can run with these tools; raises `WorkflowProblems` with every problem."""
    read, problems = read_and_check(path, tools)
    if read is not None and not problems.found:
        _note_not_given(read, Toolbox(tools), problems)
    problems.check()
    assert read is not None, "an unreadable plan has a problem"
    return Plan.of(read.plan)


def _note_not_given(read: ReadPlan, toolbox: Toolbox, problems: Problems) -> None:
    """Report each built-in tool that a valid plan uses without permission, since a model may have written the plan."""
    for step, fields in zip(read.plan.steps, read.steps, strict=True):
        for name in (step.name, *step.tools):
            if name and fields is not None and not toolbox.may_have(name):
                problem = f"{fields.where}: the built-in tool {name} is not enabled for this command"
                problems.add(fields.line_of("name" if name == step.name else "tools"), problem, f"Add the tool: --tools {name}")
