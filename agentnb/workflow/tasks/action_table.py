"""Lookup of a task's action: an agentnb action from a table, or a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from agentnb.tools.mcp.wire_names import tool_of_word
from agentnb.tools.toolbox import Toolbox
from agentnb.workflow.checks.argument_checks import check_arguments
from agentnb.workflow.form.problems import Problems, note_no_tool
from agentnb.workflow.graph.nodes import HANDLER
from agentnb.workflow.tasks.task_spec import TaskFile

Action: TypeAlias = Callable[[Any], Awaitable[Any]]
"""Does the work of a task, described by an `agentnb.workflow.tasks.task_calls.ActionCall`; returns plain data."""


@dataclass(frozen=True, slots=True)
class ActionTable:
    """Actions and tools of one run."""

    tools: Toolbox
    actions: Mapping[str, Action] = field(default_factory=dict)
    """Actions by name, such as ``llm/core:plan``."""

    def may_have(self, name: str) -> bool:
        """True if an action or tool has this name, or if an MCP server may turn out to have it once a run has connected."""
        return name in self.actions or self.tools.may_have(tool_of_word(name))

    def check(self, file: TaskFile) -> None:
        """Raise `WorkflowProblems`, listing all actions of a file that are neither in the table nor a tool."""
        problems = Problems(file.source)
        self.note(file, problems, checks_arguments=False)
        problems.check()

    def note(self, file: TaskFile, problems: Problems, *, checks_arguments: bool = True) -> None:
        """Add a file's unknown actions, and arguments that violate a schema, to ``problems``."""
        table, own = replace(self, tools=self.tools.with_words(file.actions)), [tool.spec.name for tool in self.tools]
        for node, call in file.graph.calls():
            where, name = f"task {node.path}", tool_of_word(call.name)
            if not table.may_have(call.name):
                problem = f"there is neither an action {call.name} nor a tool {name}"
                location = node.line, where.removesuffix(HANDLER)
                note_no_tool(name, own, problems, *location, what=problem, actions=self.actions)
            elif checks_arguments and (tool := self.tools.get(name)) is not None:
                name, schema = tool.spec.name, tool.spec.input_schema
                check_arguments(name, schema, call.args, lambda text: "$" in text, problems, where, node.line)
        for name in file.approval.tool_names:
            if not table.tools.may_have(name):
                note_no_tool(name, own, problems, file.approval.line, "approval")
