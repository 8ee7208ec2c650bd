"""Frequent patterns among the last calls or rounds."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from typing import Any

from agentnb.core.log.work_events import Severity
from agentnb.core.messages import Message
from agentnb.core.run.call_window import call_key
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.blocks.detector_bases import RoundDetector
from agentnb.detect.blocks.signatures import Key, call_evidence, step_key
from agentnb.detect.detector import Finding

READS = frozenset({"read", "list", "ls", "glob", "grep", "search", "find", "view", "cat", "show", "get", "open", "fetch"})
"""Words in the names of tools that only read."""
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+")


class FrequentCall(RoundDetector):
    """The same call ``times`` times among the last ``window`` calls."""

    rule = "frequent_call"

    def __init__(self, times: int = 4, window: int = 8, severity: Severity = "block") -> None:
        self.times, self.severity = times, severity
        self._last: deque[tuple[Key, int]] = deque(maxlen=window)

    def spoke(self, message: Message) -> None:
        """Forget the calls."""
        self._last.clear()

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Process the calls of a round."""
        findings: tuple[Finding, ...] = ()
        for record in one.records:
            key = call_key(record.call)
            self._last.append((key, one.index))
            rounds = [index for earlier, index in self._last if earlier == key]
            if len(rounds) >= self.times:
                sentence = f"The same call to {record.call.name} makes up {len(rounds)} of the last {len(self._last)} calls"
                findings = self.finding(rounds[0], one.index, self.severity, sentence, call_evidence(record.call))
        return findings


class FrequentStep(RoundDetector):
    """More than ``most`` rounds with the same calls and the same results among the last ``window`` rounds with calls."""

    rule = "frequent_step"

    def __init__(self, most: int = 5, window: int = 10, severity: Severity = "stop") -> None:
        self.most, self.severity = most, severity
        self._last: deque[tuple[Any, int]] = deque(maxlen=window)

    def spoke(self, message: Message) -> None:
        """Forget the rounds."""
        self._last.clear()

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Compare a round with the previous ones."""
        if not one.records:
            return ()
        key = step_key(one, with_results=True)
        self._last.append((key, one.index))
        rounds = [index for earlier, index in self._last if earlier == key]
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


class MostlyReading(RoundDetector):
    """At least ``least`` of the last ``window`` calls only read, after another tool was called."""

    rule = "mostly_reading"
    family = "stall"

    def __init__(self, least: int = 8, window: int = 15, severity: Severity = "stop", reads: Iterable[str] = READS) -> None:
        self.least, self.severity, self.reads = least, severity, frozenset(reads)
        self._last: deque[tuple[bool, int]] = deque(maxlen=window)
        self._has_worked = False

    def spoke(self, message: Message) -> None:
        """Forget the calls."""
        self._last.clear()
        self._has_worked = False

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Process the calls of a round."""
        findings: tuple[Finding, ...] = ()
        for record in one.records:
            reads = not self.reads.isdisjoint([word.lower() for word in _WORDS.findall(record.call.name)])
            self._has_worked = self._has_worked or not reads
            self._last.append((reads, one.index))
            count = sum(read for read, _ in self._last)
            if reads and self._has_worked and count >= self.least:
                sentence = f"{count} of the last {len(self._last)} calls only read"
                findings = self.finding(self._last[0][1], one.index, self.severity, sentence)
        return findings
