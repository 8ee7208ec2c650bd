"""Folds large graphs: steps in a long list, or branches in a wide block, become single nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import NamedTuple

from agentnb.workflow.graph.drawing import EXIT, Drawing, DrawnNode
from agentnb.workflow.graph.node_states import NodeState

MAX_NODES = 24
"""Maximum steps drawn of a list; a longer one shows only the first, the last, and those in between that have other edges."""
ENDS = 6
"""Number of steps that are always drawn at each end of a long list."""
MAX_BRANCHES = 9
"""Maximum branches drawn for a parallel step."""
MAX_DEPTH = 3
"""Maximum levels of nested blocks drawn."""
FOLDED = "folded"
"""The kind of node that represents several steps."""
URGENT = ("waiting", "retrying", "failed", "interrupted", "cancelled", "running", "skipped", "completed")
"""States by priority: a node that represents several steps shows the first of these that occurs."""


class Folded(NamedTuple):
    """A graph small enough to draw."""

    graph: Drawing
    members: Mapping[str, tuple[str, ...]]
    """Paths of the steps that a folded node represents, by the node's path."""

    def states(self, states: Mapping[str, NodeState]) -> dict[str, NodeState]:
        """Return the states of the graph's nodes; a folded node counts the states of its steps."""
        result = dict(states)
        for path, members in self.members.items():
            counts = Counter(state.status for candidate in members if (state := states.get(candidate)) is not None)
            status = next((candidate for candidate in URGENT if counts[candidate]), "")
            result[path] = NodeState(status, 1, items=dict(counts))
        return result


def fold_graph(graph: Drawing) -> Folded:
    """Return the graph to draw."""
    members: dict[str, tuple[str, ...]] = {}
    return Folded(_fold(graph, 0, members), members)


def _fold(graph: Drawing, depth: int, members: dict[str, tuple[str, ...]]) -> Drawing:
    kept = _kept(graph)
    nodes: list[DrawnNode] = []
    shown_as = {EXIT: EXIT}
    for run in _runs(graph.nodes, kept):
        node = _inner(run[0], depth, members) if len(run) == 1 else _stand_in(run, "step", members)
        nodes.append(node)
        shown_as |= {member.path: node.path for member in run}
    edges = [
        replace(edge, source=shown_as[edge.source], target=shown_as[edge.target])
        for edge in graph.edges
        if shown_as[edge.source] != shown_as[edge.target] or edge.source == edge.target
    ]
    return Drawing.of(nodes, edges)


def _kept(graph: Drawing) -> set[str]:
    """Return the paths of the nodes drawn individually."""
    paths = [node.path for node in graph.nodes]
    if len(paths) <= MAX_NODES:
        return set(paths)
    kept = {*paths[:ENDS], *paths[-ENDS:]}
    room = MAX_NODES - len(kept)
    for edge in graph.edges:
        if edge.labels or edge.is_back:
            more = {edge.source, edge.target} - kept - {EXIT}
            if len(more) <= room:
                kept |= more
                room -= len(more)
    return kept


def _runs(nodes: Sequence[DrawnNode], kept: set[str]) -> Iterator[list[DrawnNode]]:
    """Yield each kept node on its own, and the nodes in between as groups."""
    for is_kept, group in groupby(nodes, lambda node: node.path in kept):
        run = [*group]
        yield from ([node] for node in run) if is_kept else [run]


def _inner(node: DrawnNode, depth: int, members: dict[str, tuple[str, ...]]) -> DrawnNode:
    """Return a node whose children have been folded."""
    if not node.children:
        return node
    if depth >= MAX_DEPTH:
        members[node.path] = tuple(inner_node.path for child in node.children for inner_node in child.all_nodes)
        return replace(node, words=f"{len(node.children):,} branches", children=())
    shown = node.children if len(node.children) <= MAX_BRANCHES else node.children[: MAX_BRANCHES - 1]
    children = [_fold(child, depth + 1, members) for child in shown]
    remaining = [inner_node for child in node.children[len(shown) :] for inner_node in child.nodes]
    if remaining:
        children.append(Drawing((_stand_in(remaining, "branch", members),)))
    return replace(node, children=tuple(children))


def _stand_in(nodes: Sequence[DrawnNode], noun: str, members: dict[str, tuple[str, ...]]) -> DrawnNode:
    path = f"{nodes[0].path} … {nodes[-1].path}"
    members[path] = tuple(inner_node.path for node in nodes for inner_node in Drawing((node,)).all_nodes)
    plural = {"step": "steps", "branch": "branches"}[noun] if len(nodes) != 1 else noun
    return DrawnNode(path, f"{len(nodes):,} {plural}", FOLDED, f"{nodes[0].id} to {nodes[-1].id}")
