"""A plan: reading it from YAML, JSON or plain data, checking, writing and running it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Unpack
from uuid import uuid4

import msgspec

from agentnb.detect.run import Run
from agentnb.runtime.host.live_run import LiveRun
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.runs.orchestration import Orchestration
from agentnb.workflow.files.workflow_reader import read_workflow
from agentnb.workflow.form.problems import Problem, Problems
from agentnb.workflow.form.yaml_source import as_yaml_text
from agentnb.workflow.plans.plan_checks import validate_plan
from agentnb.workflow.plans.plan_reader import read_any_plan
from agentnb.workflow.plans.plan_spec import PlanForm, PlanSpec
from agentnb.workflow.workflow import Workflow, WorkflowKeywords, WorkflowSettings

TASKS = """# One plan, whose steps run until one fails.
init:
  results: []

stage:
  plan:
    action: llm/exec:run_plan
    input: {plan: "${plan}", results: "${results}", guard: "${guard}"}
    post: {results: "${results}"}
    abort: true
"""
SOURCE = "plan"
"""Name of a plan's task file in logs."""


class Plan(PlanSpec, frozen=True, kw_only=True):
    """A plan that can be checked, written in both forms, and run repeatedly."""

    @classmethod
    def read(cls, given: str | Path | Mapping[str, Any]) -> Plan:
        """Parse a plan in either form from a file, plain data, or YAML or JSON text (fenced or not).

        Empty fields become None. Raises `WorkflowProblems` for unreadable input; `validate` returns all other
        problems.
        """
        problems = Problems()
        read = read_any_plan(given, problems)
        problems.check()
        assert read is not None, "an invalid plan has a problem"
        return cls.of(read.plan)

    @classmethod
    def of(cls, spec: PlanSpec) -> Plan:
        """Convert a parsed spec to a runnable plan."""
        return cls(**{name: getattr(spec, name) for name in PlanSpec.__struct_fields__})

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Unique names of the tools that its steps call or are allowed to use."""
        return tuple(dict.fromkeys(name for step in self.steps for name in (step.name, *step.tools) if name))

    def validate(self, tools: Iterable[Any] | None = None) -> list[Problem]:
        """Return all problems; an empty list if the plan is valid. ``tools``: those that its steps are allowed to call."""
        return validate_plan(self, tools)

    def to_dict(self, form: PlanForm | None = None) -> dict[str, Any]:
        """Return plain data. ``form``: ``planner`` or ``chat``; by default, the form in which the plan was written."""
        return {"planner": self.planner_data, "chat": self.chat_data}[form or self.form]

    def to_json(self, form: PlanForm | None = None) -> str:
        """Return JSON; ``form`` as for `to_dict`."""
        return msgspec.json.format(msgspec.json.encode(self.to_dict(form)), indent=2).decode()

    def to_yaml(self, form: PlanForm | None = None) -> str:
        """Return YAML; ``form`` as for `to_dict`."""
        return as_yaml_text(self.to_dict(form))

    async def run(self, options: RunOptions | None = None, **keywords: Unpack[WorkflowKeywords]) -> Run:
        """Run the steps until one fails, on the running event loop; ``run.variables["results"]`` contains the
        results.

        Keywords as for `Workflow.run`, such as ``tools``. Raises `WorkflowError` if a step fails.
        """
        return await _workflow().run("", options, **self._with_plan(keywords))

    def start(self, options: RunOptions | None = None, **keywords: Unpack[WorkflowKeywords]) -> LiveRun:
        """Start a run in the background and return its handle at once; keywords as for `run`."""
        return _workflow().start("", options, **self._with_plan(keywords))

    def run_sync(self, options: RunOptions | None = None, **keywords: Unpack[WorkflowKeywords]) -> Run:
        """Run like `run`, for use in scripts and code that cannot await."""
        return _workflow().run_sync("", options, **self._with_plan(keywords))

    def orchestration(self, **settings: Unpack[WorkflowSettings]) -> Orchestration:
        """Return the plan's `Orchestration`, which can be nested in another run."""
        plan_settings: WorkflowSettings = {**settings, "inputs": self._with_plan({}).get("inputs")}
        return _workflow().orchestration(**plan_settings)

    def _with_plan(self, keywords: WorkflowKeywords) -> WorkflowKeywords:
        plan = {**self.data, "id": self.id or uuid4().hex}
        return {**keywords, "inputs": {**(keywords.get("inputs") or {}), "plan": plan}}


@cache
def _workflow() -> Workflow:
    return Workflow.of_declared(read_workflow(TASKS, SOURCE, inputs=("plan",)))
