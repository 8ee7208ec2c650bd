"""What a task file is made of, as it was declared: these classes are the schema of the form.

Texts are as written: `agentnb.workflow.templates.templates` knows what ``${plan.steps}`` means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agentnb.policies.permissions.rules import Rule
from agentnb.tools.mcp.server import server_tools
from agentnb.tools.mcp.wire_names import WILDCARDS, registry_name, tool_of_word, wire_name
from agentnb.workflow.defaults import DEFAULT_LOOPS, DEFAULT_PLANS
from agentnb.workflow.form.problems import Problem
from agentnb.workflow.form.spec import written_as
from agentnb.workflow.graph.nodes import Graph, Node

ALWAYS_KNOWN = ("query", "context", "model", "tools", "results", "transcript", "promptTemplate", "guard")
"""Variables that every task file has; null unless they are passed or set."""
ApprovalMode = Literal["ask", "auto", "deny"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalRules:
    """Which tools may be called without asking the person. Tools are named as in the file, by words or patterns."""

    mode: ApprovalMode = "auto"
    """``ask``: the person decides about each call; ``auto``: all may be called; ``deny``: none."""
    allow: frozenset[str] = frozenset()
    """Tools that may be called whatever the mode."""
    block: frozenset[str] = frozenset()
    """Tools that may never be called."""
    line: int = field(default=0, metadata=written_as(None))

    @property
    def allows_all(self) -> bool:
        """Whether they deny nothing and ask about nothing."""
        return self.mode == "auto" and not self.block

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The list that says of each tool whether it may be called."""
        denied = [Rule("deny", name) for word in sorted(self.block) for name in _names_of(word)]
        allowed = [Rule("allow", name) for word in sorted(self.allow) for name in _names_of(word)]
        return (*denied, *allowed, Rule("allow" if self.mode == "auto" else self.mode, "*"))

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the single tools among them."""
        return tuple([name for word in sorted(self.allow | self.block) if not WILDCARDS & {*(name := next(_names_of(word)))}])


def _names_of(word: str) -> Iterator[str]:
    """Yield the names for models that a word for tools may mean, or a pattern of them: the gate sees names alone."""
    item = server_tools(word)
    if item is None:
        yield registry_name(word)
    elif not item.tool or WILDCARDS & set(item.tool):
        yield f"{wire_name(item.name, '')}{item.tool or '*'}"
    else:
        yield from (wire_name(item.name, item.tool), wire_name(item.name, item.tool, with_digest=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskFile:
    """A whole task file."""

    tasks: tuple[Node, ...] = field(default=(), metadata=written_as(None))
    """In the order in which they run, whatever the blocks around them."""
    name: str = ""
    """What its runs are called; by default after the file."""
    description: str = ""
    """For people."""
    variables: Mapping[str, Any] = field(default_factory=dict, metadata=written_as("init"))
    """What ``init`` and ``vars`` say: the values that variables begin with, unless they are passed."""
    inputs: tuple[str, ...] = field(default=(), metadata=written_as(None))
    """Names of what is passed besides."""
    max_loop_iterations: int = DEFAULT_LOOPS
    """Maximum runs of the target of a goto within one loop."""
    max_plan_iterations: int = DEFAULT_PLANS
    """Maximum plans that its planners may make together."""
    limits: Mapping[str, Any] = field(default_factory=dict)
    """``budget`` and ``max_seconds`` of the whole run."""
    approval: ApprovalRules = ApprovalRules()
    source: str = field(default="", metadata=written_as(None))
    """The file that it was read from."""
    text: str = field(default="", metadata=written_as(None))
    """The YAML."""
    warnings: tuple[Problem, ...] = field(default=(), metadata=written_as(None))
    """What is probably not meant."""

    @property
    def tool_names(self) -> tuple[str, ...]:
        """The names of the tools that its actions stand for, each once; some may be actions of agentnb."""
        return tuple(dict.fromkeys(map(tool_of_word, self.actions)))

    @property
    def names_set(self) -> tuple[str, ...]:
        """The names of variables that its tasks set, and of those that are always known: null until a task has set them."""
        return (*ALWAYS_KNOWN, *(name for task in self.tasks for name in task.sets))

    @property
    def graph(self) -> Graph:
        """Its tasks as what is walked and drawn."""
        loops, plans = self.max_loop_iterations, self.max_plan_iterations
        return Graph(where="task file", nodes=self.tasks, max_loops=loops, max_plans=plans)

    @property
    def actions(self) -> list[str]:
        """The actions of its tasks and of their ``onError``, as they are written."""
        return [call.name for _, call in self.graph.calls()]
