"""What was declared, in either of the two forms, as the graph that is walked and drawn."""

from __future__ import annotations

from typing import TypeAlias

from agentnb.workflow.form.spec import WorkflowSpec
from agentnb.workflow.graph.drawing import Drawing, drawn
from agentnb.workflow.graph.of_workflow import compiled
from agentnb.workflow.tasks.spec import TaskFile

WorkflowDefinition: TypeAlias = WorkflowSpec | TaskFile


def drawing_of(declared: WorkflowDefinition) -> Drawing:
    """Return the drawing of a workflow or a task file."""
    return drawn(declared.graph if isinstance(declared, TaskFile) else compiled(declared))
