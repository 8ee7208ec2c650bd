"""Kinds of files that can be run or checked, determined by their top-level keys."""

from __future__ import annotations

from agentnb.workflow.form.problems import Problems
from agentnb.workflow.form.yaml_source import MappingNode, read_yaml
from agentnb.workflow.plans.plan_reader import as_yaml, plan_within

WORKFLOW, AGENTS, TASKS, PLAN = "workflow", "file of agents", "task file", "plan"
KINDS = {
    "workflow": WORKFLOW,
    "agents": AGENTS,
    "stage": TASKS,
    "pipeline": TASKS,
    "variants": "",
    "tasks": TASKS,
    "steps": PLAN,
    "intention": PLAN,
    "elicitation": PLAN,
}
"""The kind of a file, by the first of these keys that it has."""


def kind_of_text(text: str) -> str:
    """Return the kind that the text declares; empty if it has none of the keys or cannot be parsed."""
    node = read_yaml(as_yaml(text), Problems())
    keys = node.entries if isinstance(node, MappingNode) else ()
    declared = next((kind for key, kind in KINDS.items() if key in keys), "")
    return declared or (PLAN if plan_within(text) is not None else "")
