"""A workflow as a Mermaid flowchart, for GitHub, JupyterLab's Markdown and documentation."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from agentnb.core.step_retry import format_retries
from agentnb.workflow.graph.drawing import EXIT, Drawing, DrawnNode, Edge
from agentnb.workflow.graph.node_states import UNKNOWN, NodeState

MAX_WORDS = 60
"""Maximum characters of a condition, question or name in a node."""
CLASSES = {
    "running": "fill:#e3f2fd,stroke:#1976d2,color:#0d3c61",
    "waiting": "fill:#e3f2fd,stroke:#1976d2,color:#0d3c61,stroke-dasharray:4 2",
    "retrying": "fill:#fff3e0,stroke:#b26a00,color:#5f3900,stroke-dasharray:4 2",
    "completed": "fill:#e8f5e9,stroke:#388e3c,color:#1b4620",
    "failed": "fill:#ffebee,stroke:#d32f2f,color:#7a1717",
    "cancelled": "fill:#fff3e0,stroke:#b26a00,color:#5f3900",
    "interrupted": "fill:#fff3e0,stroke:#b26a00,color:#5f3900",
    "skipped": "fill:#f5f5f5,stroke:#9e9e9e,color:#424242,stroke-dasharray:4 2",
}
"""Node styles by state."""
_SHAPES = {"condition": ("{", "}"), "human": ("[/", "/]"), "map": ("[[", "]]"), "workflow": ("[[", "]]")}
_MARKUP = {letter: f"#{ord(letter)};" for letter in '#"<>`\\&%'}
"""Escapes, since Mermaid interprets directives (``%%{...}%%``) and formulas (``$$``) even in text."""


def mermaid(graph: Drawing, states: Mapping[str, NodeState] | None = None) -> str:
    """Return a workflow's graph as a Mermaid flowchart: parallel steps are subgraphs, loops are dotted edges.

    ``states`` (by step path, see `node_states`) colour the nodes and count the loops. Text from models and users is escaped.
    """
    return "\n".join(_Flowchart(graph, states or {}).lines()) + "\n"


class _Flowchart:
    """Lines of a flowchart. Nodes have numbers as names, because ids may be any text."""

    def __init__(self, graph: Drawing, states: Mapping[str, NodeState]) -> None:
        self._graph, self._states = graph, states
        self._names = {node.path: f"n{number}" for number, node in enumerate(graph.all_nodes)}
        self._names[EXIT] = "finish"
        self._has_end = any(edge.target == EXIT for edge in graph.edges if edge.labels)

    def lines(self) -> Iterator[str]:
        yield "flowchart TD"
        yield from self._level(self._graph, "    ")
        if self._has_end:
            yield "    finish([end])"
        for status, look in CLASSES.items():
            if members := [name for path, name in self._names.items() if self._states.get(path, UNKNOWN).status == status]:
                yield f"    classDef {status} {look}"
                yield f"    class {','.join(members)} {status}"

    def _level(self, graph: Drawing, margin: str) -> Iterator[str]:
        for node in graph.nodes:
            yield from self._node(node, margin)
        yield from (f"{margin}{self._edge(edge)}" for edge in graph.edges if edge.target != EXIT or self._has_end)

    def _node(self, node: DrawnNode, margin: str) -> Iterator[str]:
        name, words = self._names[node.path], self._words(node)
        if not node.children:
            opened, closed = _SHAPES.get(node.kind, ("[", "]"))
            yield f'{margin}{name}{opened}"{words}"{closed}'
            return
        yield f'{margin}subgraph {name}["{words}"]'
        for child in node.children:
            yield from self._level(child, f"{margin}    ")
        yield f"{margin}end"

    def _words(self, node: DrawnNode) -> str:
        lines = [node.id, f"{node.kind} {node.words}".strip() if node.words != node.id else node.kind]
        return "<br/>".join(escape(line) for line in [*lines, *_figures(node, self._states.get(node.path))])

    def _edge(self, edge: Edge) -> str:
        count = self._states.get(edge.source, UNKNOWN).loops.get(edge.target, 0) if edge.is_back else 0
        label = " ".join([*edge.labels, *([f"({count}x)"] if count else [])])
        arrow = "-.->" if edge.is_back else "-->"
        words = f'|"{escape(label)}"|' if label else ""
        return f"{self._names[edge.source]} {arrow}{words} {self._names[edge.target]}"


def escape(text: str) -> str:
    """Escape a text for use in a quoted label of a flowchart: one line, truncated, without markup."""
    line = " ".join("".join(letter if letter.isprintable() else " " for letter in text).split())
    short = line if len(line) <= MAX_WORDS else line[: MAX_WORDS - 1].rstrip() + "…"
    return "".join(_MARKUP.get(letter, letter) for letter in short).replace("$$", "#36;#36;")


def _figures(node: DrawnNode, state: NodeState | None) -> list[str]:
    if state is None:
        return [f"up to {format_retries(node.retries)}"] if node.retries else []
    lines = [f"ran {state.times} times"] if state.times > 1 else []
    lines += [f"{state.attempts} attempts, {format_retries(state.attempts - 1)}"] if state.attempts > 1 else []
    if state.items:
        lines.append(", ".join(f"{count} {status}" for status, count in state.items.items()))
    return lines
