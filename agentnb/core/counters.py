"""Counters of a run, so that no policy has to search its history."""

from __future__ import annotations

import dataclasses

from msgspec.structs import replace

from agentnb.core.guidance import CELLS, RoundFacts
from agentnb.core.rounds import WorkflowRound, is_blocked
from agentnb.core.tool_failures import ToolFailures

INTERVENTIONS = frozenset({"open_todos", "planning_only", "strict_todos"})
"""Reasons of a round that an intervention started."""
CONTINUATIONS = frozenset({"workflow_mode", "continue_marker"})
"""Reasons of a round that follows a text-only reply because workflow mode or the model's own marker says so."""
NUDGE = "todo_nudge"


@dataclasses.dataclass(slots=True)
class Counters:
    """Counts over the rounds so far. Only the fold changes them."""

    attempts: int = 0
    """Interventions since a work tool ran or the model completed a todo."""
    planning_only: int = 0
    """Rounds of only planning calls, none completing a todo, since the last work. Text-only rounds neither count nor reset."""
    planning_since: int = 0
    """Index of the first of these rounds; of the last round with calls if there are none."""
    continuations: int = 0
    """Times in a row that workflow mode or a marker continued the run after a text-only reply."""
    nudges: int = 0
    """Rounds that the policy ``minimal`` added because of open todos, in the whole run."""
    strict: int = 0
    """Completions refused because of open todos, in the whole run."""
    ignored: int = 0
    """Times in a row that guidance of the four cells was not followed; where that is unknown, it does not count."""
    repeated: int = 0
    """Repeated answers since the person last spoke."""
    all_blocked: int = 0
    """Rounds whose every call was blocked as a duplicate, with no other call between them."""
    blocked_since: int = 0
    """Index of the first of these rounds; of the last round with calls if there are none."""
    same_batch: int = 0
    """Rounds in a row with exactly the calls of the round before."""
    failures: ToolFailures = dataclasses.field(default_factory=ToolFailures)
    """Counts of failing tools."""

    calls: int = 0
    """Tool calls admitted in the whole run."""
    calls_this_turn: int = 0
    """Tool calls admitted since the person last spoke."""
    spent: float = 0.0
    """US dollars spent on model calls with a known price."""
    spent_inside: float = 0.0
    """US dollars spent by nested runs."""
    times_recovered: int = 0

    def begun(self, reason: str) -> None:
        """Count a round that begins for this reason."""
        if reason in INTERVENTIONS:
            self.attempts += 1
            self.strict += reason == "strict_todos"
        elif reason in CONTINUATIONS:
            self.continuations += 1
        elif reason == NUDGE:
            self.nudges += 1

    def facts(self, one: WorkflowRound, repeats: bool) -> RoundFacts:
        """Return the facts of a round about to end, also beside the last. ``repeats``: whether its answer was given before."""
        facts, failures = one.facts, self.failures
        if failures.tools:
            again = {"made_again": failures.made_again(one), "failed_again": failures.failed_again(one)}
            return replace(facts, repeats=repeats, **again)
        return replace(facts, repeats=repeats) if repeats else facts  # the usual case

    def ended(self, one: WorkflowRound, same_batch: bool) -> None:
        """Count a round that has ended."""
        self.failures.ended(one)
        if one.records:
            self._called(one, same_batch)
        if one.completed:
            self.attempts = 0
        if one.said_before is not None:
            self.repeated += 1
        for guidance, verdict in zip(one.guidance, one.followed, strict=True):
            if verdict.followed is not None and guidance.cell in CELLS:
                self.ignored = 0 if verdict.followed else self.ignored + 1

    def _called(self, one: WorkflowRound, same_batch: bool) -> None:
        self.continuations = 0
        self.same_batch = self.same_batch + 1 if same_batch else 0
        is_work = worked = False
        blocked = True
        for record in one.records:  # one plain loop: it runs in every round
            if record.is_work:
                is_work = True
                worked = worked or record.ran
            blocked = blocked and is_blocked(record)
        self.planning_only = 0 if is_work or one.completed else self.planning_only + 1
        self.all_blocked = self.all_blocked + 1 if blocked else 0
        if self.planning_only <= 1:
            self.planning_since = one.index
        if self.all_blocked <= 1:
            self.blocked_since = one.index
        if worked:
            self.attempts = 0

    def person_spoke(self) -> None:
        """Reset what is counted in a row: the person has said something new."""
        self.attempts = self.planning_only = self.continuations = self.ignored = 0
        self.repeated = self.all_blocked = self.same_batch = self.calls_this_turn = 0
        self.failures.person_spoke()
