"""The offer to replay a failed run under ``matrix``: a command or, in a notebook, a button."""

from __future__ import annotations

from agentnb.advice import USUAL_OUT, ReplayRun
from agentnb.detect.agent_runs import works_in_steps
from agentnb.detect.run import Run
from agentnb.display.texts.labels import clean, short_id
from agentnb.display.texts.states import invocation_of, is_foreign

FAILED_ENDS = frozenset({"limited", "stopped"})
"""Statuses of runs that ended before their model was done; guidance cannot help if the model itself failed."""


def is_offered(run: Run) -> bool:
    """True if the run ended badly or failed its task, without ``matrix`` guidance and policy, and has rounds to replay."""
    has_failed = run.status in FAILED_ENDS or (not run.should_continue and run.outcome == "failed")
    policy, words = (run.settings.get(key) or {} for key in ("policy", "guidance"))
    has_matrix = policy.get("name") == words.get("set") == "matrix"
    return has_failed and bool(run.rounds) and not (has_matrix or works_in_steps(run))


def replay_offer(run: Run, variable: str = "") -> ReplayRun | None:
    """Return the advice to replay the run, if offered.

    ``variable``: an expression for the run; by default, the variable of its cell, or `USUAL_OUT`.
    """
    if not is_offered(run):
        return None
    by, stored = invocation_of(run), "" if is_foreign(run) else clean(short_id(run.id))
    return ReplayRun(
        lead="Show what guidance would have changed",
        run=stored,
        variable=variable or by.out or USUAL_OUT,
        by=None if is_foreign(run) else by,
    )
