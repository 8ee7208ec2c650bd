"""A workflow's graph as HTML: positioned boxes and lines, coloured by state.

In untrusted notebooks, JupyterLab drops SVG and leaves only its text, but keeps positioned boxes. If styles are dropped as
well, the boxes become a list of steps with their states, and edge labels name the targets.
"""

from __future__ import annotations

from collections.abc import Mapping

from agentnb.core.step_retry import format_retries
from agentnb.display.css import wrap_output
from agentnb.display.graph.graph_folding import Folded, fold_graph
from agentnb.display.graph.graph_layout import Box, Plan, Wire, label_of, lay_out
from agentnb.display.markup import NOTHING, Html, join_html, tag
from agentnb.display.parts.step_list import mark_html, row_of_node, state_html
from agentnb.display.texts.labels import first_line, pluralize, times
from agentnb.display.texts.step_labels import TONES, about
from agentnb.workflow.files.declared_files import WorkflowDefinition, drawing_of
from agentnb.workflow.graph.drawing import EXIT, Drawing
from agentnb.workflow.graph.node_states import UNKNOWN, NodeState

SHAPES = {"condition": "graph-condition", "map": "graph-many", "folded": "graph-many"}
"""Shapes of nodes that are not plain boxes, by kind."""
GREY = "#808080"
"""The colour of lines, with a contrast of 3 on both light and dark backgrounds."""
MAX_UNSCALED_WIDTH = 480
"""Width in pixels above which a graph is scaled down to fit a narrow window."""


class GraphPicture:
    """A workflow's graph, laid out once and coloured by `html`."""

    def __init__(self, graph: Drawing) -> None:
        self._folded: Folded = fold_graph(graph)
        self._plan: Plan = lay_out(self._folded.graph)
        self._ids = {node.path: node.id for node in self._folded.graph.all_nodes} | {EXIT: "end"}

    def html(self, states: Mapping[str, NodeState] | None = None) -> Html:
        """Return the graph without inlined class styles. ``states``: by path; if omitted, no step has started."""
        shown = self._folded.states(states or {})
        plan = self._plan
        lines = [_lines(wire) for wire in plan.wires]
        labels: dict[str, list[Html]] = {}
        for wire in plan.wires:
            labels.setdefault(wire.edge.source, []).append(self._label(wire, shown))
        nodes: list[Html] = []
        for box in plan.boxes:
            nodes += [_node(box, shown.get(box.node.path, UNKNOWN)), *labels.get(box.node.path, ())]
        size = f"height:{_px(plan.height)};width:{_px(plan.width)}"
        inner = Html(f'<div style="{size};position:relative;margin:0 auto">{join_html(*lines, *nodes)}</div>')
        look = "graph-plan graph-wide" if plan.width > MAX_UNSCALED_WIDTH else "graph-plan"
        steps = sum(1 for node in self._folded.graph.all_nodes)
        name = f"Graph of the workflow: {pluralize(steps, 'step')}"
        return tag("div", "graph", tag("div", look, inner), tabindex="0", role="group", aria_label=name)

    def _label(self, wire: Wire, states: Mapping[str, NodeState]) -> Html:
        edge = wire.edge
        count = states.get(edge.source, UNKNOWN).loops.get(edge.target, 0)
        words = label_of(edge, count)
        leads = f" leads to {self._ids.get(edge.target, edge.target)}" + (f", followed {times(count)}" if count else "")
        destination = tag("span", "unseen", leads)
        x, y = wire.label_at
        return _place(x, y, tag("div", "graph-label", words, destination))


def graph_html(spec: WorkflowDefinition, states: Mapping[str, NodeState] | None = None) -> Html:
    """Return a workflow's graph as a cell output, coloured by the steps' states (by path) if these are passed."""
    return wrap_output(tag("div", "run", GraphPicture(drawing_of(spec)).html(states)))


def _node(box: Box, state: NodeState) -> Html:
    node = box.node
    if node.path == EXIT:
        return _place(box.left, box.top, tag("div", "graph-end", "end"), box.width, box.height)
    row, is_block = row_of_node(node, state), bool(node.children)
    status = row.state or ""
    kind = "graph-block" if is_block else f"graph-node {SHAPES.get(node.kind, '')}".strip()
    mark, state_word = mark_html(status), state_html(status)
    name = tag("span", "graph-block-name" if is_block else "graph-name", row.name)
    words_html = tag("span", "graph-words", row.words)
    figures = tag("span", "graph-figures", row.figures) if row.figures else NOTHING
    if is_block:
        inner = tag("div", "graph-line", mark, " ", name, " ", words_html, " ", figures, " ", state_word)
    else:
        first = tag("div", "graph-line", mark, " ", name, " ", state_word)
        inner = join_html(first, tag("div", "graph-line", words_html, " ", figures))
    retries = f"up to {format_retries(node.retries)}" if node.retries else ""
    title = ": ".join(filter(None, [first_line(node.id, 100), about(node), retries, first_line(state.error, 300)]))
    tone = TONES.get(status, "")
    frame = f"graph-frame-{tone or status}" if tone or status == "skipped" else ""
    tint = f"graph-{tone}" if tone and not is_block else ""
    kinds = " ".join(filter(None, (kind, frame, tint)))
    return _place(box.left, box.top, tag("div", kinds, inner, title=title), box.width, box.height)


def _place(left: float, top: float, content: Html, width: float | None = None, height: float | None = None) -> Html:
    size = "" if width is None or height is None else f";width:{_px(width)};height:{_px(height)}"
    return Html(f'<div style="position:absolute;left:{_px(left)};top:{_px(top)}{size}">{content}</div>')


def _lines(wire: Wire) -> Html:
    """Return an edge as straight lines with an arrowhead."""
    stroke = "dashed" if wire.edge.is_back else "solid"
    segments: list[str] = []
    for (x, y), (to_x, to_y) in zip(wire.corners, wire.corners[1:], strict=False):
        x_min, y_min = min(x, to_x), min(y, to_y)
        if abs(to_x - x) > abs(to_y - y):
            size = f"width:{_px(abs(to_x - x) + 1)};border-top:1px {stroke} {GREY}"
        else:
            size = f"height:{_px(abs(to_y - y) + 1)};border-left:1px {stroke} {GREY}"
        segments.append(f'<div style="position:absolute;left:{_px(x_min)};top:{_px(y_min)};{size}"></div>')
    return Html("".join([*segments, _head(wire)]))


def _head(wire: Wire) -> str:
    (before, above), (x, y) = wire.corners[-2:]
    if abs(x - before) > abs(y - above):  # horizontal
        is_left = x < before
        x_min, top = (x if is_left else x - 6), y - 3.5
        sides = (
            f"border-top:4px solid transparent;border-bottom:4px solid transparent;border-{'right' if is_left else 'left'}:6px"
        )
    else:
        x_min, top = x - 3.5, y - 6
        sides = "border-left:4px solid transparent;border-right:4px solid transparent;border-top:6px"
    position = f"position:absolute;left:{_px(x_min)};top:{_px(top)};width:0;height:0"
    return f'<div style="{position};{sides} solid {GREY}"></div>'


def _px(value: float) -> str:
    return f"{value:.4g}px" if value < 1_000 else f"{value:.0f}px"
