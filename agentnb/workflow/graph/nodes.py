"""A graph of steps: what is walked when a workflow or a task file runs, and what is drawn of it.

Each form has one compiler from its text to these values. What one form does otherwise than another is data of its
nodes and jumps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from agentnb.core.step_retry import ONCE, Retry
from agentnb.runtime.steps.side_by_side import Mode
from agentnb.workflow.form.spec import AT_ONCE, DEFAULT_LOOPS, AgentStep, HumanStep, OnError, WorkflowStep, written_as

HANDLER = ".onError"
"""The ending of the path of what handles the failure of a node."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """Where to continue, other than with the next node."""

    to: str = field(metadata=written_as("task"))
    """The name of a task or a block, or ``end``."""
    when: str | None = None
    """An expression; None for always."""
    place: int = field(default=-1, metadata=written_as(None))
    """The place in the top-level list; that after the last one is the end, one below 0 does not exist."""
    reason: str = field(default="", metadata=written_as(None))
    """The reason that the log gives."""
    is_logged: bool = field(default=True, metadata=written_as(None))
    line: int = field(default=0, metadata=written_as(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Await:
    """How long several tasks are waited for, and what their results are together."""

    mode: Mode = "all"
    """``all``: until all have ended, and if one has failed that is a failure. ``first``: until one has ended, well or not.
    ``anyError``: like ``all``, but a failure ends it at once. Those that are still running then are cancelled."""
    on: tuple[str, ...] = ()
    """The tasks in the background that are waited for; without any, all that run."""
    merge: Literal["append", "replace"] = "append"
    """``append``: the list of the results, in the order of the tasks; ``replace``: the result of the last one to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """Calls an action or a tool."""

    name: str = field(metadata=written_as("action"))
    """``service:method``: an action of agentnb, or the tool ``service_method``."""
    args: Mapping[str, Any] = field(default_factory=dict, metadata=written_as("input"))
    """Plain data; its texts may hold ``${...}``. A text that is exactly one expression keeps the type of its value."""
    parses: bool = field(default=False, metadata=written_as(None))
    """Whether a text that is a JSON object or list as a whole is read as that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Each:
    """Does one node for each item of a list, some of them at the same time."""

    over: Any = field(metadata=written_as("forEach"))
    """A text with an expression whose value is a list, or the list."""
    item_name: str = field(default="", metadata=written_as("as"))
    """The variable that the task reads the item from."""
    node: Node = field(metadata=written_as("task"))
    most: int | None = field(default=AT_ONCE, metadata=written_as(None))
    """How many at the same time; None for all."""
    wait: Await | None = field(default=None, metadata=written_as("await"))
    """None: the first failure cancels the others, and it has no result of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Together:
    """Does nodes at the same time, and ends when all have; the first failure cancels the others."""

    nodes: tuple[Node, ...]
    most: int | None = None

    @property
    def names(self) -> list[str]:
        """The ids of the nodes that have an output in it: its own, and those in the branches of its conditions."""
        return [name for node in self.nodes for name in (node.does.names if isinstance(node.does, Decide) else (node.id,))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Decide:
    """Does the nodes of one of two branches."""

    condition: str
    branches: Mapping[str, tuple[Node, ...]]
    """By ``true`` and ``false``."""
    names: tuple[str, ...]
    """The ids of the node that decides and of all in its branches: within a block these may read each other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A step in its place: what it does, on which terms, and what follows."""

    kind: str = field(default="task", metadata=written_as(None))
    """The word for it in the log; empty for a jump alone, which leaves no step there."""
    id: str = field(metadata=written_as(None))
    path: str = field(metadata=written_as(None))
    """The ids of the blocks around it and its own, joined with ``/``."""
    line: int = field(default=0, metadata=written_as(None))
    does: Any = field(default=None, metadata=written_as(None))
    """One of the values above, or a step of a workflow that an agent, a person or another file does; None for nothing."""
    early: int = field(default=0, metadata=written_as(None))
    """How many of the nodes after it in its list are done before it, as it reads them."""
    when: str | None = None
    """An expression: if it is false, the task is skipped, with its ``post`` and its ``goto``."""
    post: Mapping[str, Any] = field(default_factory=dict)
    """Variables that are set when the action has ended, in this order. Their texts see the fields of its result first."""
    jumps: tuple[Jump, ...] = field(default=(), metadata=written_as("goto"))
    """The first whose condition holds is taken, after ``post``."""
    rescue: Jump | None = field(default=None, metadata=written_as(None))
    """The one that is taken if it has failed."""
    handler: Node | None = field(default=None, metadata=written_as("onError"))
    """What is done once when the task fails, before the run goes on."""
    abort: bool = False
    """Whether the run ends when the task has failed."""
    after: tuple[str, ...] = field(default=(), metadata=written_as("dependsOn"))
    """Tasks, or blocks, that must have ended before it begins, as far as they have begun."""
    is_beside: bool = field(default=False, metadata=written_as("async"))
    """Whether the next task begins without waiting for it."""
    retry: Retry = ONCE
    timeout: float | None = field(default=None, metadata=written_as(None))
    """Seconds that one attempt may take."""
    on_error: OnError = field(default=OnError(), metadata=written_as(None))

    @property
    def words(self) -> str:
        """What it works with, as it was declared."""
        if isinstance(self.does, Each):
            inner = self.does.node
            return inner.words if inner.kind == "task" else f"{inner.kind} {inner.words}".strip()
        return str(getattr(self.does, _WORDS.get(type(self.does), ""), ""))


_WORDS = {Call: "name", Decide: "condition", AgentStep: "agent", HumanStep: "ask", WorkflowStep: "file"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Graph:
    """The nodes of a whole workflow or task file."""

    where: str = field(metadata=written_as(None))
    """The place that an error of the run itself names."""
    nodes: tuple[Node, ...] = ()
    """The top-level list, in the order in which it is walked."""
    max_loops: int = DEFAULT_LOOPS
    """How often a node may run within one loop."""
    max_plans: int = 0
    """How many plans its planners may make together."""
    output: tuple[str, ...] = ()
    """What the run gives: see `agentnb.workflow.form.spec.WorkflowSpec`."""

    def calls(self) -> Iterator[tuple[Node, Call]]:
        """Yield the calls of its nodes and of what handles their failures, each with its node."""
        for top in self.nodes:
            for node in (top, top.does.node) if isinstance(top.does, Each) else (top,):
                for one in (node, node.handler):
                    if one is not None and isinstance(one.does, Call):
                        yield one, one.does
