"""The graph of what was declared, whichever of the two forms it has."""

from __future__ import annotations

from typing import TypeAlias

from agentnb.workflow.form.spec import WorkflowSpec
from agentnb.workflow.graph import nodes
from agentnb.workflow.graph.graph import EXIT, Choice, Edge, Graph, Node, graph_of
from agentnb.workflow.graph.nodes import Each
from agentnb.workflow.tasks.spec import TaskFile

WorkflowDefinition: TypeAlias = WorkflowSpec | TaskFile
CONDITIONAL = "when"
"""The label of a goto that has a condition."""


def declared_graph(declared: WorkflowDefinition) -> Graph:
    """Return the graph of a workflow or a task file."""
    return _of_tasks(declared) if isinstance(declared, TaskFile) else graph_of(declared)


def _of_tasks(file: TaskFile) -> Graph:
    paths = [*(task.path for task in file.tasks), EXIT]
    found: dict[tuple[str, str], Edge] = {}
    for at, task in enumerate(file.tasks):
        if _may_go_on(task, at):
            found[task.path, paths[at + 1]] = Edge(task.path, paths[at + 1])
        for jump in task.jumps:
            to = paths[jump.place]
            if jump.place >= 0 and (task.path, to) not in found:
                label = (CONDITIONAL,) if jump.when is not None else ()
                choices = frozenset({Choice(task.path, jump.to)})
                found[task.path, to] = Edge(task.path, to, label, jump.place <= at, choices)
    drawn = [Node(task.path, task.id, task.kind, task.words, is_map=isinstance(task.does, Each)) for task in file.tasks]
    return Graph(tuple(drawn), tuple(found.values()))


def _may_go_on(task: nodes.Node, at: int) -> bool:
    """Return whether the next task may follow: not after a goto that is always taken."""
    return task.when is not None or task.handler is not None or not task.jumps or task.jumps[-1].place == at + 1
