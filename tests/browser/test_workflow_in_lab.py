"""A workflow in a real JupyterLab: its graph during the run, its question, and its untrusted form."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from drawn_workflows import BRANCH, NESTED, finished, spec_of, started, workflow_run
from test_card_in_lab import card, opened
from test_finished_card import check_every_word
from waiting import wait_until

from agentnb.display.card.html import run_html
from agentnb.display.graph.workflow_graph import graph_html
from agentnb.display.texts.states import STEP_STATES
from agentnb.workflow.files.declared_files import drawing_of
from agentnb.workflow.graph.node_states import NodeState

pytestmark = pytest.mark.browser
WORKFLOW = '''
from agentnb.workflow.workflow import Workflow
wf = Workflow.from_yaml("""
agents: {left: {}, right: {}, judge: {}, writer: {}}
workflow:
  - {id: both, type: parallel, steps: [{type: agent, name: left}, {type: agent, name: right}]}
  - {id: judge, type: agent, name: judge}
  - {id: good, type: condition, condition: "{{ $steps.judge.output == 'yes' }}", false: {goto: both}}
  - {id: publish, type: human, ask: "Publish it?", confirm: true}
  - {id: write, type: agent, name: writer}
""")
replies = {"both/left": ["L1", "L2"], "both/right": ["R1", "R2"], "judge": ["no", "yes"], "write": ["It is **written**."]}
'''
PLACES = """one => [...one.querySelectorAll('.agentnb-graph-node, .agentnb-graph-block')].map(each => {
    const {left, top, width, height} = each.getBoundingClientRect(), at = one.getBoundingClientRect();
    return [left - at.left, top - at.top, width, height].map(Math.round).join(' ');
}).join('; ')"""


def shot(lab: Any, name: str) -> None:
    """Take a picture if a folder is set."""
    if folder := os.environ.get("AGENTNB_PICTURES"):
        lab.page.screenshot(path=f"{folder}/{name}.png")


def test_workflow_is_shown_as_a_graph_live_and_saved(lab: Any) -> None:
    index = opened(lab, "workflow", WORKFLOW, "run = await wf.run('Go.', replies=replies)")
    lab.start(index)
    shown = card(lab, index)
    node = shown.locator(".agentnb-graph-frame-asking .agentnb-step-state", has_text="waiting for you")
    node.wait_for()
    wait_until(lambda: shown.locator(".agentnb-graph-label", has_text="false, once").count() == 1)
    question = shown.locator(".agentnb-question", has_text="Publish it?")
    shown.locator('[data-fold="step:both/left"] > summary').click()
    nested = shown.locator('[data-fold="step:both/left"] [data-fold^="nested:"]')
    wait_until(lambda: nested.count() == 2 and not shown.locator(".agentnb-number").first.is_visible())
    shot(lab, "workflow-live")
    question.get_by_role("button", name="Yes").click()
    lab.cell(index).locator(".agentnb-run > .agentnb-head .agentnb-chip", has_text="Done").wait_for()
    lab.wait_done(index)
    run = lab.cell(index).locator(".agentnb-run").first
    places = run.locator(".agentnb-graph").evaluate(PLACES)
    wait_until(lambda: run.locator(".agentnb-answer strong").inner_text() == "written")
    assert places.count(";") == 6 and lab.complaints() == []
    shot(lab, "workflow-saved")
    lab.save()
    lab.open_untrusted("workflow.ipynb")
    wait_until(lambda: not lab.trusts(index))
    again = lab.cell(index).locator(".agentnb-run").first
    again.wait_for()
    shot(lab, "workflow-untrusted")
    wait_until(lambda: again.locator(".agentnb-graph").evaluate(PLACES) == places)


@pytest.mark.nightly("by day the graph of a workflow is drawn in JupyterLab")
def test_every_word_in_a_graph_is_readable_on_any_background(browser: Any, tmp_path: Path, subtests: pytest.Subtests) -> None:
    spec = spec_of(BRANCH)
    paths = [node.path for node in drawing_of(spec).all_nodes]
    states = {path: NodeState(status, 2, 2) for path, status in zip(paths, [*STEP_STATES], strict=False)}
    failed = [started("outer", "parallel"), started("outer/generator"), finished("outer/generator", "failed", error="No model")]
    forms = {"graph": graph_html(spec, states), "card": run_html(workflow_run(NESTED, failed, "failed"))}
    page = browser.new_page()
    for name, html in forms.items():
        check_every_word(page, tmp_path, subtests, name, html)
    page.context.close()
