"""What detectors have in common that look at each round when it is over."""

from __future__ import annotations

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
"""The severity from a count on: ``{3: "nudge", 5: "stop"}``."""


class RoundDetector:
    """Looks at each round when it is over. Subclasses say what they find, with state that does not grow with the run."""

    rule: ClassVar[str] = ""
    family: ClassVar[str] = "loop"

    def take(self, event: AnyEvent, run: RunFacts) -> Iterable[Finding]:
        """Take in an event."""
        if type(event) is RoundFinished:
            return self.finished(run.last_round, run)
        if (message := event.person_message) is not None:
            self.spoke(message)
        return NOTHING

    def finished(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Return what is found now that this round is over."""
        raise NotImplementedError(f"{type(self).__name__} does not say what it finds: write its finished")

    def spoke(self, message: Message) -> None:
        """Take in what the person said: there is something new, and rows of repeats end."""

    def found(self, first: int, last: int, severity: Severity, sentence: str, evidence: Any = None) -> tuple[Finding, ...]:
        """Return one finding in the rounds ``first`` to ``last``."""
        return (Finding(self.rule, self.family, first, last, severity, sentence, evidence),)


class RowDetector(RoundDetector):
    """Counts rounds in a row. Anything that the person says ends the row."""

    def __init__(self) -> None:
        self._count = self._first = 0

    def spoke(self, message: Message) -> None:
        """End the row."""
        self._count = 0

    def _counted(self, one: WorkflowRound) -> int:
        """Add a round to the row, which it begins if there is none; return how many it has now."""
        if not self._count:
            self._first = one.index
        self._count += 1
        return self._count


def severity_at(ladder: Ladder, count: int) -> Severity | None:
    """Return the severity of this count; None below the first threshold."""
    reached = [threshold for threshold in ladder if count >= threshold]
    return ladder[max(reached)] if reached else None


def ladder_of(at: Ladder | int, severity: Severity) -> dict[int, Severity]:
    """Return thresholds with their severities; a bare number is the one threshold."""
    return {at: severity} if isinstance(at, int) else dict(at)


def is_new_input(message: Message, last: str) -> bool:
    """Return whether a message is something new. What another agent says is new only if it has not just said the same.

    Conversations of several agents often have a proxy that answers every reply with the same words.
    """
    return not message.author or message.text != last
