"""Runs that another process resumes in a shell, to their end or to their next question."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from typing import Any

from agentnb.cli.command import Outcome
from agentnb.cli.inputs import find_gates, find_tools
from agentnb.cli.progress import Progress
from agentnb.cli.streams import complain, tell
from agentnb.cli.terminal_questions import is_at_terminal
from agentnb.cli.workflow_options import options_again
from agentnb.cli.workflow_runs import awaited, chosen_model, top_steps
from agentnb.detect.run import Run
from agentnb.display.foreign_log import CHOICES, answer_of, log_wants
from agentnb.errors import SettingsError
from agentnb.models.allowed_urls import allow_urls
from agentnb.session.recovery import begin_recovery, is_workflow
from agentnb.traces.store import Store
from agentnb.workflow.workflow import Workflow


def resume(run: Run, store: Store, given: Namespace, answers: Mapping[str, Any] | None = None) -> Outcome:
    """Resume a run of this store with the tools and the model of the command line, and return what the command gives.

    ``answers``: to its open questions, by their ids.
    """
    allow_urls(given.allow_urls)
    trust = _trust(run, given.trust_log)
    if trust is False and answers:
        complain("What the log asks is not taken as it stands: you are asked again")
        answers = None
    tools, gates, model = find_tools(given.tools), find_gates(given.gate), given.model
    steps: list[str] = []
    if is_workflow(run):
        workflow = Workflow.of_run(run, tools=tools)
        model = _model(run, workflow, model)
        steps = top_steps(workflow)
    start = partial(begin_recovery, run.id, tools=tools, gates=gates, model=model, store=store)
    progress = Progress(steps, after=len(run.events))
    return awaited(start, progress, again=options_again(given), answers=answers, trust_log=trust)


def _trust(run: Run, trust_log: bool | None) -> bool | None:
    """Return whether the log of a run counts, which the person is asked at a terminal if it is from elsewhere."""
    if trust_log is not None or run.gives_consent or not is_at_terminal():
        return trust_log
    tell(f"{log_wants(run)}\n{CHOICES}", end="")
    answer = answer_of(sys.stdin.readline())
    if answer is None:
        raise SettingsError("Nothing was resumed", f"agentnb show {run.id} shows the run")
    return answer


def _model(run: Run, workflow: Workflow, given: str | None) -> str | None:
    """Return the model of agents that name none: that of the command line, else that of the log; None leaves it to the log."""
    return chosen_model(workflow, given) if given or not run.settings.get("model") else None
