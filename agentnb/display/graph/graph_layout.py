"""Lays out a workflow's graph: the positions of its nodes and edges, in pixels.

The order of the nodes and their columns come from fast-sugiyama, a library for layered graphs; this module adds the sizes of
nodes and routes the edges between layers. Blocks are laid out separately, as large nodes around their contents.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from agentnb.display.graph.graph_tracks import Bar, Gap
from agentnb.display.texts.labels import times
from agentnb.workflow.graph.drawing import EXIT, Drawing, DrawnNode, Edge

WIDTH, HEIGHT = 190, 46
"""Size of a node."""
EXIT_WIDTH, EXIT_HEIGHT = 52, 22
NODE_GAP = 12
"""Pixels between adjacent nodes."""
WIRE_WIDTH = 26
"""Width of an edge that passes between nodes."""
MAX_ROW = 640
"""Width at which the branches of a parallel step wrap to another row; fits a card 700 pixels wide."""
TITLE, PADDING = 26, 10
"""Height of a block's title, and padding around the block's contents."""
LOOP_OFFSET = 7
"""Distance from the middle of a node's side to where loops leave and enter."""
LOOP_GAP = 14
"""Pixels between adjacent loops."""
LETTER_WIDTH = 6.2
"""Width of a letter in an edge's label."""
LEFT, RIGHT = -1, 1
_ROOT = 0


class Box(NamedTuple):
    """A node with its position."""

    node: DrawnNode
    left: float
    top: float
    width: float
    height: float

    @property
    def middle(self) -> float:
        """The x coordinate of the box's middle."""
        return self.left + self.width / 2

    @property
    def right(self) -> float:
        """The x coordinate of the box's right side."""
        return self.left + self.width

    @property
    def bottom(self) -> float:
        """The y coordinate of the box's lower side."""
        return self.top + self.height

    def edge(self, side: int) -> float:
        """Return the x coordinate of the box's left or right side."""
        return self.left if side == LEFT else self.right


class Wire(NamedTuple):
    """An edge with its position: its corners, ending at the arrowhead, and the place of its label."""

    edge: Edge
    corners: tuple[tuple[float, float], ...]
    label_at: tuple[float, float]


@dataclass(slots=True)
class Plan:
    """A graph with the positions of its parts."""

    boxes: list[Box] = field(default_factory=list)
    """Blocks precede their contents."""
    wires: list[Wire] = field(default_factory=list)
    width: float = 0
    height: float = 0

    def add(self, inner: Plan, left: float, top: float) -> None:
        """Add the laid-out contents of a block."""
        self.boxes += [box._replace(left=box.left + left, top=box.top + top) for box in inner.boxes]
        for wire in inner.wires:
            corners = tuple((x + left, y + top) for x, y in wire.corners)
            self.wires.append(Wire(wire.edge, corners, (wire.label_at[0] + left, wire.label_at[1] + top)))


def lay_out(graph: Drawing) -> Plan:
    """Lay out a graph. Fold it first: layout time grows faster than the graph's size."""
    return _Level(graph).plan()


def label_of(edge: Edge, count: int = 0) -> str:
    """Return the label of an edge; for a loop, including its number of iterations."""
    return ", ".join([*([" / ".join(edge.labels)] if edge.labels else []), *([times(count)] if edge.is_back and count else [])])


class _Inside(NamedTuple):
    """The laid-out contents of a node, and the node's size."""

    plan: Plan | None
    width: float
    height: float


def _inside(node: DrawnNode) -> _Inside:
    """Lay out the branches of a block side by side, in rows."""
    if not node.children:
        return _Inside(None, WIDTH, HEIGHT)
    plan = Plan()
    x, top, row = float(PADDING), float(TITLE), 0.0
    for child in map(lay_out, node.children):
        if x > PADDING and x + child.width > MAX_ROW:
            x, top, row = float(PADDING), top + row + NODE_GAP, 0.0
        plan.add(child, x, top)
        x += child.width
        plan.width = max(plan.width, x + PADDING)
        x, row = x + NODE_GAP, max(row, child.height)
    return _Inside(plan, max(plan.width, WIDTH), top + row + PADDING)


