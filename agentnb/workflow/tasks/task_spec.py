"""Data types of a parsed task file; these classes are also its schema.

Texts are as written: `agentnb.workflow.templates.templates` evaluates ``${plan.steps}``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agentnb.policies.permissions.permission_rules import Rule
from agentnb.tools.mcp.mcp_server import server_tools
from agentnb.tools.mcp.wire_names import WILDCARDS, registry_name, tool_of_word, wire_name
from agentnb.workflow.defaults import DEFAULT_LOOPS, DEFAULT_PLANS
from agentnb.workflow.form.problems import Problem
from agentnb.workflow.form.workflow_spec import written_as
from agentnb.workflow.graph.nodes import Graph, Node

ALWAYS_KNOWN = ("query", "context", "model", "tools", "results", "transcript", "promptTemplate", "guard")
"""Variables of every task file; null unless passed or set."""
ApprovalMode = Literal["ask", "auto", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRules:
    """Rules for tools that may be called without asking the person. Tools are named as in the file, by words or patterns."""

    mode: ApprovalMode = "auto"
    """``ask``: the person decides about each call; ``auto``: all calls are allowed; ``deny``: none are."""
    allow: frozenset[str] = frozenset()
    """Tools that are always allowed, whatever the mode."""
    block: frozenset[str] = frozenset()
    """Tools that are never allowed."""
    line: int = field(default=0, metadata=written_as(None))

    @property
    def allows_all(self) -> bool:
        """True if they deny nothing and ask about nothing."""
        return self.mode == "auto" and not self.block

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The equivalent list of permission rules."""
        denied = [Rule("deny", name) for word in sorted(self.block) for name in _names_of(word)]
        allowed = [Rule("allow", name) for word in sorted(self.allow) for name in _names_of(word)]
        return (*denied, *allowed, Rule("allow" if self.mode == "auto" else self.mode, "*"))

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Names of the individual tools among them, without patterns."""
        return tuple([name for word in sorted(self.allow | self.block) if not WILDCARDS & {*(name := next(_names_of(word)))}])


def _names_of(word: str) -> Iterator[str]:
    """Yield the names that a model may use for the tools of a word, or a pattern for them; the gate sees only these names."""
    item = server_tools(word)
    if item is None:
        yield registry_name(word)
    elif not item.tool or WILDCARDS & set(item.tool):
        yield f"{wire_name(item.name, '')}{item.tool or '*'}"
    else:
        yield from (wire_name(item.name, item.tool), wire_name(item.name, item.tool, with_digest=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFile:
    """A complete task file."""

    tasks: tuple[Node, ...] = field(default=(), metadata=written_as(None))
    """In execution order, across blocks."""
    name: str = ""
    """Name of its runs; by default that of the file."""
    description: str = ""
    """Description for readers."""
    variables: Mapping[str, Any] = field(default_factory=dict, metadata=written_as("init"))
    """Initial values of variables from ``init`` and ``vars``; inputs override them."""
    inputs: tuple[str, ...] = field(default=(), metadata=written_as(None))
    """Names of additional inputs."""
    max_loop_iterations: int = DEFAULT_LOOPS
    """Maximum runs of a goto's target within one loop."""
    max_plan_iterations: int = DEFAULT_PLANS
    """Maximum plans of its planners together."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """``budget`` and ``max_seconds`` of the whole run."""
    approval: ApprovalRules = ApprovalRules()
    source: str = field(default="", metadata=written_as(None))
    """Path of its file."""
    text: str = field(default="", metadata=written_as(None))
    """Its YAML text."""
    warnings: tuple[Problem, ...] = field(default=(), metadata=written_as(None))
    """Probable mistakes."""

    @property
    def tool_names(self) -> tuple[str, ...]:
        """Unique tool names of its actions; some may be agentnb actions."""
        return tuple(dict.fromkeys(map(tool_of_word, self.actions)))

    @property
    def names_set(self) -> tuple[str, ...]:
        """Names of variables that its tasks set, and of those that always exist; null until set."""
        return (*ALWAYS_KNOWN, *(name for task in self.tasks for name in task.sets))

    @property
    def graph(self) -> Graph:
        """Its tasks as a graph, which runs walk and drawings show."""
        loops, plans = self.max_loop_iterations, self.max_plan_iterations
        return Graph(where="task file", nodes=self.tasks, max_loops=loops, max_plans=plans)

    @property
    def actions(self) -> list[str]:
        """Actions of its tasks and their ``onError``, as written."""
        return [call.name for _, call in self.graph.calls()]
