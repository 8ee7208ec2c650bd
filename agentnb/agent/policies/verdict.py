"""Verdicts, and how they are reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import msgspec

from agentnb.core.events import Status
from agentnb.core.run import Run


class Continue(msgspec.Struct, frozen=True):
    """Another round, for this reason. ``message`` is what the model is told if nothing else asks it to go on, by default
    the built-in prompt ``continue``. Every limit caps it.
    """

    reason: str
    message: str | None = None


class Stop(msgspec.Struct, frozen=True):
    """The run is over. ``stop_reason`` and ``status`` are what the run will show."""

    stop_reason: str
    status: Status = "completed"
    limit: float | None = None
    """The value of the limit that was reached, if that is why."""
    problem: str = ""
    hint: str = ""
    """What went wrong and what to do, if the run failed."""


Verdict: TypeAlias = Continue | Stop
Policy: TypeAlias = Callable[[Run], "Verdict | None"]


def decide(policies: Iterable[Policy], run: Run) -> Verdict:
    """The first verdict any policy gives; without one the run goes on. A limit also stops what a policy wants to go on."""
    first: Verdict | None = None
    for policy in policies:
        verdict = policy(run)
        if isinstance(verdict, Stop) and (first is None or verdict.limit is not None):
            return verdict
        first = first or verdict
    return first or Continue("tool_results" if run.rounds[-1].records else "said")