class _Vertex(NamedTuple):
    """A position in a layer, taken by a node or by an edge that passes through."""

    x: float
    layer: int
    width: float


class _Level:
    """Lays out a graph without its nested blocks."""

    def __init__(self, graph: Drawing) -> None:
        self._graph = graph
        self._inside = [_inside(node) for node in graph.nodes]
        self._index = {node.path: index + 1 for index, node in enumerate(graph.nodes)}
        self._has_exit = any(edge.labels for edge in graph.edges if edge.target == EXIT)
        if self._has_exit:
            self._index[EXIT] = len(graph.nodes) + 1
        shown = [edge for edge in graph.edges if edge.target in self._index]
        # Computed, not read from the edges: an edge from a node to itself makes the library end the process.
        self._loops = [edge for edge in shown if self._index[edge.target] <= self._index[edge.source]]
        self._forward = [edge for edge in shown if self._index[edge.target] > self._index[edge.source]]
        self._chains: dict[tuple[int, int], list[int]] = {}
        self._vertices = self._place_vertices()
        self._layers = max((vertex.layer for vertex in self._vertices.values()), default=-1) + 1
        self._gaps = [Gap() for _ in range(self._layers + 1)]
        """The gaps above each layer and below the last."""
        self._tops: list[float] = []

    def plan(self) -> Plan:
        if not self._graph.nodes:
            return Plan()
        self._reserve()
        self._tops = self._find_tops()
        boxes = self._boxes()
        plan = Plan(height=self._tops[-1] + self._gaps[-1].height(is_outer=True))
        wires = [*self._forward_wires(boxes), *self._loop_wires(boxes)]
        for number, (inside, _, _) in enumerate(self._inside, start=1):
            box = boxes[number]
            plan.boxes.append(box)
            if inside is not None:
                plan.add(inside, box.left + max(0, box.width - inside.width) / 2, box.top)
        if self._has_exit:
            plan.boxes.append(boxes[self._index[EXIT]])
        plan.wires += wires
        return _at_left(plan)

    # The library

    def _place_vertices(self) -> dict[int, _Vertex]:
        """Return the vertices by number: nodes, and the library's dummy vertices for edges that pass through."""
        ends = list(dict.fromkeys((self._index[edge.source], self._index[edge.target]) for edge in self._forward))
        reached = {target for _, target in ends}
        ends += [(_ROOT, vertex) for vertex in self._index.values() if vertex not in reached]
        positions, pieces = _assign_layers(ends)
        after: dict[int, list[int]] = {}
        for source, target in pieces:
            after.setdefault(source, []).append(target)
        real = set(self._index.values())
        for source, firsts in after.items():
            for first in firsts if source in real else ():
                chain = [source, first]
                while chain[-1] not in real:
                    chain += after[chain[-1]]
                self._chains[source, chain[-1]] = chain
        used = real | {vertex for chain in self._chains.values() for vertex in chain}
        widths = {vertex: self._size_of(vertex)[0] for vertex in used}
        top = max(positions[vertex][1] for vertex in used) if used else 0
        layers = {vertex: round(top - positions[vertex][1]) for vertex in used}
        columns = self._unmirror({vertex: positions[vertex][0] for vertex in used})
        return self._scale(columns, layers, widths)

    def _size_of(self, vertex: int) -> tuple[float, float]:
        """Return the width and height of a vertex."""
        if vertex == self._index.get(EXIT):
            return EXIT_WIDTH, EXIT_HEIGHT
        return self._inside[vertex - 1][1:] if vertex <= len(self._inside) else (WIRE_WIDTH, 0)

    def _unmirror(self, columns: dict[int, float]) -> dict[int, float]:
        """Return the columns, mirrored if necessary so that the first declared branch, such as ``true``, is on the left."""
        firsts: dict[str, float] = {}
        for edge in self._forward:
            x = columns[self._chain(edge)[1]]
            before = firsts.setdefault(edge.source, x)
            if x != before:
                return columns if before < x else {vertex: -x for vertex, x in columns.items()}
        return columns

    @staticmethod
    def _scale(columns: dict[int, float], layers: dict[int, int], widths: dict[int, float]) -> dict[int, _Vertex]:
        """Spread the columns so that no two vertices in a layer touch."""
        rows: dict[int, list[int]] = {}
        for vertex in sorted(columns, key=columns.__getitem__):
            rows.setdefault(layers[vertex], []).append(vertex)
        neighbours = [pair for row in rows.values() for pair in pairwise(row)]
        scales = [((widths[a] + widths[b]) / 2 + NODE_GAP) / (columns[b] - columns[a]) for a, b in neighbours]
        scale = max(scales, default=WIDTH + NODE_GAP)
        shift = min((columns[vertex] * scale - widths[vertex] / 2 for vertex in columns), default=0)
        return {vertex: _Vertex(columns[vertex] * scale - shift, layers[vertex], widths[vertex]) for vertex in columns}

    # From top to bottom

    def _reserve(self) -> None:
        """Reserve height in the gaps between layers for the horizontal segments of edges."""
        for edge in self._forward:
            chain = self._chain(edge)
            for above, below in pairwise(chain):
                start, end = self._vertices[above], self._vertices[below]
                gap = self._gaps[end.layer]
                gap.add(Bar(below, above, start.x, end.x), is_labelled=above == chain[0] and bool(edge.labels))
        for index, edge in enumerate(self._loops):
            source, target = self._ends(edge)
            side = self._side(source)
            if not self._is_outermost(source, side):
                bar = Bar(f"out {index}", None, source.x + side * WIRE_WIDTH, side * 1e6)
                self._gaps[source.layer + 1].add(bar, is_labelled=True)
            if not self._is_outermost(target, side):
                self._gaps[target.layer].add(Bar(f"in {index}", None, target.x + side * WIRE_WIDTH, side * 1e6))

    def _chain(self, edge: Edge) -> list[int]:
        return self._chains[self._index[edge.source], self._index[edge.target]]

    def _ends(self, edge: Edge) -> tuple[_Vertex, _Vertex]:
        return self._vertices[self._index[edge.source]], self._vertices[self._index[edge.target]]

    def _is_outermost(self, vertex: _Vertex, side: int) -> bool:
        """True if no vertex in its layer is further out on this side."""
        return not any(other.layer == vertex.layer and side * other.x > side * vertex.x for other in self._vertices.values())

    def _side(self, source: _Vertex) -> int:
        """Return the side for a loop that starts here: the right, unless only the left is free."""
        return LEFT if not self._is_outermost(source, RIGHT) and self._is_outermost(source, LEFT) else RIGHT

    def _find_tops(self) -> list[float]:
        """Return the y of each layer's top, followed by the y of the last layer's bottom."""
        y, tops = 0.0, []
        for layer in range(self._layers):
            y += self._gaps[layer].height(is_outer=not layer)
            tops.append(y)
            heights = [self._size_of(number)[1] for number, vertex in self._vertices.items() if vertex.layer == layer]
            y += max(heights, default=0)
        return [*tops, y]

    def _boxes(self) -> dict[int, Box]:
        nodes = dict(enumerate(self._graph.nodes, start=1))
        if self._has_exit:
            nodes[self._index[EXIT]] = DrawnNode(EXIT, "end", "end")
        boxes: dict[int, Box] = {}
        for number, node in nodes.items():
            vertex = self._vertices[number]
            left, height = vertex.x - vertex.width / 2, self._size_of(number)[1]
            boxes[number] = Box(node, left, self._tops[vertex.layer], vertex.width, height)
        return boxes

    def _bar_top(self, layer: int, key: object) -> float:
        """Return the y of a horizontal segment in the gap above this layer."""
        gap = self._gaps[layer]
        gap_top = self._tops[layer] - (gap.height(is_outer=layer == 0) if layer < self._layers else 0)
        return gap_top + gap.offset(key)

    # Edges

    def _forward_wires(self, boxes: dict[int, Box]) -> Iterator[Wire]:
        for edge in self._forward:
            chain = self._chain(edge)
            x, y = boxes[chain[0]].middle, boxes[chain[0]].bottom
            corners = [(x, y)]
            label_at: tuple[float, float] | None = None
            for below in chain[1:]:
                vertex = self._vertices[below]
                bar = self._bar_top(vertex.layer, below)
                if abs(vertex.x - x) >= 1:
                    corners += [(x, bar), (vertex.x, bar)]
                    x = vertex.x
                label_at = label_at or (x + 5, bar + 3)
            corners.append((x, boxes[chain[-1]].top))
            yield Wire(edge, tuple(corners), label_at or (x, y))

    def _loop_wires(self, boxes: dict[int, Box]) -> Iterator[Wire]:
        """Yield the loops. They run outside all nodes, shorter ones further in."""
        spans = [source.layer - target.layer for source, target in map(self._ends, self._loops)]
        lanes = {LEFT: 0, RIGHT: 0}
        for index in sorted(range(len(spans)), key=spans.__getitem__):
            edge = self._loops[index]
            source, target = self._ends(edge)
            start, end = boxes[self._index[edge.source]], boxes[self._index[edge.target]]
            side = self._side(source)
            x = self._lane(side, boxes) + side * lanes[side] * LOOP_GAP
            lanes[side] += 1
            leave_y, enter_y = (
                start.top + min(start.height, HEIGHT) / 2 + LOOP_OFFSET,
                end.top + min(end.height, HEIGHT) / 2 - LOOP_OFFSET,
            )
            first: Sequence[tuple[float, float]] = [(start.edge(side), leave_y)]
            if not self._is_outermost(source, side):
                leave_y = self._bar_top(source.layer + 1, f"out {index}")
                first = [(start.middle + side * WIRE_WIDTH, start.bottom), (start.middle + side * WIRE_WIDTH, leave_y)]
            last: Sequence[tuple[float, float]] = [(end.edge(side), enter_y)]
            if not self._is_outermost(target, side):
                enter_y = self._bar_top(target.layer, f"in {index}")
                last = [(end.middle + side * WIRE_WIDTH, enter_y), (end.middle + side * WIRE_WIDTH, end.top)]
            label_x = first[0][0] + 6 if side == RIGHT else first[0][0] - 2 - _label_width(edge)
            yield Wire(edge, (*first, (x, leave_y), (x, enter_y), *last), (label_x, leave_y - 16))

    def _lane(self, side: int, boxes: dict[int, Box]) -> float:
        """Return the x of the innermost loop on a side, outside all nodes and loop labels."""
        outer = [side * box.edge(side) + LOOP_GAP for box in boxes.values()]
        loops = [edge for edge in self._loops if self._side(self._ends(edge)[0]) == side]
        labels = [side * boxes[self._index[edge.source]].edge(side) + _label_width(edge) + 8 for edge in loops]
        return side * max([*outer, *labels])


