"""Ends that lie in the reply itself."""

from __future__ import annotations

from agentnb.agent.policies.verdict import Continue, Stop
from agentnb.core.run import Run

CUT = frozenset({"max_tokens", "length", "max_output_tokens", "model_context_window_exceeded"})
"""Stop reasons of providers for a reply that was cut off by a limit of tokens."""
REFUSED = frozenset({"refusal", "content_filter"})
"""Stop reasons of providers for a reply that the model, or a filter before it, refused."""


def person_spoke(run: Run) -> Continue | None:
    """The person has said something that the model has not read yet: it is to read it, whatever it was about to do."""
    if not run.pending:
        return None
    return Continue("tool_results" if run.last_round.records else "said")


def natural_stop(run: Run) -> Stop | None:
    """The model answered without asking for a tool, and the person has said nothing more: the run is complete.

    The presence of calls decides, not the provider's stop reason.
    """
    return None if run.last_round.records or run.pending else Stop("natural")


def reply_cut(run: Run) -> Stop | None:
    """The answer was cut off by a limit of tokens, and no call came through whole."""
    last = run.last_round
    if last.records or last.stop_reason not in CUT:
        return None
    return Stop(
        "reply_cut",
        "failed",
        problem="max tokens reached: the reply was cut off",
        hint="Raise the limit of output tokens, or ask for less at once; the part that came is in run.text",
    )


def refused(run: Run) -> Stop | None:
    """The model declined to answer."""
    last = run.last_round
    return Stop("refusal", "stopped") if not last.records and last.stop_reason in REFUSED else None


def no_call_came(run: Run) -> Stop | None:
    """The provider says that tools were asked for, but no call came, and no word either."""
    last = run.last_round
    if last.status != "unexpected_empty_tools":
        return None
    return Stop(
        "error",
        "failed",
        problem="The reply announced tool calls and held none",
        hint="Go on with --continue, or try another model",
    )
