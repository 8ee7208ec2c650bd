"""Drawing of a graph: its nodes and possible transitions, on which pictures and Mermaid charts are based."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agentnb.workflow.graph.nodes import Decide, Each, Graph, Jump, Node, Together

EXIT = ""
"""Path that represents the end of the workflow."""
CONDITIONAL = "when"
"""Edge label of a conditional jump of a task."""
ON_ERROR = "on error"
"""Label of the edge taken when a step fails."""


class Choice(NamedTuple):
    """A choice that can be logged: a step and its target."""

    step: str
    to: str


@dataclass(frozen=True, slots=True)
class Edge:
    """A transition between two steps, each identified by its path; `EXIT` is the end of the workflow."""

    source: str
    target: str = EXIT
    labels: tuple[str, ...] = ()
    """``true``, ``false``, `ON_ERROR`; empty for plain succession."""
    is_back: bool = False
    """True for a loop: the target is declared before the source, or is the source itself."""
    choices: frozenset[Choice] = frozenset()
    """Choices whose presence in the log shows that the edge was taken; empty if that is never logged."""


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A step in the drawing. Gotos are edges; steps in a condition's branches are siblings of the condition."""

    path: str
    id: str
    kind: str
    words: str = ""
    """Its agent, tool, condition or question, as declared."""
    children: tuple[Drawing, ...] = ()
    """The branches, for a parallel step."""
    is_map: bool = False
    """True if it represents all items of a list."""
    retries: int = 0
    """Maximum retries."""


@dataclass(frozen=True, slots=True)
class Drawing:
    """The steps of one list, including those in the branches of its conditions, in declared order."""

    nodes: tuple[DrawnNode, ...] = ()
    edges: tuple[Edge, ...] = ()
    entry: str = EXIT
    """Path of the first step."""
    idle: tuple[str, ...] = ()
    """Paths of gotos to which no step leads."""

    @staticmethod
    def of(nodes: Sequence[DrawnNode], edges: Iterable[Edge]) -> Drawing:
        """Build a drawing: merge edges between the same nodes, and drop edges to unknown nodes."""
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
        """All nodes, each followed by its descendants."""
        for node in self.nodes:
            yield node
            for child in node.children:
                yield from child.all_nodes


def draw(graph: Graph) -> Drawing:
    """Return the drawing of a graph. Jumps to unknown targets are omitted."""
    return _Builder(graph).drawing()


@dataclass(slots=True)
class _Level:
    """Nodes and edges of one drawing under construction."""

    nodes: list[DrawnNode] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    """Gotos without a predecessor; another goto may still lead to them."""

    def connect(self, exits: Iterable[Edge], target: str) -> None:
        """Connect exits, that is, edges that have no target yet, to a node."""
        self.edges += [replace(edge, target=target) for edge in exits]


class _Builder:
    """Builder of a graph's drawing."""

    def __init__(self, graph: Graph) -> None:
        self._nodes = graph.nodes
        self._places = {node.path: position for position, node in enumerate(graph.nodes)}
        self._led_to: set[str] = set()
        """Gotos reached from other gotos."""

    def drawing(self) -> Drawing:
        level = _Level()
        level.connect(self._sequence(level, self._nodes, []), EXIT)
        first = next(_as_walked(self._nodes), None)
        entry = self._target(self._nodes.index(first)) if first is not None else None
        idle = tuple([path for path in level.idle if path not in self._led_to])
        return replace(Drawing.of(level.nodes, level.edges), entry=entry or EXIT, idle=idle)

    def _branch(self, node: Node) -> Drawing:
        """Return the drawing of a block's branch, without its exits, because the block waits for all branches."""
        level = _Level()
        self._sequence(level, [node], [])
        return Drawing.of(level.nodes, [edge for edge in level.edges if edge.target != EXIT])

    def _sequence(self, level: _Level, nodes: Sequence[Node], exits: list[Edge]) -> list[Edge]:
        """Add nodes in sequence; ``exits`` lead to the first. Return the exits of the last."""
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
        """Connect exits to a jump's target. ``names``: the path and id of a pure goto node, which may also log the jump."""
        target = self._target(jump.place)
        if target is not None:
            for edge in exits:
                logged = frozenset(Choice(path, to) for path in (*names, edge.source) for to in (jump.to, target))
                level.connect([replace(edge, choices=edge.choices | logged)], target)

    def _target(self, position: int) -> str | None:
        """Return the path of the node that a jump finally reaches, following further jumps, or None if it has no target."""
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
    """Yield the nodes in execution order: a node that reads later siblings comes after them."""
    early: set[int] = set()
    for position, node in enumerate(nodes):
        later = range(position + 1, min(position + 1 + node.early, len(nodes)))
        order = [index for index in (*later, position) if index not in early]
        early |= {index for index in order if index != position}
        yield from (nodes[index] for index in order)
