"""Verdicts, and how they are reached."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import msgspec
from msgspec.structs import replace

from agentnb.core.events import Status
from agentnb.core.guidance import Guidance
from agentnb.core.run import Run
from agentnb.core.todos import has_open, listed, open_todos

MAX_LISTED = 40
"""Open todos that a warning lists."""


class Continue(msgspec.Struct, frozen=True, gc=False):
    """Another round, for this reason. ``message`` is what the model is told if nothing else asks it to go on, by default
    the built-in prompt ``continue``; ``guidance`` is said with the next request, before that of the guides.
    Every limit caps it.
    """

    reason: str
    message: str | None = None
    guidance: tuple[Guidance, ...] = ()


class LoopFinding(NamedTuple):
    """How a run repeats itself: the rule that saw it, the rounds, and a sentence."""

    rule: str
    first: int
    last: int
    sentence: str


class Stop(msgspec.Struct, frozen=True):
    """The run is over. ``stop_reason`` and ``status`` are what the run will show."""

    stop_reason: str
    status: Status = "completed"
    limit: float | None = None
    """The value of the limit that was reached, if that is why."""
    problem: str = ""
    hint: str = ""
    """What went wrong and what to do, if the run failed."""
    loop: LoopFinding | None = None
    """The loop it was found in, if that is why."""
    warning: str = ""
    """What the person should know all the same."""


Verdict: TypeAlias = Continue | Stop
Policy: TypeAlias = Callable[[Run], "Verdict | None"]


@dataclass(frozen=True, slots=True)
class OnTextOnly:
    """Asks these policies, in order, but only when the reply is words alone."""

    policies: tuple[Policy, ...]

    def __call__(self, run: Run) -> Verdict | None:
        """The first verdict any of them gives."""
        if run.last_round.records:
            return None
        for policy in self.policies:
            verdict = policy(run)
            if verdict is not None:
                return verdict
        return None


def decide(policies: Iterable[Policy], run: Run) -> Verdict:
    """The first verdict any policy gives; without one the run goes on. A limit also stops what a policy wants to go on.

    A stop that leaves todos open says so.
    """
    first: Verdict | None = None
    for policy in policies:
        verdict = policy(run)
        if verdict is None:
            continue
        if isinstance(verdict, Stop) and (first is None or verdict.limit is not None):
            return _validated(verdict, run)
        first = first or verdict
    return first or Continue("tool_results" if run.last_round.records else "said")


def _validated(stop: Stop, run: Run) -> Stop:
    if stop.warning or not run.todos or not has_open(run.todos):
        return stop
    left = open_todos(run.todos)
    noun = "1 todo is" if len(left) == 1 else f"{len(left)} todos are"
    return replace(stop, warning=f"{noun} still open:\n{listed(left, MAX_LISTED)}")
