"""Runs of agents, which have rounds and a conversation, told from runs that work in steps."""

from __future__ import annotations

from agentnb.core.run import RunFacts
from agentnb.errors import SettingsError

MAX_NAMED = 3
"""Nested runs that a hint names."""


def works_in_steps(run: RunFacts) -> bool:
    """Return whether the run has steps instead of rounds, as that of a workflow has."""
    return not run.rounds and (run.kind == "workflow" or bool(run.step_records))


def check_of_agent(run: RunFacts, what: str) -> None:
    """Raise `SettingsError` for a run that works in steps; the hint names runs of its agents. ``what``: what needs rounds."""
    if not works_in_steps(run):
        return
    nested = [f"{one.nested} ({path})" for path, one in run.step_records.items() if one.nested]
    more = ", ..." if len(nested) > MAX_NAMED else ""
    runs = f"Its steps' own runs have them, with load_trace or %agent load: {', '.join(nested[:MAX_NAMED])}{more}"
    hint = runs if nested else "None of its steps was the run of an agent"
    kind = "workflow" if run.kind == "agent" else run.kind
    raise SettingsError(f"Run {run.id} is a {kind}, which has steps and no rounds: {what}", hint)


def how_to_continue(run: RunFacts) -> str:
    """Return what to type about a run that has ended."""
    if not works_in_steps(run):
        return "Continue its conversation: %%agent --continue"
    return "Begin a new one at one of its steps: %%workflow --rerun-from STEP, wf.run(rerun_from=STEP, of=run)"
