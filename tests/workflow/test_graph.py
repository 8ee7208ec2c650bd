"""A workflow as a graph: the possible order of steps."""

from __future__ import annotations

import pytest
from drawn_workflows import BRANCH, LOOP, NESTED, spec_of

from agentnb.workflow.files.declared_files import drawing_of
from agentnb.workflow.form.workflow_spec import AgentStep, GotoStep, WorkflowSpec
from agentnb.workflow.graph.drawing import EXIT

CASES = {
    "a loop by a goto": (
        LOOP,
        {
            ("draft", "enough", "", False),
            ("enough", "print", "true", False),
            ("enough", "expand", "false", False),
            ("expand", "draft", "", True),
            ("print", EXIT, "", False),
        },
    ),
    "branches that join, a step that ends the workflow, and one that continues elsewhere after an error": (
        BRANCH,
        {
            ("load", "big", "", False),
            ("big", "each", "true", False),
            ("each", "merge", "", False),
            ("big", "summary", "false", False),
            ("summary", "report", "on error", False),
            ("merge", "approve", "", False),
            ("summary", "approve", "", False),
            ("approve", "approved", "", False),
            ("approved", EXIT, "false", False),
            ("approved", "report", "true", False),
            ("report", EXIT, "", False),
        },
    ),
    "a condition that reads what a later step gives comes after it": (
        """
workflow:
  - {id: trans, type: agent, name: t}
  - {id: check, type: condition, condition: "{{ $steps.qa.output.ok }}", false: {goto: trans}}
  - {id: qa, type: agent, name: q}
""",
        {
            ("trans", "qa", "", False),
            ("qa", "check", "", False),
            ("check", "trans", "false", True),
            ("check", EXIT, "true", False),
        },
    ),
    "a condition that cannot be read is a step like others": (
        'workflow: [{id: c, type: condition, condition: "{{ ( }}", true: {goto: end}}, {id: a, type: agent, name: a}]',
        {("c", EXIT, "true", False), ("c", "a", "false", False), ("a", EXIT, "", False)},
    ),
    "a step with end ends the workflow": (
        """
workflow:
  - {id: c, type: condition, condition: "{{ true }}", true: {id: a, type: agent, name: a, end: true}}
  - {id: b, type: agent, name: b}
""",
        {("c", "a", "true", False), ("a", EXIT, "", False), ("c", "b", "false", False), ("b", EXIT, "", False)},
    ),
    "both branches may lead to the same step": (
        'workflow: [{id: c, type: condition, condition: "{{ true }}"}, {id: a, type: agent, name: a}]',
        {("c", "a", "true / false", False), ("a", EXIT, "", False)},
    ),
}


@pytest.mark.req("R4.36")
def test_edges_connect_steps_that_may_follow_each_other(subtests: pytest.Subtests) -> None:
    for name, (text, expected) in CASES.items():
        with subtests.test(name):
            edges = drawing_of(spec_of(text)).edges
            assert {(edge.source, edge.target, " / ".join(edge.labels), edge.is_back) for edge in edges} == expected


def test_branches_of_a_parallel_step_become_nested_graphs() -> None:
    graph = drawing_of(spec_of(NESTED))
    assert [node.path for node in graph.nodes] == ["outer", "publisher"]
    paths = ["outer", "outer/generator", "outer/inner", "outer/inner/researcher", "outer/inner/summarizer", "publisher"]
    assert [node.path for node in graph.all_nodes] == paths
    assert [len(child.nodes) for child in graph.nodes[0].children] == [1, 1]


def test_missing_or_circular_goto_targets_have_no_edge() -> None:
    def goto(to: str | int, number: int) -> GotoStep:
        return GotoStep(id=f"g{number}", path=f"g{number}", target=to)

    circle = WorkflowSpec(steps=(goto(1, 0), goto(0, 1), AgentStep(id="a", path="a", agent="a"), goto("gone", 2)))
    assert drawing_of(circle).edges == ()
    further = WorkflowSpec(steps=(AgentStep(id="a", path="a", agent="a"), goto(2, 1), goto("a", 2)))
    assert [(edge.source, edge.target, edge.is_back) for edge in drawing_of(further).edges] == [("a", "a", True)]
