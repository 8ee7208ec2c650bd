"""Calls of which nothing new comes: the same calls with the same results, in any order."""

from __future__ import annotations

from collections.abc import Iterable

from agentnb.core.events import CommandReceived
from agentnb.core.rounds import CallRecord, WorkflowRound
from agentnb.core.run import RunFacts
from agentnb.core.work_events import Severity
from agentnb.detect.blocks.rounds import RoundDetector
from agentnb.detect.blocks.signatures import Key, is_blocked_repeat, is_transient_failure, is_waiting, key_of, outcome, shown
from agentnb.detect.detector import Finding

Signature = tuple[Key, int]
MEMORY = 64
"""Calls with different results that are remembered: a cycle of more of them is not seen."""


class NothingNew(RoundDetector):
    """A stretch of calls that were all made before, with the results that they had before: each ``times`` times on average.

    So A A A is found at the third call, A B A B A B at the sixth, and A B C in any order likewise. Another call, another result
    or a message of the person is something new and ends the stretch: running a test again after an edit, reading a file again
    after it changed, and a poll whose answer changes are no loops. Calls that wait (`is_waiting`) count only beyond ``waits``
    in a row, and failures that may pass, such as a 503, only beyond ``retries``. From the first finding on, each further time
    that nothing new comes raises the severity: nudge, block, stop.
    """

    rule = "nothing_new"

    def __init__(self, times: int = 3, *, waits: int = 30, retries: int = 5) -> None:
        self.times, self.waits, self.retries = times, waits, retries
        self._seen: dict[Signature, int] = {}
        """The round in which each was new."""
        self._by_call: dict[Key, int] = {}
        """The last result of each call that is remembered."""
        self._stretch: dict[Signature, int] = {}
        """How often each call was made in the stretch, the last new call included."""
        self._new: Signature | None = None
        self._repeats = self._first = self._excused = 0

    def spoke(self, event: CommandReceived) -> None:
        """Forget all calls: the person has said something new."""
        self._seen.clear()
        self._by_call.clear()
        self._begin(None, 0)

    def finished(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Take in the calls of a round; the same call twice in one reply counts once."""
        records = one.records
        if not records:
            return ()
        if len(records) == 1:
            return self._take(records[0], one.index, run)
        found: tuple[Finding, ...] = ()
        made: set[Signature] = set()
        for record in records:
            signature = key_of(record.call, run), outcome(record.result)
            if signature not in made:
                made.add(signature)
                found = (*found, *self._take(record, one.index, run))
        return found[-1:]

    def _take(self, record: CallRecord, index: int, run: RunFacts) -> tuple[Finding, ...]:
        key = key_of(record.call, run)
        result = self._by_call.get(key, 0) if is_blocked_repeat(record) else outcome(record.result)
        signature = (key, result)
        if signature not in self._seen:
            self._remember(signature, index)
            self._begin(signature, index)
            return ()
        if self._is_excused(record):
            return ()
        self._repeats += 1
        self._stretch[signature] = self._stretch.get(signature, 0) + 1
        reached = self._repeats + self._began_with
        if reached < self.times * len(self._stretch):
            return ()
        return self._tell(record, index, reached // len(self._stretch))

    def _tell(self, record: CallRecord, index: int, times: int) -> tuple[Finding, ...]:
        severity: Severity = "nudge" if times == self.times else "block" if times == self.times + 1 else "stop"
        names = ", ".join(dict.fromkeys(key[0] for key, _ in self._stretch))
        if len(self._stretch) == 1:
            sentence = f"The same call of {names} returned the same {times} times, and nothing new came in between"
        else:
            sentence = (
                f"The same {len(self._stretch)} calls ({names}) returned the same {times} times, with nothing new between"
            )
        return self.found(self._first_round(), index, severity, sentence, shown(record.call))

    def _first_round(self) -> int:
        """Return the round of the first of these calls; of those that were new long before the stretch, its begin."""
        earliest = self._first - len(self._stretch)
        return min([index for index in map(self._seen.__getitem__, self._stretch) if index >= earliest] or [self._first])

    @property
    def _began_with(self) -> int:
        """1 if the call with which the stretch began was made again in it."""
        return self._new is not None and self._new in self._stretch

    def _is_excused(self, record: CallRecord) -> bool:
        """Return whether the call may be made again: it waits, or tries again what may pass, and not too often."""
        most = self.retries if is_transient_failure(record) else self.waits if is_waiting(record) else 0
        self._excused += 1
        return self._excused < most

    def _begin(self, new: Signature | None, index: int) -> None:
        self._new, self._first = new, index
        self._repeats = self._excused = 0
        if self._stretch:
            self._stretch = {}

    def _remember(self, signature: Signature, index: int) -> None:
        seen = self._seen
        if len(seen) == MEMORY:
            oldest = next(iter(seen))
            del seen[oldest]
            if self._by_call.get(oldest[0]) == oldest[1]:
                del self._by_call[oldest[0]]
        seen[signature] = index
        self._by_call[signature[0]] = signature[1]
