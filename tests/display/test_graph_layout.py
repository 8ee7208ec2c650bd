"""Layout of the nodes and edges of a workflow graph."""

from __future__ import annotations

import ast
from itertools import combinations, pairwise
from pathlib import Path

import pytest
from drawn_workflows import BRANCH, LOOP, NESTED, spec_of
from hypothesis import given
from hypothesis import strategies as st
from property_settings import examples

from agentnb.display.graph import graph_layout
from agentnb.display.graph.graph_folding import MAX_BRANCHES, MAX_NODES, fold_graph
from agentnb.display.graph.graph_layout import WIDTH, Box, Plan, lay_out
from agentnb.workflow.files.declared_files import drawing_of
from agentnb.workflow.form.workflow_spec import AgentStep, ConditionStep, GotoStep, ParallelStep, Step, ToolStep, WorkflowSpec
from agentnb.workflow.graph.drawing import EXIT, Drawing, DrawnNode, Edge
from agentnb.workflow.graph.node_states import NodeState

CARD = 676
"""Width of a graph in a card of 700 pixels."""


@st.composite
def workflows(draw: st.DrawFn) -> WorkflowSpec:
    """Workflows with conditions, blocks and gotos, nested."""
    count = iter(range(10_000))

    def step(depth: int, parent: str) -> Step:
        place = next(count)
        name, path = f"s{place}", f"{parent}s{place}"
        kind = draw(st.sampled_from(["agent", "agent", "agent", "condition", "parallel", "goto"] if depth < 3 else ["agent"]))
        if kind == "condition":
            return ConditionStep(
                id=name, path=path, condition="{{ true }}", true_=some(depth + 1, parent), false_=some(depth + 1, parent)
            )
        if kind == "parallel":
            return ParallelStep(id=name, path=path, steps=some(depth + 1, f"{path}/") or (step(3, f"{path}/"),))
        if kind == "goto" and not parent:
            return GotoStep(id=name, path=path, target=draw(st.integers(0, 7) | st.just("end")))
        return AgentStep(id=name, path=path, agent="writer", end=draw(st.integers(0, 9)) == 0)

    def some(depth: int, parent: str) -> tuple[Step, ...]:
        return tuple(step(depth, parent) for _ in range(draw(st.integers(0 if depth else 1, 4 if depth else 8))))

    return WorkflowSpec(steps=some(0, ""))


def inside(inner: Box, outer: Box) -> bool:
    fits = outer.left <= inner.left and inner.right <= outer.right and outer.top <= inner.top and inner.bottom <= outer.bottom
    return fits and inner.node.path.startswith(f"{outer.node.path}/")


def crosses(plan: Plan) -> list[tuple[str, Edge]]:
    """Return the nodes that a foreign edge crosses."""
    found = []
    for wire in plan.wires:
        for (x, y), (to_x, to_y) in pairwise(wire.corners):
            assert abs(x - to_x) < 1e-6 or abs(y - to_y) < 1e-6, "edges run straight"
            (left, right), (top, bottom) = sorted((x, to_x)), sorted((y, to_y))
            found += [
                (box.node.path, wire.edge)
                for box in plan.boxes
                if left < box.right - 0.5
                and right > box.left + 0.5
                and top < box.bottom - 0.5
                and bottom > box.top + 0.5
                and not wire.edge.source.startswith(f"{box.node.path}/")
            ]
    return found


def shared(plan: Plan) -> list[tuple[Edge, Edge]]:
    """Return edges that share a horizontal line, and loops that share a vertical one, though their ends differ."""
    found = []
    for one, other in combinations(plan.wires, 2):
        are_loops = one.edge.is_back and other.edge.is_back
        if one.edge.source == other.edge.source or one.edge.target == other.edge.target:
            continue
        for (x, y), (to_x, to_y) in pairwise(one.corners):
            for (left, top), (right, bottom) in pairwise(other.corners):
                is_sideways = abs(x - to_x) > 1 and abs(left - right) > 1 and abs(y - top) < 1
                is_up = are_loops and abs(y - to_y) > 1 and abs(top - bottom) > 1 and abs(x - left) < 1
                if (is_sideways and overlap(x, to_x, left, right) > 1) or (is_up and overlap(y, to_y, top, bottom) > 1):
                    found.append((one.edge, other.edge))
    return found


def overlap(start: float, end: float, other_start: float, other_end: float) -> float:
    return min(max(start, end), max(other_start, other_end)) - max(min(start, end), min(other_start, other_end))


@examples(1_000)
@given(workflows())
def test_nodes_do_not_overlap_and_edges_avoid_them(spec: WorkflowSpec) -> None:
    graph = fold_graph(drawing_of(spec)).graph
    plan = lay_out(graph)
    assert [box.node.path for box in plan.boxes if box.node.path != EXIT] == [node.path for node in graph.all_nodes]
    for one, other in combinations(plan.boxes, 2):
        apart = one.right < other.left or other.right < one.left or one.bottom < other.top or other.bottom < one.top
        assert apart or inside(one, other) or inside(other, one), (one, other)
    assert crosses(plan) == []
    assert shared(plan) == []
    for wire in plan.wires:
        assert all(-1e-6 <= x <= plan.width + 1e-6 and -1e-6 <= y <= plan.height + 1e-6 for x, y in wire.corners)


