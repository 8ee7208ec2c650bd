"""Calls that bring nothing new: the same calls with the same results, in any order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import takewhile

from agentnb.core.log.work_events import Severity
from agentnb.core.messages import Message
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import CallRecord, WorkflowRound, is_blocked
from agentnb.detect.blocks.detector_bases import RoundDetector
from agentnb.detect.blocks.signatures import Key, call_evidence, is_lost, is_transient_failure, is_waiting, key_of, outcome
from agentnb.detect.detector import Finding

Signature = tuple[Key, int]
MAX_REMEMBERED_CALLS = 64
"""Maximum number of call and result pairs to remember; longer cycles go undetected."""


class NothingNew(RoundDetector):
    """A stretch of repeated calls with unchanged results, each ``times`` times on average.

    A A A is found at the third call, A B A B A B at the sixth, and likewise for A B C in any order. A new call, a new result or
    a message from the person ends the stretch, so rerunning a test after an edit, rereading a changed file, and a poll whose
    answer changes are not loops. Waiting calls (`is_waiting`) count only beyond ``waits`` in a row, and transient failures,
    such as a 503, only beyond ``retries``. After the first finding, each further repetition raises the severity: nudge, block,
    stop.
    """

    rule = "nothing_new"

    def __init__(self, times: int = 3, *, waits: int = 30, retries: int = 5) -> None:
        self.times, self.waits, self.retries = times, waits, retries
        self._seen: dict[Signature, int] = {}
        """The round in which each signature first appeared."""
        self._by_call: dict[Key, int] = {}
        """Last result of each remembered call."""
        self._new: deque[Signature] = deque(maxlen=MAX_REMEMBERED_CALLS)
        """Consecutive new calls immediately before the stretch."""
        self._stretch: set[Signature] = set()
        self._repeats = self._first = self._excused = 0
        """Number of calls in the stretch, its first round, and its number of legitimate repeats."""

    def spoke(self, message: Message) -> None:
        """Forget all calls: the person's message is new input."""
        self._seen.clear()
        self._by_call.clear()
        self._end_stretch()

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Process the calls of a round. Identical calls within one reply count once."""
        records = one.records
        if not records:
            return ()
        if len(records) == 1:
            return self._take(records[0], one.index, run)
        findings: tuple[Finding, ...] = ()
        signatures: set[Signature] = set()
        for record in records:
            signature = key_of(record.call, run), outcome(record.result)
            if signature not in signatures:
                signatures.add(signature)
                findings = (*findings, *self._take(record, one.index, run))
        return findings[-1:]

    def _take(self, record: CallRecord, index: int, run: RunFacts) -> tuple[Finding, ...]:
        key = key_of(record.call, run)
        result = self._by_call.get(key, 0) if is_blocked(record) else outcome(record.result)
        signature = (key, result)
        if signature not in self._seen:
            if self._repeats or self._excused:
                self._end_stretch()
            self._remember(signature, index)
            return ()
        if self._is_excused(record):
            return ()
        if not self._repeats:
            self._first = index
        self._repeats += 1
        self._stretch.add(signature)
        before = self._made_before()
        call_count = self._repeats + len(before)
        if call_count < self.times * len(self._stretch):
            return ()
        first = min([self._first, *[self._seen[earlier] for earlier in before]])
        return self._tell(record, (first, index), call_count // len(self._stretch))

    def _made_before(self) -> list[Signature]:
        """Return the calls of the stretch that were new immediately before it and have been made only once so far."""
        return [*takewhile(self._stretch.__contains__, reversed(self._new))]

    def _tell(self, record: CallRecord, rounds: tuple[int, int], times: int) -> tuple[Finding, ...]:
        severity: Severity = "nudge" if times == self.times else "block" if times == self.times + 1 else "stop"
        names = ", ".join(dict.fromkeys(sorted(key[0] for key, _ in self._stretch)))
        subject = f"same call to {names}" if len(self._stretch) == 1 else f"same {len(self._stretch)} calls ({names})"
        predicate = "came without a recorded result" if is_lost(record) else "returned the same"
        sentence = f"The {subject} {predicate} {times} times with nothing new in between"
        return self.finding(*rounds, severity, sentence, call_evidence(record.call))

    def _is_excused(self, record: CallRecord) -> bool:
        """True if the call may repeat: it waits or retries a transient failure, within its limit."""
        most = self.retries if is_transient_failure(record) else self.waits if is_waiting(record) else 0
        if self._excused >= most:
            return False
        self._excused += 1
        return True

    def _end_stretch(self) -> None:
        self._new.clear()
        self._stretch.clear()
        self._repeats = self._excused = 0

    def _remember(self, signature: Signature, index: int) -> None:
        seen = self._seen
        if len(seen) == MAX_REMEMBERED_CALLS:
            oldest = next(iter(seen))
            del seen[oldest]
            if self._by_call.get(oldest[0]) == oldest[1]:
                del self._by_call[oldest[0]]
        seen[signature] = index
        self._by_call[signature[0]] = signature[1]
        self._new.append(signature)
