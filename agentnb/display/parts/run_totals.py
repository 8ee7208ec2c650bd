"""The totals of a run, counting each round once."""

from __future__ import annotations

from collections.abc import Iterable

from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.run import Run
from agentnb.display.parts.run_problems import Trouble, trouble_of
from agentnb.display.texts.call_labels import state
from agentnb.display.texts.run_figures import call_counts, call_words


class Totals:
    """Counts over rounds. A live view adds each round when it is finished, so that nothing is counted twice."""

    def __init__(self, rounds: Iterable[WorkflowRound] = ()) -> None:
        self.rounds = self.calls = self.blocked = self.failed = self.judged = self.followed = self.retried = 0
        self.cut = self.summed = self.updates = 0
        self.wrong: dict[str, Trouble] = {}
        """Problems by kind. Replaced when it grows; never mutated."""
        for run_round in rounds:
            self.add(run_round)

    def add(self, one: WorkflowRound) -> None:
        """Add a round to the counts."""
        states = [state(record) for record in one.records]
        self.rounds += 1
        calls, updates = call_counts(one.records)
        self.calls += calls
        self.updates += updates
        self.blocked += states.count("blocked")
        self.failed += states.count("failed")
        self.cut += states.count("interrupted")
        self.summed += sum(compaction.compacted is not None and not compaction.problem for compaction in one.compactions)
        self.judged += sum(verdict.followed is not None for verdict in one.followed)
        self.followed += sum(verdict.followed is True for verdict in one.followed)
        self.retried += one.failed_attempts
        more = {kind: count for kind, count in trouble_of(one).items() if count}
        if more:
            grown = {kind: self.wrong.get(kind, Trouble()).and_in(one.index, count) for kind, count in more.items()}
            self.wrong = self.wrong | grown

    def including(self, one: WorkflowRound | None) -> Totals:
        """Return a copy of these totals that includes the open round, if any."""
        totals = Totals()
        vars(totals).update(vars(self))
        if one is not None:
            totals.add(one)
        return totals

    def calls_told(self, run: Run) -> str:
        """Return the number of calls, and of rejected, interrupted and failed ones; empty if there are no calls."""
        counts = ((self.blocked, "rejected"), (self.cut, "interrupted"), (self.failed, "failed"))
        extra = [f"{count:,} {word}" for count, word in counts if count]
        return ", ".join(filter(None, [call_words(run, self.calls, self.updates), *extra]))
