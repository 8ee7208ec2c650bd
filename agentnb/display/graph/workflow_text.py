"""A workflow as plain text: an outline of its steps, each marked with its state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agentnb.display.graph.graph_folding import fold_graph
from agentnb.display.parts.step_list import row_of_node, row_text
from agentnb.display.texts.labels import first_line, times
from agentnb.workflow.files.declared_files import WorkflowDefinition, drawing_of
from agentnb.workflow.graph.drawing import EXIT, Drawing, Edge
from agentnb.workflow.graph.node_states import UNKNOWN, NodeState


def graph_text(spec: WorkflowDefinition, states: Mapping[str, NodeState] | None = None) -> str:
    """Return a workflow as an outline, including its steps' states (by path) if these are passed."""
    return "\n".join(graph_lines(drawing_of(spec), states or {}))


def graph_lines(graph: Drawing, states: Mapping[str, NodeState]) -> Iterator[str]:
    """Yield a line for each step, and for each edge that does not lead to the next step."""
    small = fold_graph(graph)
    yield from _lines(small.graph, small.states(states), "")


def _lines(graph: Drawing, states: Mapping[str, NodeState], margin: str) -> Iterator[str]:
    edges: dict[str, list[Edge]] = {}
    for edge in graph.edges:
        edges.setdefault(edge.source, []).append(edge)
    names = {node.path: first_line(node.id, 60) for node in graph.nodes} | {EXIT: "end"}
    for index, node in enumerate(graph.nodes):
        state = states.get(node.path, UNKNOWN)
        yield f"{margin}{row_text(row_of_node(node, state))}"
        following = graph.nodes[index + 1].path if index + 1 < len(graph.nodes) else EXIT
        for edge in edges.get(node.path, ()):
            if edge.labels or edge.target != following:
                yield f"{margin}    {_way(edge, names, state)}"
        for child in node.children:
            yield from _lines(child, states, f"{margin}    ")


def _way(edge: Edge, names: Mapping[str, str], state: NodeState) -> str:
    arrow = "↑ back to" if edge.is_back else "→"
    count = state.loops.get(edge.target, 0)
    count_words = f", {times(count)}" if count and edge.is_back else ""
    return f"{' / '.join(edge.labels)} {arrow} {names[edge.target]}{count_words}".strip()
