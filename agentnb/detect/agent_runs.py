"""Tells agents' runs, which have rounds and a conversation, from runs that consist of steps."""

from __future__ import annotations

from agentnb.advice import Advised, AnyAdvice, ContinueRun, LoadRun, RerunSteps
from agentnb.core.run.facts import RunFacts
from agentnb.errors import SettingsError

MAX_NAMED = 3
"""Maximum number of nested runs named in a hint."""


def works_in_steps(run: RunFacts) -> bool:
    """True if the run has steps instead of rounds, as a workflow's does."""
    return not run.rounds and (run.kind == "workflow" or bool(run.step_records))


def check_of_agent(run: RunFacts, what: str) -> None:
    """Raise `SettingsError` for a run of steps; the hint names its agents' runs. ``what``: the feature that needs rounds."""
    if not works_in_steps(run):
        return
    kind = "workflow" if run.kind == "agent" else run.kind
    raise SettingsError(f"Run {run.id} is a {kind} with steps instead of rounds: {what}", _runs_of_agents(run))


def _runs_of_agents(run: RunFacts) -> Advised:
    nested = [(step.nested, path) for path, step in run.step_records.items() if step.nested]
    if not nested:
        return "None of its steps ran an agent"
    (first, path), more = nested[0], "".join(f", {name} ({path})" for name, path in nested[1:MAX_NAMED])
    ending = f" ({path}){more}{', ...' if len(nested) > MAX_NAMED else ''}"
    return LoadRun(first, lead="The runs of its steps have rounds", rest=ending)


def how_to_continue(run: RunFacts, *, stored: str = "") -> AnyAdvice:
    """Return advice on continuing a finished run. ``stored``: its id, if it must be loaded first."""
    if works_in_steps(run):
        return RerunSteps(lead="Start a new run at one of its steps")
    return ContinueRun(stored, lead="Continue its conversation")
