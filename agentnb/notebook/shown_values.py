"""Displays runs, plans and workflows as cell results."""

from __future__ import annotations

from typing import Any

from IPython.core.getipython import get_ipython

from agentnb.advice import USUAL_OUT
from agentnb.detect.run import Run
from agentnb.display.card.html import run_html as whole_run_html
from agentnb.display.card.html import running_html
from agentnb.display.card.many_runs import run_line_html
from agentnb.display.card.text import head_line
from agentnb.display.card.text import run_text as whole_run_text
from agentnb.display.graph.workflow_graph import graph_html
from agentnb.display.graph.workflow_text import graph_text
from agentnb.display.lists import plan_view
from agentnb.display.texts.states import is_going_on
from agentnb.interchange.files import Runs
from agentnb.notebook.browser import Browser
from agentnb.notebook.card.replay_button import replay_buttons
from agentnb.notebook.cells.begun_cell import begun_cell
from agentnb.notebook.frontend import is_attended
from agentnb.notebook.variable_names import variable_holding
from agentnb.runtime.host.live_run import LiveRun
from agentnb.workflow.plan import Plan
from agentnb.workflow.workflow import Workflow

MOMENT = "The run as it was when this cell ran. The live card is below the cell that started it"
USUAL_PLAN = "plan"
"""The variable of ``%%plan``."""


def run_html(run: Run) -> str | None:
    """Return a run as HTML, a line if its card is directly above, or None if it has no events."""
    if not run.events:
        return None
    if is_attended(get_ipython()):
        replay_buttons().add(run)
    if _is_above(run):
        return run_line_html(run, "shown above")
    return whole_run_html(run, prompt=True, variable=variable_holding(run, USUAL_OUT))


def run_text(run: Run) -> str:
    """Return a run as text, or a line if its card is directly above."""
    return f"{head_line(run)}, shown above" if _is_above(run) else whole_run_text(run)


def live_html(live: LiveRun) -> str | None:
    """Return the current state of a handle's run as HTML, or a line if its card is directly above."""
    run = live.run
    return running_html(run, hint=MOMENT) if run.events and not _is_above(run) and is_going_on(run) else run_html(run)


live_text = repr


def plan_html(plan: Plan) -> str:
    """Return a plan as HTML, with commands that name its variable."""
    return plan_view.plan_html(plan, variable_holding(plan, USUAL_PLAN))


def plan_text(plan: Plan) -> str:
    """Return a plan as text, with commands that name its variable."""
    return plan_view.plan_text(plan, variable_holding(plan, USUAL_PLAN))


def workflow_html(workflow: Workflow) -> str:
    """Return the graph of a workflow as HTML."""
    return graph_html(workflow.declared)


def workflow_text(workflow: Workflow) -> str:
    """Return the graph of a workflow as text."""
    return graph_text(workflow.declared)


def runs_text(runs: Runs) -> str:
    """Return the text form of the trace browser for these runs."""
    return repr(Browser(runs))


def runs_bundle(runs: Runs) -> dict[str, Any]:
    """Return the trace browser for these runs as a display bundle."""
    return Browser(runs)._repr_mimebundle_()


def _is_above(run: Run) -> bool:
    return begun_cell(get_ipython()).shown.has_card_of(run.id)
