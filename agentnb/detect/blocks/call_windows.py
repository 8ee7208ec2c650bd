"""Frequent patterns among the last calls or rounds."""

from __future__ import annotations

from collections.abc import Iterable

from agentnb.core.log.work_events import Severity
from agentnb.core.messages import Message
from agentnb.core.run.call_window import call_key
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.blocks.detector_bases import RoundDetector, WindowDetector
from agentnb.detect.blocks.signatures import Key, call_evidence, step_key, words_of_name
from agentnb.detect.detector import Finding

READS = frozenset({"read", "list", "ls", "glob", "grep", "search", "find", "view", "cat", "show", "get", "open", "fetch"})
"""Words in the names of tools that only read."""


class FrequentCall(WindowDetector):
    """The same call ``times`` times among the last ``window`` calls."""

    rule = "frequent_call"

    def __init__(self, times: int = 4, window: int = 8, severity: Severity = "block") -> None:
        super().__init__(window)
        self.times, self.severity = times, severity

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Process the calls of a round."""
        findings: tuple[Finding, ...] = ()
        for record in one.records:
            rounds = self._rounds_with(call_key(record.call), one.index)
            if len(rounds) >= self.times:
                sentence = f"The same call to {record.call.name} makes up {len(rounds)} of the last {len(self._last)} calls"
                findings = self.finding(rounds[0], one.index, self.severity, sentence, call_evidence(record.call))
        return findings


class FrequentStep(WindowDetector):
    """More than ``most`` rounds with the same calls and the same results among the last ``window`` rounds with calls."""

    rule = "frequent_step"

    def __init__(self, most: int = 5, window: int = 10, severity: Severity = "stop") -> None:
        super().__init__(window)
        self.most, self.severity = most, severity

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Compare a round with the previous ones."""
        if not one.records:
            return ()
        rounds = self._rounds_with(step_key(one), one.index)
        if len(rounds) <= self.most:
            return ()
        names = ", ".join(call.name for call in one.calls)
        sentence = f"{len(rounds)} of the last {len(self._last)} rounds made the same calls with the same results ({names})"
        return self.finding(rounds[0], one.index, self.severity, sentence, names)


class RepeatedBatch(RoundDetector):
    """``times`` consecutive rounds, including the first, whose calls all occur in the previous round."""

    rule = "repeated_batch"

    def __init__(self, times: int = 3, severity: Severity = "block") -> None:
        self.times, self.severity = times, severity
        self._batch: frozenset[Key] = frozenset()
        self._count = self._first = 0

    def spoke(self, message: Message) -> None:
        """End the streak."""
        self._batch, self._count = frozenset(), 0

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Compare a round's calls with the previous round's. A round without calls ends the streak."""
        batch = frozenset([call_key(record.call) for record in one.records])
        if not batch or not batch <= self._batch:
            self._count, self._first = 0, one.index
        self._batch = batch
        self._count += bool(batch)
        if self._count < self.times:
            return ()
        names = ", ".join(call.name for call in one.calls)
        sentence = f"{self._count} rounds in a row only repeated calls of the previous round ({names})"
        return self.finding(self._first, one.index, self.severity, sentence, names)


class MostlyReading(WindowDetector):
    """At least ``least`` of the last ``window`` calls only read, after another tool was called."""

    rule = "mostly_reading"
    family = "stall"

    def __init__(self, least: int = 8, window: int = 15, severity: Severity = "stop", reads: Iterable[str] = READS) -> None:
        super().__init__(window)
        self.least, self.severity, self.reads = least, severity, frozenset(reads)
        self._has_worked = False

    def spoke(self, message: Message) -> None:
        """Forget the calls."""
        super().spoke(message)
        self._has_worked = False

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Process the calls of a round."""
        findings: tuple[Finding, ...] = ()
        for record in one.records:
            reads = not self.reads.isdisjoint(words_of_name(record.call))
            self._has_worked = self._has_worked or not reads
            count = len(self._rounds_with(reads, one.index))
            if reads and self._has_worked and count >= self.least:
                sentence = f"{count} of the last {len(self._last)} calls only read"
                findings = self.finding(self._last[0][1], one.index, self.severity, sentence)
        return findings
