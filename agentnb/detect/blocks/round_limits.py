"""Round limits like those of other products: the point at which they would have ended a run regardless."""

from __future__ import annotations

from collections.abc import Iterable

from agentnb.core.log.work_events import Severity
from agentnb.core.messages import Message
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.blocks.detector_bases import RoundDetector
from agentnb.detect.detector import Finding


class RoundLimit(RoundDetector):
    """The run reached ``most`` rounds, or the share ``warn_at`` of them, at which the person is asked. Each is reported once.

    ``each_turn``: count rounds from the person's last message.
    """

    rule = "round_limit"
    family = "limit"

    def __init__(
        self,
        most: int,
        severity: Severity = "stop",
        *,
        warn_at: float | None = None,
        each_turn: bool = False,
        unit: str = "rounds",
    ) -> None:
        self.most, self.severity, self.each_turn, self.unit = most, severity, each_turn, unit
        self.warned_from = None if warn_at is None else round(most * warn_at)
        self._count = self._first = 0

    def spoke(self, message: Message) -> None:
        """Restart the count if it is per turn."""
        if self.each_turn:
            self._count = 0

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Count a round."""
        if not self._count:
            self._first = one.index
        self._count += 1
        if self._count == self.most:
            return self.finding(self._first, one.index, self.severity, f"The limit of {self.most:,} {self.unit} is reached")
        if self._count == self.warned_from:
            return self.finding(self._first, one.index, "notice", f"{self._count:,} of {self.most:,} {self.unit} are used")
        return ()
