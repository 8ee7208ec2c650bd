"""Checks of the ways through a graph, in every form: nodes that nothing reaches, and loops without a way out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial

from agentnb.workflow.form.problems import Hint, Problems
from agentnb.workflow.graph.drawing import EXIT, drawn
from agentnb.workflow.graph.nodes import Decide, Graph

ENDLESS = "W_ENDLESS_LOOP"
"""The code of the warning that a loop has no way out."""
UNREACHED = "W_UNREACHED"
"""The code of the warning that nothing reaches a node, in forms where that is no problem."""
Note = Callable[[str, str, Hint], None]
"""Notes what is wrong with the node that has this path, and what to do."""


def check_ways(graph: Graph, unreached: Note, endless: Note) -> None:
    """Note each node that nothing before it reaches, and the first node from which no way leads to the end.

    Nodes in blocks are not looked at: no jump leads into a block or out of it.
    """
    if not any(node.jumps or node.rescue or isinstance(node.does, Decide) for node in graph.nodes):
        return  # they follow one another
    drawing = drawn(graph)
    targets: dict[str, list[str]] = {}
    sources: dict[str, list[str]] = {EXIT: []}
    for edge in drawing.edges:
        targets.setdefault(edge.source, []).append(edge.target)
        sources.setdefault(edge.target, []).append(edge.source)
    reached = _closure([drawing.entry], targets)
    for path in (*(node.path for node in drawing.nodes), *drawing.idle):
        if path not in reached:
            unreached(
                path, f"nothing reaches the step {path.rpartition('/')[2]}", "Leave it out, or let a step before it lead there"
            )
            reached |= _closure([path], targets)
    ending = _closure([EXIT], sources)
    caught = next((node for node in drawing.nodes if node.path not in ending), None)
    if caught is not None:
        what = f"no way leads from the step {caught.id} to the end"
        endless(caught.path, what, "Let a condition leave the loop, which else runs until its limit")


def warn_of_ways(graph: Graph, problems: Problems, located: Callable[[str], tuple[str, int]]) -> None:
    """Warn of what `check_ways` finds. ``located``: returns what a path is called in messages, and its line."""

    def note(code: str, path: str, what: str, hint: Hint) -> None:
        where, line = located(path)
        problems.warn(line, f"{where}: {what}", hint, code=code)

    check_ways(graph, partial(note, UNREACHED), partial(note, ENDLESS))


def _closure(first: Iterable[str], onward: Mapping[str, Iterable[str]]) -> set[str]:
    """Return the paths that can be reached from these."""
    reached, pending = set[str](), [*first]
    while pending:
        if (path := pending.pop()) not in reached:
            reached.add(path)
            pending += onward.get(path, ())
    return reached
