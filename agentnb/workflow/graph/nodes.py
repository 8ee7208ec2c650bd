"""A graph of steps, which a run walks and drawings show.

Each file format has one compiler to these values; their differences are data of nodes and jumps.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Literal

import msgspec

from agentnb.runtime.steps.attempt import StepTerms
from agentnb.runtime.steps.side_by_side import Mode
from agentnb.workflow.defaults import DEFAULT_LOOPS, MAX_PARALLEL_ITEMS
from agentnb.workflow.form.workflow_spec import AgentStep, HumanStep, WorkflowStep

HANDLER = ".onError"
"""Path suffix of a node's failure handler."""


class Jump(msgspec.Struct, frozen=True, kw_only=True):
    """A transition to a node other than the next."""

    to: str
    """Name of a task or block, or ``end``."""
    when: str | None = None
    """An expression, or None for an unconditional jump."""
    place: int = -1
    """Index in the top-level list; the length of the list is the end, a negative index is an unknown target."""
    reason: str = ""
    """The logged reason."""
    is_logged: bool = True
    line: int = 0


class Await(msgspec.Struct, frozen=True, kw_only=True):
    """Settings for waiting for several tasks and merging their results."""

    mode: Mode = "all"
    """``all``: wait until all have ended; any failure is a failure of the wait. ``first``: wait until one has ended, in success
    or failure. ``anyError``: like ``all``, but end at the first failure. Tasks still running then are cancelled.
    """
    on: tuple[str, ...] = ()
    """Background tasks to wait for; empty for all running ones."""
    merge: Literal["append", "replace"] = "append"
    """``append``: the list of results in task order; ``replace``: the result of the last task to end."""


class Call(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Calls an action or a tool."""

    name: str
    """``service:method``: an action of agentnb, or the tool ``service_method``."""
    args: Mapping[str, Any] = {}
    """Plain data whose texts may contain ``${...}``. A text that is exactly one expression keeps the type of its value."""
    parses: bool = False
    """True if a text that is entirely a JSON object or array is parsed."""
    is_constant: bool = False
    """True if the arguments have no templates, objects or lists."""
    is_guarded: bool = False
    """True if equal calls are made once, repeats are blocked, and the person is asked for missing arguments."""


def is_constant(args: Mapping[str, Any], begins: str) -> bool:
    """True if the arguments have no objects or lists and no text with ``begins``, the start of an expression."""
    for value in args.values():  # noqa: SIM110  # for each step: `any` takes three times as long
        if type(value) not in _FLAT and (type(value) is not str or begins in value):
            return False
    return True


_FLAT = frozenset({int, float, bool, type(None)})


class Each(msgspec.Struct, frozen=True, kw_only=True):
    """Runs one node for each item of a list, with limited parallelism.

    Without ``wait``, the first failure cancels the others, and there is no merged result.
    """

    over: Any
    """A template whose value is a list, or the list itself."""
    item_name: str = ""
    """Variable with the item."""
    node: Node
    most: int | None = MAX_PARALLEL_ITEMS
    """Maximum parallel items, or None for no limit."""
    wait: Await | None = None


class Together(msgspec.Struct, frozen=True, kw_only=True):
    """Runs nodes in parallel until all have ended; the first failure cancels the others."""

    nodes: tuple[Node, ...]
    most: int | None = None

    @property
    def names(self) -> list[str]:
        """Ids of the nodes with an output: its own nodes and those in the branches of its conditions."""
        return [name for node in self.nodes for name in (node.does.names if isinstance(node.does, Decide) else (node.id,))]


class Decide(msgspec.Struct, frozen=True, kw_only=True):
    """Runs the nodes of one of two branches."""

    condition: str
    branches: Mapping[str, tuple[Node, ...]]
    """Nodes for ``true`` and for ``false``."""
    names: tuple[str, ...]
    """Ids of the condition and of all nodes in its branches, which may read one another within a block."""


class Node(StepTerms, frozen=True, kw_only=True, gc=False):
    """A step in a graph: its work, its terms, and its transitions."""

    kind: str = "task"
    """Log word for the kind of step; empty for a pure jump, which logs no step."""
    id: str
    path: str
    """Ids of the enclosing blocks and its own, joined with ``/``."""
    line: int = 0
    does: Any = None
    """Work: a value above, or a workflow step done by an agent, the person or another file. A node without work has None."""
    early: int = 0
    """Number of later siblings that run before it, because it reads them."""
    when: str | None = None
    """An expression; if false, the task is skipped, including its ``post`` and ``goto``."""
    post: Mapping[str, Any] = {}
    """Variables to set after the action, in this order. Their texts see the fields of its result first. ``name[]`` appends to
    the list ``name``.
    """
    jumps: tuple[Jump, ...] = ()
    """Transitions after ``post``; the first with a true condition is taken."""
    rescue: Jump | None = None
    """Transition after a failure."""
    handler: Node | None = None
    """Failure handler, run once before the run continues."""
    abort: bool = False
    """True if a failure of the task ends the run."""
    after: tuple[str, ...] = ()
    """Tasks or blocks that must have ended before it begins, provided that they have begun."""
    is_beside: bool = False
    """True if the next task begins without waiting for it."""

    @property
    def sets(self) -> list[str]:
        """Names of the variables that ``post`` sets."""
        return [name.removesuffix("[]") for name in self.post]

    @property
    def words(self) -> str:
        """Its agent, tool, condition or question, as declared."""
        if isinstance(self.does, Each):
            inner = self.does.node
            return inner.words if inner.kind == "task" else f"{inner.kind} {inner.words}".strip()
        return str(getattr(self.does, _WORDS.get(type(self.does), ""), ""))


_WORDS = {Call: "name", Decide: "condition", AgentStep: "agent", HumanStep: "ask", WorkflowStep: "file"}


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes of a workflow or task file."""

    where: str
    """Location named in errors of the run itself."""
    nodes: tuple[Node, ...] = ()
    """The top-level list, in execution order."""
    max_loops: int = DEFAULT_LOOPS
    """Maximum runs of a node within one loop."""
    max_plans: int = 0
    """Maximum plans of all its planners together."""
    handles_failure_at_once: bool = False
    """True if a failed step is handled before the next begins, as it may end the plan; otherwise after all steps."""
    output: tuple[str, ...] = ()
    """Result of the run: see `agentnb.workflow.form.workflow_spec.WorkflowSpec`."""

    def calls(self) -> Iterator[tuple[Node, Call]]:
        """Yield the calls of its nodes, of the nodes in them, and of failure handlers, each with its node."""
        for node in nodes_in(self.nodes):
            if isinstance(node.does, Call):
                yield node, node.does


def nodes_in(nodes: Iterable[Node]) -> Iterator[Node]:
    """Yield the nodes, each followed by the nodes in it and its failure handler."""
    for node in nodes:
        yield node
        does = node.does
        if isinstance(does, Each):
            yield from nodes_in((does.node,))
        elif isinstance(does, Together):
            yield from nodes_in(does.nodes)
        elif isinstance(does, Decide):
            yield from nodes_in(chain.from_iterable(does.branches.values()))
        if node.handler is not None:
            yield node.handler
