"""Lookup of a task's action: an agentnb action from a table, or a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from agentnb.tools.builtin.builtin_names import KnownSchemas
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.checks.call_checks import Position, check_calls
from agentnb.workflow.form.problems import Problems, note_no_tool
from agentnb.workflow.graph.nodes import Node
from agentnb.workflow.tasks.task_spec import TaskFile

Action: TypeAlias = Callable[[Any], Awaitable[Any]]
"""Does the work of a task, described by an `agentnb.workflow.tasks.task_calls.ActionCall`; returns plain data."""


@dataclass(frozen=True, slots=True)
class ActionTable:
    """Actions and tools of one run."""

    tools: Toolbox
    actions: Mapping[str, Action] = field(default_factory=dict)
    """Actions by name, such as ``llm/core:plan``."""

    def check(self, file: TaskFile) -> None:
        """Raise `WorkflowProblems`, listing all actions of a file that are neither in the table nor a tool."""
        problems = Problems(file.source)
        self.note(file, problems, checks_arguments=False)
        problems.check()

    def note(self, file: TaskFile, problems: Problems, *, checks_arguments: bool = True) -> None:
        """Add a file's unknown actions, and arguments that violate a schema, to ``problems``."""
        tools = self.tools.with_words(file.actions)
        schemas = KnownSchemas({tool.spec.name: tool.spec.input_schema for tool in self.tools}, tools.may_have)

        def locate(node: Node) -> Position:
            return Position(f"task {node.path}", node.line, node.line)

        known = schemas if checks_arguments else schemas.keys()
        check_calls(file.graph, known, lambda text: "$" in text, problems, locate, self.actions)
        for name in file.approval.tool_names:
            if not tools.may_have(name):
                note_no_tool(name, known, problems, file.approval.line, "approval")
