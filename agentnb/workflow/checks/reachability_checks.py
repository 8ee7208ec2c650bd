"""Checks of the paths through a graph, for every file format: unreachable nodes and endless loops."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from agentnb.workflow.form.problems import Hint, Problems
from agentnb.workflow.graph.drawing import EXIT, draw
from agentnb.workflow.graph.nodes import Decide, Graph

ENDLESS = "W_ENDLESS_LOOP"
"""Warning code for a loop without an exit."""
UNREACHED = "W_UNREACHED"
"""Warning code for an unreachable node, in formats that allow one."""
Note = Callable[[str, str, Hint], None]
"""Reports a problem with the node at this path; the last argument is a hint."""


def check_ways(graph: Graph, unreached: Note, endless: Note) -> None:
    """Report unreachable nodes, and the first node from which the end cannot be reached.

    Nodes in blocks are exempt, since no jump enters or leaves a block.
    """
    if not any(node.jumps or node.rescue or isinstance(node.does, Decide) for node in graph.nodes):
        return  # purely sequential
    drawing = draw(graph)
    targets: dict[str, list[str]] = {}
    sources: dict[str, list[str]] = {EXIT: []}
    for edge in drawing.edges:
        targets.setdefault(edge.source, []).append(edge.target)
        sources.setdefault(edge.target, []).append(edge.source)
    reached = _closure([drawing.entry], targets)
    for path in (*(node.path for node in drawing.nodes), *drawing.idle):
        if path not in reached:
            unreached(
                path, f"no path leads to the step {path.rpartition('/')[2]}", "Remove it, or make an earlier step lead to it"
            )
            reached |= _closure([path], targets)
    ending = _closure([EXIT], sources)
    caught = next((node for node in drawing.nodes if node.path not in ending), None)
    if caught is not None:
        problem = f"the end is unreachable from the step {caught.id}"
        endless(caught.path, problem, "Add a condition that leaves the loop; otherwise it runs until its limit")


def warn_of_ways(graph: Graph, problems: Problems, located: Callable[[str], tuple[str, int]]) -> None:
    """Report the problems found by `check_ways` as warnings. ``located``: returns the label and line of a path."""

    def note(code: str, path: str, problem: str, hint: Hint) -> None:
        where, line = located(path)
        problems.warn(line, f"{where}: {problem}", hint, code=code)

    check_ways(graph, partial(note, UNREACHED), partial(note, ENDLESS))


def _closure(first: Iterable[str], onward: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the paths reachable from these."""
    reached, pending = set[str](), [*first]
    while pending:
        if (path := pending.pop()) not in reached:
            reached.add(path)
            pending += onward.get(path, ())
    return reached
