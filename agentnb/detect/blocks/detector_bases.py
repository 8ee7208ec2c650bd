"""Base classes and severity ladders of detectors that examine each finished round."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from agentnb.core.log.events import AnyEvent, RoundFinished
from agentnb.core.log.work_events import Severity
from agentnb.core.messages import Message
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.detector import Finding

NOTHING: tuple[Finding, ...] = ()
Ladder = Mapping[int, Severity]
"""Severities by the count from which they apply: ``{3: "nudge", 5: "stop"}``."""


class RoundDetector:
    """Examines each finished round. Subclasses implement `check_round`, with state that does not grow with the run."""

    rule: ClassVar[str] = ""
    family: ClassVar[str] = "loop"

    def take(self, event: AnyEvent, run: RunFacts) -> Iterable[Finding]:
        """Process an event."""
        if type(event) is RoundFinished:
            return self.check_round(run.last_round, run)
        if (message := event.person_message) is not None:
            self.spoke(message)
        return NOTHING

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Return findings about the round that has just ended."""
        raise NotImplementedError(f"{type(self).__name__} must implement check_round")

    def spoke(self, message: Message) -> None:
        """Process a message from the person: new input, which ends all streaks."""

    def finding(self, first: int, last: int, severity: Severity, sentence: str, evidence: Any = None) -> tuple[Finding, ...]:
        """Return a finding about the rounds ``first`` to ``last``."""
        return (Finding(self.rule, self.family, first, last, severity, sentence, evidence),)


class RowDetector(RoundDetector):
    """Counts consecutive rounds, and reports ``times`` or more of them. Any message from the person ends the streak."""

    def __init__(self, times: int | Ladder = 3, severity: Severity = "stop") -> None:
        self.times, self.severity = ladder_of(times, severity), severity
        self._count = self._first = 0

    def spoke(self, message: Message) -> None:
        """End the streak."""
        self._count = 0

    def _count_round(self, current: WorkflowRound, words: str, evidence: Any = None) -> tuple[Finding, ...]:
        """Add a round to the streak, starting one if necessary. ``words``: the finding's, with {} for the streak's length."""
        if not self._count:
            self._first = current.index
        self._count += 1
        if (severity := severity_at(self.times, self._count)) is None:
            return NOTHING
        return self.finding(self._first, current.index, severity, words.format(self._count), evidence)


class WindowDetector(RoundDetector):
    """Compares the last ``window`` calls or rounds, each by a key. Any message from the person forgets them."""

    def __init__(self, window: int) -> None:
        self._last: deque[tuple[Any, int]] = deque(maxlen=window)
        """The keys, each with its round."""

    def spoke(self, message: Message) -> None:
        """Forget the calls or rounds."""
        self._last.clear()

    def _rounds_with(self, key: Any, index: int) -> list[int]:
        """Remember a key and its round; return the rounds with this key."""
        self._last.append((key, index))
        return [at for earlier, at in self._last if earlier == key]


def severity_at(ladder: Ladder, count: int) -> Severity | None:
    """Return the severity for this count, or None below the first threshold."""
    reached = [threshold for threshold in ladder if count >= threshold]
    return ladder[max(reached)] if reached else None


def ladder_of(at: Ladder | int, severity: Severity) -> dict[int, Severity]:
    """Return thresholds with their severities; a bare number is a single threshold."""
    return dict(at) if isinstance(at, Mapping) else {at: severity}


def is_new_input(message: Message, last: str) -> bool:
    """True if a message is new input. A message from another agent is new only if it differs from the last message.

    In conversations of several agents, a proxy often answers every reply with the same words.
    """
    return not message.author or message.text != last
