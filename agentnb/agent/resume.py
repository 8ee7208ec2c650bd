"""What to do with a run that another process has died over: decided from its log, as that process had decided it."""

from __future__ import annotations

from collections.abc import Sequence

from agentnb.core import events as e
from agentnb.core.guidance import Guidance
from agentnb.core.rounds import WorkflowRound
from agentnb.core.run import Run
from agentnb.policies import Continue, Policy, Stop, Verdict, decide

OF_THE_REPLY = "reply"
"""Where an error lies that is a verdict on the reply: it is reached again from the same rounds."""


def guidance_of(policies: Sequence[Policy], run: Run, current: WorkflowRound) -> Sequence[Guidance]:
    """What the policies wanted said in the open round when it was begun."""
    events = run.events
    start = max(place for place, event in enumerate(events) if isinstance(event, e.RoundStarted))
    before = Run.from_events(events[:start])
    why = decide(policies, before) if before.rounds else Continue("prompt")
    return why.guidance if isinstance(why, Continue) and why.reason == current.reason else ()


def resume_verdict(policies: Sequence[Policy], run: Run) -> Verdict:
    """What to do after its last round, which is over. What had ended the run, ends it."""
    if run.limit is not None:
        return Stop(run.limit.limit, "limited", limit=run.limit.value)
    failed = next((event for event in reversed(run.events) if isinstance(event, e.ErrorRaised)), None)
    if failed is not None and failed.where != OF_THE_REPLY:
        return Stop("error", "failed")
    if run.pending or (run.last_round.reply is not None and run.last_round.stop_reason != "broken_off"):
        return decide(policies, run)
    # Of a reply that is not whole nothing can be said but that it was the last there may be.
    verdicts = (policy(run) for policy in policies)
    limits = (one for one in verdicts if isinstance(one, Stop) and one.limit is not None)
    return next(limits, Continue("recovered"))
