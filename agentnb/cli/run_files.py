"""The files that commands run and check: workflows, task files, plans, and the built-in planner by its name."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path
from typing import Any

from agentnb.cli.kinds import PLAN, kind_of_text
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.files.files import file_text
from agentnb.workflow.form.problems import Problems
from agentnb.workflow.plan import Plan
from agentnb.workflow.plans.default_planner import PLANNER, planner_text
from agentnb.workflow.plans.plan_checks import read_and_check
from agentnb.workflow.plans.plan_reader import ReadPlan
from agentnb.workflow.workflow import Workflow


def is_planner(path: Path) -> bool:
    """Return whether the name means the built-in planner: no file has it. A folder may."""
    return str(path) == PLANNER and not path.is_file()


def text_of_file(path: Path) -> str:
    """Return the text of a file, or the task file of the built-in planner."""
    return planner_text() if is_planner(path) else file_text(path)


def is_plan(path: Path) -> bool:
    """Return whether a file is a plan."""
    return kind_of_text(text_of_file(path)) == PLAN


def read_workflow(
    path: Path, tools: list[Any] | None, *, strict: bool, inputs: Collection[str] = (), checks_actions: bool = False
) -> Workflow:
    """Return the workflow of a file; raise what says all that is wrong. ``tools``: all that there are, if that is known."""
    if is_planner(path):
        return Workflow.planner(tools or ())
    return Workflow.from_yaml(path, strict=strict, tools=tools, inputs=inputs, checks_actions=checks_actions)


def read_plan(path: Path, tools: list[Any]) -> Plan:
    """Return the plan of a file that can run with these tools; raise `WorkflowProblems` with all that is wrong."""
    read, problems = read_and_check(path, tools)
    if read is not None and not problems.found:
        _note_not_given(read, Toolbox(tools), problems)
    problems.check()
    assert read is not None, "what is none has a problem"
    return Plan.of(read.plan)


def _note_not_given(read: ReadPlan, toolbox: Toolbox, problems: Problems) -> None:
    """Note each built-in tool that a valid plan names and may not call: a model may have written it."""
    for step, fields in zip(read.plan.steps, read.steps, strict=True):
        for name in (step.name, *step.tools):
            if name and fields is not None and not toolbox.may_have(name):
                problem = f"{fields.where}: the tool {name} is built in, and is not among the tools of this command"
                problems.add(fields.line_of("name" if name == step.name else "tools"), problem, f"Give it: --tools {name}")
