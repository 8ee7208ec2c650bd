"""The graph of what was declared, whichever of the two forms it has."""

from __future__ import annotations

from typing import TypeAlias

from agentnb.workflow.form.spec import END, WorkflowSpec
from agentnb.workflow.graph.graph import EXIT, Choice, Edge, Graph, Node, graph_of
from agentnb.workflow.tasks.spec import EmitStep, TaskFile, TaskStep

WorkflowDefinition: TypeAlias = WorkflowSpec | TaskFile
CONDITIONAL = "when"
"""The label of a goto that has a condition."""


def declared_graph(declared: WorkflowDefinition) -> Graph:
    """Return the graph of a workflow or a task file."""
    return _of_tasks(declared) if isinstance(declared, TaskFile) else graph_of(declared)


def _of_tasks(file: TaskFile) -> Graph:
    places = {**{name: span.start for name, span in file.blocks.items()}}
    places |= {task.id: place for place, task in enumerate(file.tasks)}
    paths = [*(task.path for task in file.tasks), EXIT]
    places.setdefault(END, len(file.tasks))
    found: dict[tuple[str, str], Edge] = {}
    for at, task in enumerate(file.tasks):
        if _may_go_on(task):
            found[task.path, paths[at + 1]] = Edge(task.path, paths[at + 1])
        for goto in task.goto:
            to = places.get(goto.task)
            if to is None or (task.path, paths[to]) in found:
                continue
            label = (CONDITIONAL,) if goto.when is not None else ()
            found[task.path, paths[to]] = Edge(task.path, paths[to], label, to <= at, frozenset({Choice(task.path, goto.task)}))
    return Graph(tuple(_node(task) for task in file.tasks), tuple(found.values()))


def _may_go_on(task: TaskStep) -> bool:
    """Return whether the next task may follow: not after a goto that is always taken."""
    return task.when is not None or task.handler is not None or all(goto.when is not None for goto in task.goto)


def _node(task: TaskStep) -> Node:
    if isinstance(task, EmitStep):
        return Node(task.path, task.id, task.kind, task.task.action or "", is_map=True)
    return Node(task.path, task.id, task.kind, task.action or "")
