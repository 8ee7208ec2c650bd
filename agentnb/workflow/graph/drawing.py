"""The drawing of a graph: which node may follow which. Pictures are made of it, and Mermaid."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agentnb.workflow.graph.nodes import Decide, Each, Graph, Jump, Node, Together

EXIT = ""
"""The path that stands for the end of the workflow."""
CONDITIONAL = "when"
"""The label of a jump of a task that has a condition."""
ON_ERROR = "on error"
"""The label of the edge that is followed when a step has failed."""


class Choice(NamedTuple):
    """A choice that a step may log: the step, and where it continues."""

    step: str
    to: str


@dataclass(frozen=True, slots=True)
class Edge:
    """A way from one step to another; both are paths, `EXIT` is the end of the workflow."""

    source: str
    target: str = EXIT
    labels: tuple[str, ...] = ()
    """``true``, ``false``, `ON_ERROR`; empty where the next step simply follows."""
    is_back: bool = False
    """Whether it leads to a step that is declared before its source, or to the source itself: a loop."""
    choices: frozenset[Choice] = frozenset()
    """The choices that mean that it was followed; empty if none is logged."""


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A step. Gotos are edges, and the steps in the branches of a condition are nodes beside it."""

    path: str
    id: str
    kind: str
    words: str = ""
    """What it works with, as it was declared: the agent, the tool, the condition, the question."""
    children: tuple[Drawing, ...] = ()
    """The branches of a parallel step."""
    is_map: bool = False
    """Whether it stands for all items of a list."""
    retries: int = 0
    """How often it may be tried again."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """Steps of one list, with those in the branches of its conditions, in the order in which they are declared."""

    nodes: tuple[DrawnNode, ...] = ()
    edges: tuple[Edge, ...] = ()
    entry: str = EXIT
    """The path of the step that is done first."""
    idle: tuple[str, ...] = ()
    """The paths of the gotos that no step leads to."""

    @staticmethod
    def of(nodes: Sequence[DrawnNode], edges: Iterable[Edge]) -> Drawing:
        """Return the drawing of nodes and edges: edges between the same nodes are one, those to other nodes are left out."""
        places = {EXIT: len(nodes)} | {node.path: position for position, node in enumerate(nodes)}
        merged: dict[tuple[str, str], Edge] = {}
        for edge in edges:
            if edge.target in places:
                before = merged.get((edge.source, edge.target), edge)
                labels = tuple(dict.fromkeys((*before.labels, *edge.labels)))
                is_back = places[edge.target] <= places[edge.source]
                merged_edge = Edge(edge.source, edge.target, labels, is_back, before.choices | edge.choices)
                merged[edge.source, edge.target] = merged_edge
        return Drawing(tuple(nodes), tuple(merged.values()))

    @property
    def all_nodes(self) -> Iterator[DrawnNode]:
        """The nodes, each followed by those inside it."""
        for node in self.nodes:
            yield node
            for child in node.children:
                yield from child.all_nodes


def drawn(graph: Graph) -> Drawing:
    """Return the drawing of a graph. Jumps whose target does not exist are left out."""
    return _Builder(graph).drawing()


@dataclass(slots=True)
class _Level:
    """The nodes and edges of one drawing while it is built."""

    nodes: list[DrawnNode] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    """Gotos that no node continues with; another goto may lead there."""

    def connect(self, exits: Iterable[Edge], target: str) -> None:
        """Let exits, which are edges whose target is not known yet, lead to a node."""
        self.edges += [replace(edge, target=target) for edge in exits]


class _Builder:
    """Builds the drawing of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = graph.nodes
        self._places = {node.path: position for position, node in enumerate(graph.nodes)}
        self._led_to: set[str] = set()
        """The gotos that others lead to."""

    def drawing(self) -> Drawing:
        level = _Level()
        level.connect(self._sequence(level, self._nodes, []), EXIT)
        first = next(_as_walked(self._nodes), None)
        entry = self._target(self._nodes.index(first)) if first is not None else None
        idle = tuple([path for path in level.idle if path not in self._led_to])
        return replace(Drawing.of(level.nodes, level.edges), entry=entry or EXIT, idle=idle)

    def _branch(self, node: Node) -> Drawing:
        """Return the drawing of a branch of a block; where it ends, the block waits for the others."""
        level = _Level()
        self._sequence(level, [node], [])
        return Drawing.of(level.nodes, [edge for edge in level.edges if edge.target != EXIT])

    def _sequence(self, level: _Level, nodes: Sequence[Node], exits: list[Edge]) -> list[Edge]:
        """Add nodes that follow one another; ``exits`` lead to the first. Return those that lead from the last."""
        for node in _as_walked(nodes):
            if not node.kind:
                if not exits:
                    level.idle.append(node.path)
                self._jump(level, exits, node.jumps[0], node.path, node.id)
                exits = []
                continue
            level.connect(exits, node.path)
            exits = self._node(level, node)
        return exits

    def _node(self, level: _Level, node: Node) -> list[Edge]:
        does, exits = node.does, [Edge(node.path)]
        children = tuple(self._branch(child) for child in does.nodes) if isinstance(does, Together) else ()
        again = max(step.retry.max_attempts for step in (node, does.node if isinstance(does, Each) else node))
        level.nodes.append(DrawnNode(node.path, node.id, node.kind, node.words, children, isinstance(does, Each), again))
        if node.rescue is not None:
            self._jump(level, [Edge(node.path, labels=(ON_ERROR,))], node.rescue)
        if isinstance(does, Decide):
            exits = []
            for label, branch in does.branches.items():
                first = {branch[0].id, branch[0].path} if branch else set()
                choices = frozenset(Choice(node.path, to) for to in (label, f"{node.path}/{label}", *first))
                exits += self._sequence(level, branch, [Edge(node.path, labels=(label,), choices=choices)])
        for jump in node.jumps:
            if jump.place == self._places.get(node.path, -2) + 1:
                continue  # the next node
            if jump.when is not None:
                self._jump(level, [Edge(node.path, labels=(CONDITIONAL,))], jump)
                continue
            self._jump(level, exits, jump)
            exits = [Edge(node.path)] if node.when is not None or node.handler is not None else []
        return exits

    def _jump(self, level: _Level, exits: Iterable[Edge], jump: Jump, *names: str) -> None:
        """Let exits go on at the target of a jump. ``names``: of a node that is only that, which may log it too."""
        target = self._target(jump.place)
        if target is not None:
            for edge in exits:
                logged = frozenset(Choice(path, to) for path in (*names, edge.source) for to in (jump.to, target))
                level.connect([replace(edge, choices=edge.choices | logged)], target)

    def _target(self, position: int) -> str | None:
        """Return the path of the node that a jump leads to, past further jumps; None if there is none."""
        seen: set[int] = set()
        while 0 <= position < len(self._nodes) and position not in seen:
            node = self._nodes[position]
            if node.kind:
                return node.path
            seen.add(position)
            self._led_to.add(node.path)
            position = node.jumps[0].place
        return EXIT if position == len(self._nodes) else None


def _as_walked(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield nodes in the order in which they are walked: some after those below them that they read."""
    early: set[int] = set()
    for position, node in enumerate(nodes):
        later = range(position + 1, min(position + 1 + node.early, len(nodes)))
        order = [index for index in (*later, position) if index not in early]
        early |= {index for index in order if index != position}
        yield from (nodes[index] for index in order)
