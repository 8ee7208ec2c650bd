"""Decisions for resuming an interrupted run, based only on its log: the ones that the dead process would have made."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from agentnb.core.guidance import Guidance
from agentnb.core.log import events as e
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.run import Run
from agentnb.detect.walk import run_before, walk_rounds
from agentnb.policies.verdict import Continue, Policy, Stop, Verdict, decide, reached_limit
from agentnb.runtime.run_end import OF_THE_REPLY


def guidance_of_open_round(policies: Sequence[Policy], run: Run, current: WorkflowRound) -> Sequence[Guidance]:
    """Return the policies' guidance at the start of the open round."""
    *_, last = walk_rounds(run)
    before = run_before(run, last)
    verdict = decide(policies, before) if before.rounds else Continue("prompt")
    return verdict.guidance if isinstance(verdict, Continue) and verdict.reason == current.reason else ()


def is_guidance_drawn(run: Run) -> bool:
    """True if the next round's set has already been drawn, because the process died right after the draw."""
    since = takewhile(lambda event: not isinstance(event, e.RoundStarted), reversed(run.events))
    return any(event is run.drawn for event in since)


def resume_verdict(policies: Sequence[Policy], run: Run) -> Verdict:
    """Return the verdict after the last finished round. A limit or error that ended the run ends it again."""
    if run.limit is not None:
        return Stop(run.limit.limit, "limited", limit=run.limit.value)
    if run.failed_at not in ("", OF_THE_REPLY):
        return Stop("error", "failed")
    if run.pending or (run.last_round.reply is not None and run.last_round.stop_reason != "broken_off"):
        return decide(policies, run)
    # A broken-off reply has no verdict, but it may have been the last that a limit allows.
    return reached_limit(policies, run) or Continue("recovered")
