"""States of runs, and the words for them on cards, in lists and in tables."""

from __future__ import annotations

from typing import Literal, NamedTuple, TypeAlias

from agentnb.core.log.events import NO_STORE
from agentnb.core.log.outcome import Outcome
from agentnb.core.messages import pluralize
from agentnb.core.run.approvals import ended_at_question, waits_for_drafts
from agentnb.core.run.rounds import UNCHECKED
from agentnb.core.todos import has_open
from agentnb.detect.run import Run

STATES = {
    "running": "Running",
    "waiting_on_user": "Waiting for you",
    "completed": "Done",
    "limited": "Limit reached",
    "stopped": "Ended",
    "cancelled": "Stopped by you",
    "interrupted": "Interrupted",
    "unknown": "End not recorded",
    "failed": "Failed",
}
"""The word for each status."""
OF_OTHERS = {"cancelled": "Stopped", "waiting_on_user": "Waiting for its user"}
"""Words for the states of foreign runs that differ from `STATES`."""
TODOS_OPEN, NOT_CHECKED, PLAN_REJECTED = "Done, todos open", "Done, not checked", "Plan rejected"
ENDED_UNCHECKED = "Ended, unchecked"

Tone: TypeAlias = Literal["good", "neutral", "warn"]


class RunState(NamedTuple):
    """The facts that determine the words for a run's state, taken from the run or its summary."""

    status: str
    stop_reason: str = ""
    limit_value: float | None = None
    """The value of the limit that ended the run; ``stop_reason`` names the limit."""
    todos_open: bool = False
    paused: bool = False
    """True if the run is waiting without an open question."""
    foreign: bool = False
    """True if another product recorded the run."""
    failed_calls: int = 0
    blocked_calls: int = 0
    """Number of calls refused by a gate, a limit or the person."""
    substitutes: int = 0
    """Number of steps that failed and used a substitute."""
    plan_rejected: bool = False
    """True if the run's last plan was rejected."""
    outcome: Outcome | None = None
    """The outcome, or None if the run was not checked."""


def state_of(run: Run) -> RunState:
    """Return the state of a run."""
    limit = run.limit
    if ended_at_question(run) and not waits_for_drafts(run):
        return RunState("stopped", NO_STORE)
    return RunState(
        run.status,
        (limit.limit if run.status == "limited" and limit is not None else run.stop_reason) or "",
        limit.value if limit is not None else None,
        has_open(run.todos),
        not run.waiting,
        run.origin is not None,
        run.failed_calls,
        run.blocked_calls,
        run.substitutes,
        run.is_plan_rejected,
        None if run.assessment is None else run.outcome,
    )


def end_word(state: RunState) -> str:
    """Return the state of a run without its limit or reason, such as ``Done, todos open`` or ``Limit reached``."""
    word = STATES.get(state.status, state.status)
    if state.status == "completed":
        return completion(state)[1]
    if state.status == "waiting_on_user" and not state.foreign:
        return "Paused" if state.paused else word
    return OF_OTHERS.get(state.status, word) if state.foreign else word


def completion(state: RunState) -> tuple[Tone, str]:
    """Return the tone and words for a completed run. The tone is good only if the run was checked and passed.

    A recorded outcome is shown next to these words.
    """
    done_word = STATES["completed"]
    substitute = "a substitute" if state.substitutes == 1 else "substitutes"
    cases: tuple[tuple[bool, Tone, str], ...] = (
        (state.plan_rejected, "warn", PLAN_REJECTED),
        (state.todos_open, "warn", TODOS_OPEN),
        (state.outcome == "passed", "good", done_word),
        (state.failed_calls > 0, "warn", f"{done_word}, {pluralize(state.failed_calls, 'call')} failed"),
        (state.blocked_calls > 0, "warn", f"{done_word}, {pluralize(state.blocked_calls, 'call')} rejected"),
        (state.substitutes > 0, "warn", f"{done_word}, {pluralize(state.substitutes, 'step')} used {substitute}"),
        (state.outcome is not None, "neutral", done_word),
        (state.stop_reason == UNCHECKED, "neutral", ENDED_UNCHECKED),
    )
    return next(((tone, words) for holds, tone, words in cases if holds), ("neutral", NOT_CHECKED))


def kind_of_counted_calls(state: RunState) -> Literal["failed", "rejected", "substituted", ""]:
    """Return the kind of calls, or of steps, that the words for the state count, or an empty text."""
    if state.status != "completed" or state.plan_rejected or state.todos_open or state.outcome == "passed":
        return ""
    if state.failed_calls:
        return "failed"
    return "rejected" if state.blocked_calls else "substituted" if state.substitutes else ""
