"""Resumes runs of other processes in a shell, until they end or ask their next question."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from functools import partial
from typing import Any

from agentnb.advice import Invocation
from agentnb.agent.from_log import is_trusted
from agentnb.cli.command import Outcome
from agentnb.cli.inputs import find_gates, find_tools
from agentnb.cli.mcp_files import servers_of
from agentnb.cli.terminal.run_progress import Progress
from agentnb.cli.terminal.standard_streams import complain
from agentnb.cli.terminal.terminal_questions import ask, is_at_terminal
from agentnb.cli.workflow_options import options_again
from agentnb.cli.workflow_runs import await_run, chosen_model, top_steps
from agentnb.detect.run import Run
from agentnb.display.texts.foreign_log import ANSWER_UNUSED, decide_trust
from agentnb.models.destinations.allowed_urls import allow_urls
from agentnb.session.recovery import begin_recovery, is_workflow
from agentnb.store.store import Store
from agentnb.workflow.workflow import Workflow


def resume(run: Run, store: Store, args: Namespace, answers: Mapping[str, Any] | None = None) -> Outcome:
    """Resume a run of this store with the tools and model from the command line, and return the command's outcome.

    Tools and gates default to those of the command that started the run. ``answers``: answers to its open questions, by id.
    """
    allow_urls(args.allow_urls)
    can_ask = is_at_terminal() and not args.no_input
    trust = decide_trust(run, args.trust_log, ask if can_ask else None, show=f"agentnb show {run.id}")
    if trust is False and answers:
        complain(ANSWER_UNUSED)
        answers = None
    before = _started_with(run)
    args.tools, args.gate = args.tools or [*before.tools], args.gate or [*before.gates]
    tools, gates, model = find_tools(args.tools), find_gates(args.gate), args.model
    steps: list[str] = []
    if is_workflow(run):
        workflow = Workflow.of_run(run, tools=tools)
        model = _model(run, workflow, model)
        steps = top_steps(workflow)
    start = partial(begin_recovery, run.id, tools=tools, gates=gates, model=model, store=store)
    progress = Progress(steps, after=len(run.events))
    with servers_of(args.mcp, asks=can_ask):
        return await_run(start, progress, again=options_again(args), answers=answers, trust_log=trust)


def _started_with(run: Run) -> Invocation:
    """Return the options of the command that started the run. Empty for a log from elsewhere, since options name modules to
    import.
    """
    by = run.invocation
    return by if by is not None and by.surface == "shell" and is_trusted(run) else Invocation()


def _model(run: Run, workflow: Workflow, name: str | None) -> str | None:
    """Return the model for agents without one: that of the command line, or None to keep the model in the log."""
    return chosen_model(workflow, name) if name or not run.settings.get("model") else None
