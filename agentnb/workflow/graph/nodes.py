"""A graph of steps: what is walked when a workflow or a task file runs, and what is drawn of it.

Each form has one compiler from its text to these values. What one form does otherwise than another is data of its
nodes and jumps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from agentnb.runtime.steps.attempt import StepTerms
from agentnb.runtime.steps.side_by_side import Mode
from agentnb.workflow.defaults import AT_ONCE, DEFAULT_LOOPS
from agentnb.workflow.form.spec import AgentStep, HumanStep, WorkflowStep

HANDLER = ".onError"
"""The ending of the path of what handles the failure of a node."""


class Jump(msgspec.Struct, frozen=True, kw_only=True):
    """A way to another node than the next."""

    to: str
    """The name of a task or a block, or ``end``."""
    when: str | None = None
    """An expression; None for always."""
    place: int = -1
    """The place in the top-level list; that after the last one is the end, one below 0 does not exist."""
    reason: str = ""
    """The reason that the log gives."""
    is_logged: bool = True
    line: int = 0


class Await(msgspec.Struct, frozen=True, kw_only=True):
    """The terms on which several tasks are waited for, and the form of their results together."""

    mode: Mode = "all"
    """``all``: until all have ended, and if one has failed that is a failure. ``first``: until one has ended, well or not.
    ``anyError``: like ``all``, but a failure ends it at once. Those that are still running then are cancelled."""
    on: tuple[str, ...] = ()
    """The tasks in the background that are waited for; without any, all that run."""
    merge: Literal["append", "replace"] = "append"
    """``append``: the list of the results, in the order of the tasks; ``replace``: the result of the last one to end."""


class Call(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Calls an action or a tool."""

    name: str
    """``service:method``: an action of agentnb, or the tool ``service_method``."""
    args: Mapping[str, Any] = {}
    """Plain data; its texts may hold ``${...}``. A text that is exactly one expression keeps the type of its value."""
    parses: bool = False
    """Whether a text that is a JSON object or list as a whole is read as that."""
    is_constant: bool = False
    """Whether nothing in the arguments is filled in, and none is an object or a list."""
    is_guarded: bool = False
    """Whether equal calls are made once, repeats are blocked, and the person is asked for arguments that are missing."""


def is_constant(args: Mapping[str, Any], begins: str) -> bool:
    """Return whether arguments are no objects or lists, and no text in them has what ``begins`` an expression."""
    for value in args.values():  # noqa: SIM110  # for each step: `any` takes three times as long
        if type(value) not in _FLAT and (type(value) is not str or begins in value):
            return False
    return True


_FLAT = frozenset({int, float, bool, type(None)})


class Each(msgspec.Struct, frozen=True, kw_only=True):
    """Does one node for each item of a list, some of them at the same time.

    Without ``wait``, the first failure cancels the others, and it has no result of its own.
    """

    over: Any
    """A text with an expression whose value is a list, or the list."""
    item_name: str = ""
    """The variable that the task reads the item from."""
    node: Node
    most: int | None = AT_ONCE
    """Maximum at the same time; None for all."""
    wait: Await | None = None


class Together(msgspec.Struct, frozen=True, kw_only=True):
    """Does nodes at the same time, and ends when all have; the first failure cancels the others."""

    nodes: tuple[Node, ...]
    most: int | None = None

    @property
    def names(self) -> list[str]:
        """The ids of the nodes that have an output in it: its own, and those in the branches of its conditions."""
        return [name for node in self.nodes for name in (node.does.names if isinstance(node.does, Decide) else (node.id,))]


class Decide(msgspec.Struct, frozen=True, kw_only=True):
    """Does the nodes of one of two branches."""

    condition: str
    branches: Mapping[str, tuple[Node, ...]]
    """By ``true`` and ``false``."""
    names: tuple[str, ...]
    """The ids of the node that decides and of all in its branches: within a block these may read each other."""


class Node(StepTerms, frozen=True, kw_only=True, gc=False):
    """A step in its place: what it does, on which terms, and what follows."""

    kind: str = "task"
    """The word for it in the log; empty for a jump alone, which leaves no step there."""
    id: str
    path: str
    """The ids of the blocks around it and its own, joined with ``/``."""
    line: int = 0
    does: Any = None
    """One of the values above, or a step of a workflow that an agent, a person or another file does; None for nothing."""
    early: int = 0
    """How many of the nodes after it in its list are done before it, as it reads them."""
    when: str | None = None
    """An expression: if it is false, the task is skipped, with its ``post`` and its ``goto``."""
    post: Mapping[str, Any] = {}
    """Variables that are set when the action has ended, in this order. Their texts see the fields of its result first.
    ``name[]`` appends to the list ``name``."""
    jumps: tuple[Jump, ...] = ()
    """The first whose condition holds is taken, after ``post``."""
    rescue: Jump | None = None
    """The one that is taken if it has failed."""
    handler: Node | None = None
    """What is done once when the task fails, before the run goes on."""
    abort: bool = False
    """Whether the run ends when the task has failed."""
    after: tuple[str, ...] = ()
    """Tasks, or blocks, that must have ended before it begins, as far as they have begun."""
    is_beside: bool = False
    """Whether the next task begins without waiting for it."""

    @property
    def sets(self) -> list[str]:
        """The names of the variables that ``post`` sets."""
        return [name.removesuffix("[]") for name in self.post]

    @property
    def words(self) -> str:
        """What it works with, as it was declared."""
        if isinstance(self.does, Each):
            inner = self.does.node
            return inner.words if inner.kind == "task" else f"{inner.kind} {inner.words}".strip()
        return str(getattr(self.does, _WORDS.get(type(self.does), ""), ""))


_WORDS = {Call: "name", Decide: "condition", AgentStep: "agent", HumanStep: "ask", WorkflowStep: "file"}


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a whole workflow or task file."""

    where: str
    """The place that an error of the run itself names."""
    nodes: tuple[Node, ...] = ()
    """The top-level list, in the order in which it is walked."""
    max_loops: int = DEFAULT_LOOPS
    """Maximum runs of a node within one loop."""
    max_plans: int = 0
    """Maximum plans that its planners may make together."""
    output: tuple[str, ...] = ()
    """What the run gives: see `agentnb.workflow.form.spec.WorkflowSpec`."""

    def calls(self) -> Iterator[tuple[Node, Call]]:
        """Yield the calls of its nodes and of what handles their failures, each with its node."""
        for top in self.nodes:
            for node in (top, top.does.node) if isinstance(top.does, Each) else (top,):
                for owner in (node, node.handler):
                    if owner is not None and isinstance(owner.does, Call):
                        yield owner, owner.does
