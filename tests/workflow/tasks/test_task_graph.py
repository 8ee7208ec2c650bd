"""The graph of a task file: tasks in order, and edges of gotos."""

from __future__ import annotations

from pathlib import Path

from asserted_sentences import Snapshot
from task_examples import HERE, ScriptedPlanner, ScriptedTools, played, script

from agentnb import Store, Workflow
from agentnb.display.card.workflow_card import workflow_html, workflow_lines
from agentnb.display.graph.workflow_text import graph_text
from agentnb.workflow.files.declared_files import drawing_of

TEXT = """
stage:
  first: {action: a:b}
  main:
    each: {emit: {forEach: [1], as: n, task: {one: {action: c:d, retry: {maxRetries: 2}}}}, await: true}
    choose: {goto: [{when: "query == 1", task: main}, {task: last}]}
    never: {action: e:f}
    last: {when: query, action: g:h, goto: {task: end}}
"""


def test_unconditional_goto_replaces_the_edge_to_the_next_task() -> None:
    graph = drawing_of(Workflow.from_yaml(TEXT).declared)
    assert [(node.path, node.kind, node.words, node.is_map, node.retries) for node in graph.nodes] == [
        ("first", "task", "a:b", False, 0),
        ("main/each", "emit", "c:d", True, 2),
        ("main/choose", "task", "", False, 0),
        ("main/never", "task", "e:f", False, 0),
        ("main/last", "task", "g:h", False, 0),
    ]
    assert [(edge.source, edge.target, edge.labels, edge.is_back) for edge in graph.edges] == [
        ("first", "main/each", (), False),
        ("main/each", "main/choose", (), False),
        ("main/choose", "main/each", ("when",), True),
        ("main/choose", "main/last", (), False),
        ("main/never", "main/last", (), False),
        ("main/last", "", (), False),
    ]
    handled = "stage:\n  one: {action: a:b, goto: {task: one}, onError: {action: e:f}}\n  two: {action: c:d}\n"
    edges = drawing_of(Workflow.from_yaml(handled).declared).edges
    assert [(edge.source, edge.target, edge.is_back) for edge in edges] == [
        ("one", "one", True),
        ("one", "two", False),
        ("two", "", False),
    ]


def test_graph_of_a_logged_run_counts_loops(tmp_path: Path, snapshot: Snapshot) -> None:
    scripted, store = script("loop-three.run.yaml"), Store(tmp_path)
    settings = {"tools": ScriptedTools(scripted["tools"]).tools, "model": ScriptedPlanner(scripted["replies"])}
    run = store.load(played(HERE / scripted["file"], scripted["inputs"], store, **settings).id)
    assert [*workflow_lines(run)] == snapshot
    assert "leads to plan, followed twice" in str(workflow_html(run))
    workflow = Workflow.of_run(run)
    assert graph_text(workflow.declared).splitlines()[-1].strip() == "when ↑ back to plan"
    assert 'n1 -.->|"when (2x)"| n0' in workflow.mermaid(run)