def _at_left(plan: Plan) -> Plan:
    """Shift the plan so that its leftmost line is at 0."""
    corners = [x for wire in plan.wires for x, _ in wire.corners]
    labels = [wire.label_at[0] + LETTER_WIDTH * len(label_of(wire.edge)) for wire in plan.wires if wire.edge.labels]
    leftmost = min([box.left for box in plan.boxes] + corners)
    rightmost = max([box.right for box in plan.boxes] + [x + 2 for x in corners] + labels)
    shifted = Plan(width=rightmost - leftmost, height=plan.height)
    shifted.add(plan, -leftmost, 0)
    return shifted


def _label_width(edge: Edge) -> float:
    return LETTER_WIDTH * (len(label_of(edge, 10)) + 1)


def _assign_layers(ends: list[tuple[int, int]]) -> tuple[dict[int, tuple[float, float]], list[tuple[int, int]]]:
    """Return the position of each vertex, and the edges, split where they pass a layer. Each layer is 1 below the one
    before.
    """
    from fast_sugiyama import from_edges

    positions: dict[Any, tuple[float, float]] = {}
    pieces: list[tuple[Any, Any]] = []
    for placed, _, _, edges in from_edges(ends, vertex_spacing=1.0, dummy_vertices=True, dummy_size=WIRE_WIDTH / WIDTH):
        positions |= dict(placed)
        pieces += edges or []
    return positions, pieces
