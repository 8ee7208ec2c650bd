"""Calls that repeat: the same call in a row, and cycles of calls."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

from agentnb.core.log.work_events import Severity
from agentnb.core.messages import Message, Thinking
from agentnb.core.run.call_window import call_key
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import CallRecord, WorkflowRound
from agentnb.detect.blocks.detector_bases import Ladder, RoundDetector, WindowDetector, ladder_of, severity_at
from agentnb.detect.blocks.signatures import call_evidence, key_as_written, outcome
from agentnb.detect.detector import Finding

Compared = Literal["call", "name", "as_written"]
"""Comparison of calls: by name and arguments with sorted keys, by name alone, or by the arguments as written."""
Results = Literal["ignored", "same", "errors", "invalid"]
"""Results that count: all; only the same as before; only errors; only calls that did not fit the tool's schema."""


def _comparison_key(record: CallRecord, how: Compared) -> Any:
    if how == "name":
        return record.call.name
    return key_as_written(record.call) if how == "as_written" else call_key(record.call)


def thought_of(one: WorkflowRound) -> str:
    """Return the model's text and thinking, without its calls."""
    return one.text + thinking_of(one)


def thinking_of(one: WorkflowRound) -> str:
    """Return the model's thinking."""
    return "".join([part.text for part in one.reply.parts if isinstance(part, Thinking)]) if one.reply is not None else ""


class RepeatedCall(RoundDetector):
    """The same call several times in a row. ``times``: the count that triggers a finding, or a severity for each of several
    counts.

    ``compare``: how calls are compared; ``results``: which results count; ``with_thought``: a reworded thought makes it a
    different call. A message from the person ends the streak.
    """

    rule = "repeated_call"

    def __init__(
        self,
        times: int | Ladder = 3,
        severity: Severity = "block",
        *,
        compare: Compared = "call",
        results: Results = "ignored",
        with_thought: bool = False,
        exempt: Iterable[str] = (),
        rule: str = "",
    ) -> None:
        self.times = ladder_of(times, severity)
        self.compare, self.results, self.with_thought = compare, results, with_thought
        self.exempt = frozenset(exempt)
        self.rule = rule or self.rule  # type: ignore[misc]  # each detector may name its own
        if results in ("errors", "invalid"):
            self.family = "failure"  # type: ignore[misc]
        self._last: Any = None
        self._count = self._first = 0

    def spoke(self, message: Message) -> None:
        """End the streak."""
        self._last, self._count = None, 0

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Count the calls of a round. A round without calls leaves the streak as it is."""
        findings: tuple[Finding, ...] = ()
        thought = thought_of(one) if self.with_thought else ""
        for record in one.records:
            if record.call.name in self.exempt:
                continue
            if not self._counts(record):
                self._last, self._count = None, 0
                continue
            key = (_comparison_key(record, self.compare), thought, outcome(record.result) if self.results == "same" else 0)
            if key != self._last:
                self._last, self._count, self._first = key, 0, one.index
            self._count += 1
            if (severity := severity_at(self.times, self._count)) is not None:
                findings = self.finding(self._first, one.index, severity, self._sentence(record), call_evidence(record.call))
        return findings

    def _counts(self, record: CallRecord) -> bool:
        result = record.result
        if self.results == "errors":
            return result is not None and result.is_error
        return self.results != "invalid" or (result is not None and result.error_code == "invalid_arguments")

    def _sentence(self, record: CallRecord) -> str:
        subject = f"{record.call.name} was called {self._count} times in a row"
        manner = "whatever its arguments" if self.compare == "name" else "with the same arguments"
        endings = {"same": ", and returned the same each time", "errors": ", and failed each time"}
        return f"{subject} {manner}{endings.get(self.results, '')}"


class CycledCalls(WindowDetector):
    """A cycle of ``lengths`` calls, repeated ``times`` times at the end of the last ``history`` calls."""

    rule = "cycle"

    def __init__(
        self,
        lengths: Iterable[int] = range(1, 6),
        times: int = 5,
        severity: Severity = "nudge",
        *,
        then: Severity | None = None,
        history: int = 25,
        compare: Compared = "call",
        results: Literal["ignored", "same"] = "ignored",
    ) -> None:
        super().__init__(history)
        self.lengths = tuple(length for length in lengths if length * times <= history)
        self.times, self.severity, self.then = times, severity, then or severity
        self.compare, self.results = compare, results
        self._has_found = False

    def spoke(self, message: Message) -> None:
        """Forget the calls."""
        super().spoke(message)
        self._has_found = False

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Process the calls of a round in order."""
        for record in one.records:
            key = (_comparison_key(record, self.compare), outcome(record.result) if self.results == "same" else 0)
            self._last.append((key, one.index))
            length = self._length()
            if not length:
                continue
            severity, self._has_found = (self.then if self._has_found else self.severity), True
            first = self._last[-length * self.times][1]
            names = ", ".join(key[0] if isinstance(key, str) else str(key[0][0]) for key, _ in [*self._last][-length:])
            sentence = f"A cycle of {length} calls was repeated {self.times} times" if length > 1 else ""
            sentence = sentence or f"The same call was made {self.times} times in a row"
            self._last.clear()  # the next finding needs the whole cycle again
            return self.finding(first, one.index, severity, f"{sentence} ({names})", names)
        return ()

    def _length(self) -> int:
        """Return the length of the cycle that ends with the last call; 0 if there is none."""
        keys = [key for key, _ in self._last]
        for length in self.lengths:
            needed = length * self.times
            if len(keys) >= needed and keys[-needed:] == keys[-length:] * self.times:
                return length
        return 0


class AlternatingCalls(WindowDetector):
    """Two different calls alternating, for ``calls`` calls in total: A B A B A B."""

    rule = "alternating"

    def __init__(self, calls: int = 6, severity: Severity = "stop", *, results: Literal["ignored", "same"] = "ignored") -> None:
        super().__init__(calls)
        self.calls, self.severity, self.results = calls, severity, results

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Process the calls of a round."""
        findings: tuple[Finding, ...] = ()
        for record in one.records:
            key = (call_key(record.call), outcome(record.result) if self.results == "same" else 0)
            self._last.append((key, one.index))
            keys = [earlier for earlier, _ in self._last]
            if len(keys) == self.calls and keys[0][0] != keys[1][0] and keys[2:] == keys[:-2]:
                names = f"{keys[0][0][0]} and {keys[1][0][0]}"
                sentence = f"The same two calls alternated for {self.calls} calls ({names})"
                findings = self.finding(self._last[0][1], one.index, self.severity, sentence, names)
        return findings
