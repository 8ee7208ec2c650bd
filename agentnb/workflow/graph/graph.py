"""A workflow as a graph: which step may follow which. Pictures are drawn from it, and Mermaid."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from agentnb.errors import ExpressionError
from agentnb.workflow.form.spec import (
    END,
    AgentStep,
    ConditionStep,
    GotoStep,
    HumanStep,
    MapStep,
    ParallelStep,
    Step,
    StepSpec,
    ToolStep,
    WorkflowSpec,
    WorkflowStep,
)
from agentnb.workflow.templates.deferral import deferred

EXIT = ""
"""The path that stands for the end of the workflow."""
ON_ERROR = "on error"
"""The label of the edge that is followed when a step has failed."""

_WORDS: Mapping[type[StepSpec], str] = {
    AgentStep: "agent",
    ToolStep: "tool",
    ConditionStep: "condition",
    HumanStep: "ask",
    WorkflowStep: "file",
}


class Choice(NamedTuple):
    """A choice that a step may log: the step, and where it continues."""

    step: str
    to: str


@dataclass(frozen=True, slots=True)
class Edge:
    """A way from one step to another; both are paths, `EXIT` is the end of the workflow."""

    source: str
    target: str
    labels: tuple[str, ...] = ()
    """``true``, ``false``, `ON_ERROR`; empty where the next step simply follows."""
    is_back: bool = False
    """Whether it leads to a step that is declared before its source, or to the source itself: a loop."""
    choices: frozenset[Choice] = frozenset()
    """The choices that mean that it was followed; empty if none is logged."""


@dataclass(frozen=True, slots=True)
class Node:
    """A step. Gotos are edges, and the steps in the branches of a condition are nodes beside it."""

    path: str
    id: str
    kind: str
    words: str = ""
    """What it works with, as it was declared: the agent, the tool, the condition, the question."""
    children: tuple[Graph, ...] = ()
    """The branches of a parallel step."""
    is_map: bool = False
    """Whether it stands for all items of a list."""


@dataclass(frozen=True, slots=True)
class Graph:
    """Steps of one list, with those in the branches of its conditions, in the order in which they are declared."""

    nodes: tuple[Node, ...] = ()
    edges: tuple[Edge, ...] = ()

    @property
    def all_nodes(self) -> Iterator[Node]:
        """The nodes, each followed by those inside it."""
        waiting = list(reversed(self.nodes))
        while waiting:
            node = waiting.pop()
            yield node
            waiting += [each for child in reversed(node.children) for each in reversed(child.nodes)]


def graph_of(spec: WorkflowSpec) -> Graph:
    """Return the graph of a workflow. Gotos whose target does not exist are left out."""
    return _Builder(spec).graph()


def words_of(step: Step) -> str:
    """Return what a step works with, as it was declared; empty if its kind says all."""
    if isinstance(step, MapStep):
        return f"{step.step.kind} {words_of(step.step)}".strip()
    name = _WORDS.get(type(step))
    return str(getattr(step, name)) if name else ""


class _Exit(NamedTuple):
    """An edge whose target is not known yet: that of the step that comes next."""

    source: str
    label: str = ""
    choices: frozenset[Choice] = frozenset()


@dataclass(slots=True)
class _Level:
    """The nodes and edges of one graph while it is built."""

    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    places: dict[str, int] = field(default_factory=dict)
    """The place of each node among those of this level."""

    def add(self, node: Node) -> None:
        self.places[node.path] = len(self.nodes)
        self.nodes.append(node)

    def connect(self, exits: Sequence[_Exit], target: str) -> None:
        self.edges += [Edge(one.source, target, (one.label,) if one.label else (), choices=one.choices) for one in exits]

    def graph(self) -> Graph:
        """Return the graph; edges between the same steps are one edge."""
        found: dict[tuple[str, str], Edge] = {}
        for edge in self.edges:
            if edge.target != EXIT and edge.target not in self.places:
                continue
            before = found.get((edge.source, edge.target))
            is_back = edge.target != EXIT and self.places[edge.target] <= self.places[edge.source]
            labels, choices = edge.labels, edge.choices
            if before is not None:
                labels = tuple(dict.fromkeys((*before.labels, *labels)))
                choices |= before.choices
            found[edge.source, edge.target] = Edge(edge.source, edge.target, labels, is_back, choices)
        return Graph(tuple(self.nodes), tuple(found.values()))


def _deferred(steps: Sequence[Step]) -> Mapping[str, int]:
    """Return by how many steps conditions are deferred; by none if one of them cannot be read."""
    try:
        return deferred(steps)
    except ExpressionError:
        return {}


class _Builder:
    """Builds the graph of a workflow."""

    def __init__(self, spec: WorkflowSpec) -> None:
        self._steps = spec.steps
        self._deferred = _deferred(spec.steps)
        self._by_id: Mapping[str, int] = {step.id: place for place, step in reversed([*enumerate(spec.steps)])}

    def graph(self) -> Graph:
        level = _Level()
        level.connect(self._sequence(level, self._steps, []), EXIT)
        return level.graph()

    def _branch(self, step: Step) -> Graph:
        """Return the graph of a branch of a block; where it ends, the block waits for the others."""
        level = _Level()
        self._sequence(level, [step], [])
        level.edges = [edge for edge in level.edges if edge.target != EXIT]
        return level.graph()

    def _sequence(self, level: _Level, steps: Sequence[Step], exits: list[_Exit]) -> list[_Exit]:
        """Add steps that follow one another; ``exits`` lead to the first. Return those that lead from the last."""
        for step in self._as_run(steps):
            if isinstance(step, GotoStep):
                target = self._target(step.target)
                if target is not None:
                    level.connect([self._jumping(one, step) for one in exits], target)
                exits = []
                continue
            level.connect(exits, step.path)
            exits = self._step(level, step)
            if step.end:
                level.connect(exits, EXIT)
                exits = []
        return exits

    def _as_run(self, steps: Sequence[Step]) -> Iterator[Step]:
        """Yield steps in the order in which they run: a condition after the steps below it that it reads."""
        early: set[int] = set()
        for place, step in enumerate(steps):
            later = range(place + 1, min(place + 1 + self._deferred.get(step.path, 0), len(steps)))
            order = [one for one in (*later, place) if one not in early]
            early |= {one for one in order if one != place}
            yield from (steps[one] for one in order)

    def _jumping(self, way: _Exit, step: GotoStep) -> _Exit:
        """Return an exit as one that goes on at the target of a goto: either step may log it."""
        jumps = frozenset(Choice(path, to) for path in (step.path, step.id, way.source) for to in self._names(step.target))
        return way._replace(choices=way.choices | jumps)

    def _step(self, level: _Level, step: Step) -> list[_Exit]:
        children = tuple(self._branch(one) for one in step.steps) if isinstance(step, ParallelStep) else ()
        level.add(Node(step.path, step.id, step.kind, words_of(step), children, isinstance(step, MapStep)))
        self._failing(level, step)
        if not isinstance(step, ConditionStep):
            return [_Exit(step.path)]
        found: list[_Exit] = []
        for label, branch in (("true", step.true_), ("false", step.false_)):
            first = {branch[0].id, branch[0].path} if branch else set()
            choices = frozenset(Choice(step.path, to) for to in (label, f"{step.path}/{label}", *first))
            found += self._sequence(level, branch, [_Exit(step.path, label, choices)])
        return found

    def _failing(self, level: _Level, step: StepSpec) -> None:
        if step.on_error.goto is not None and (target := self._target(step.on_error.goto)) is not None:
            choices = frozenset(Choice(step.path, to) for to in self._names(step.on_error.goto))
            level.connect([_Exit(step.path, ON_ERROR, choices)], target)

    def _target(self, to: str | int) -> str | None:
        """Return the path of the step that a goto leads to, past further gotos; None if there is none."""
        seen: set[int] = set()
        while True:
            place = to if isinstance(to, int) else self._by_id.get(to)
            if place is None or not 0 <= place < len(self._steps) or place in seen:
                return EXIT if to == END else None
            step = self._steps[place]
            if not isinstance(step, GotoStep):
                return step.path
            seen.add(place)
            to = step.target

    def _names(self, to: str | int) -> list[str]:
        """Return the names under which the target of a goto may be logged."""
        target = self._target(to)
        return list(dict.fromkeys([str(to), *([target] if target else [])]))