def test_each_edge_connects_its_two_nodes(subtests: pytest.Subtests) -> None:
    for name, text in {"loop": LOOP, "branch": BRANCH, "nested": NESTED}.items():
        with subtests.test(name):
            plan = lay_out(drawing_of(spec_of(text)))
            boxes = {box.node.path: box for box in plan.boxes}
            for wire in plan.wires:
                for path, (x, y) in ((wire.edge.source, wire.corners[0]), (wire.edge.target, wire.corners[-1])):
                    box = boxes[path]
                    on_side = x in (box.left, box.right) and box.top <= y <= box.bottom
                    assert on_side or (y in (box.top, box.bottom) and box.left <= x <= box.right)


def test_example_graphs_fit_in_a_card_700_pixels_wide(subtests: pytest.Subtests) -> None:
    for name, text in {"loop": LOOP, "branch": BRANCH, "nested": NESTED}.items():
        with subtests.test(name):
            assert lay_out(drawing_of(spec_of(text))).width <= CARD


def test_first_declared_branch_is_on_the_left() -> None:
    boxes = {box.node.path: box for box in lay_out(drawing_of(spec_of(BRANCH))).boxes}
    assert boxes["each"].left < boxes["summary"].left
    assert boxes["load"].bottom < boxes["big"].top < boxes["each"].top < boxes["merge"].top < boxes["approve"].top


def test_step_can_loop_back_to_itself() -> None:
    for is_back in (True, False):  # the library would end the process
        plan = lay_out(Drawing((DrawnNode("a", "a", "agent"),), (Edge("a", "a", ("again",), is_back),)))
        assert [box.node.path for box in plan.boxes] == ["a"] and plan.width > WIDTH
        assert plan.wires[0].corners[0][1] > plan.wires[0].corners[-1][1]


def test_edges_of_nested_loops_are_drawn_side_by_side() -> None:
    nodes = tuple(DrawnNode(name, name, "agent") for name in "abcd")
    ways = [Edge(one, other) for one, other in pairwise("abcd")]
    for loops in ([("c", "b"), ("d", "a")], [("c", "a"), ("d", "b")], [("b", "a"), ("d", "c")]):
        plan = lay_out(Drawing(nodes, (*ways, *(Edge(source, target, (), True) for source, target in loops))))
        assert len([wire for wire in plan.wires if wire.edge.is_back]) == 2 and shared(plan) == []


def test_layout_of_a_workflow_without_steps_is_empty() -> None:
    assert (lay_out(Drawing()).boxes, lay_out(Drawing()).width) == ([], 0)


# Large ones


def pipeline(count: int) -> Drawing:
    return drawing_of(WorkflowSpec(steps=tuple(ToolStep(id=f"t{n}", path=f"t{n}", tool="shift") for n in range(count))))


def test_long_pipeline_is_folded_into_a_node_with_a_count() -> None:
    small = fold_graph(pipeline(10_000))
    assert len(small.graph.nodes) <= MAX_NODES
    (path,) = small.members
    stand_in = next(node for node in small.graph.nodes if node.path == path)
    assert (stand_in.id, stand_in.words) == ("9,988 steps", "t6 to t9993")
    assert len(small.graph.edges) == len(small.graph.nodes)
    states = {f"t{n}": NodeState("completed" if n != 5_000 else "failed", 1) for n in range(9_000)}
    shown = small.states(states)[path]
    assert (shown.status, shown.items) == ("failed", {"completed": 8_993, "failed": 1})


def test_folded_graph_keeps_steps_with_jumps() -> None:
    def step(n: int) -> Step:
        return ToolStep(id=f"t{n}", path=f"t{n}", tool="shift") if n != 50 else GotoStep(id="g", path="g", target="t30")

    graph = fold_graph(drawing_of(WorkflowSpec(steps=tuple(step(n) for n in range(100))))).graph
    assert {"t30", "t49"} <= {node.path for node in graph.nodes}
    assert [(edge.source, edge.target) for edge in graph.edges if edge.is_back] == [("t49", "t30")]


def test_wide_block_shows_first_branches_and_counts_the_others() -> None:
    wide = ParallelStep(id="p", path="p", steps=tuple(AgentStep(id=f"a{n}", path=f"p/a{n}", agent="a") for n in range(1_000)))
    small = fold_graph(drawing_of(WorkflowSpec(steps=(wide,))))
    children = small.graph.nodes[0].children
    assert len(children) == MAX_BRANCHES and children[-1].nodes[0].id == "992 branches"
    assert len(small.members[children[-1].nodes[0].path]) == 992
    assert lay_out(small.graph).width <= CARD


def test_deeply_nested_blocks_count_their_branches() -> None:
    step: Step = AgentStep(id="a", path="p/p/p/p/p/a", agent="a")
    for depth in range(5, 0, -1):
        path = "/".join("p" * depth)
        step = ParallelStep(id="p", path=path, steps=(step, AgentStep(id=f"b{depth}", path=f"{path}/b{depth}", agent="b")))
    small = fold_graph(drawing_of(WorkflowSpec(steps=(step,))))
    (path,) = small.members
    assert path == "p/p/p/p" and next(node for node in small.graph.all_nodes if node.path == path).words == "2 branches"
    assert small.states({"p/p/p/p/p/a": NodeState("failed")})[path].status == "failed"


def test_layout_library_is_loaded_only_when_a_graph_is_drawn() -> None:
    tree = ast.parse(Path(graph_layout.__file__).read_text(encoding="utf-8"))
    imported = [ast.unparse(one) for one in tree.body if isinstance(one, ast.Import | ast.ImportFrom)]
    assert imported and not any("sugiyama" in one for one in imported)
