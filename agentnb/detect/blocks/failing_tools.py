"""Failures in a row, and compactions that do not help."""

from __future__ import annotations

from collections.abc import Iterable

from agentnb.core.log.events import AnyEvent, BeforeReply
from agentnb.core.log.work_events import Severity
from agentnb.core.messages import Message
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import WorkflowRound
from agentnb.detect.blocks.detector_bases import NOTHING, Ladder, RoundDetector, RowDetector, ladder_of, severity_at
from agentnb.detect.blocks.signatures import is_transient_failure
from agentnb.detect.detector import Finding
from agentnb.detect.tool_failures import is_failure


class FailingTool(RoundDetector):
    """A tool that fails in ``rounds`` rounds in a row, whatever its arguments. Transient failures do not count."""

    rule = "failing_tool"
    family = "failure"

    def __init__(self, rounds: int | Ladder = 4, severity: Severity = "nudge") -> None:
        self.rounds = ladder_of(rounds, severity)
        self._rows: dict[str, tuple[int, int]] = {}
        """First round and length of the current streak, by tool."""

    def spoke(self, message: Message) -> None:
        """End the streaks."""
        self._rows = {}

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Count a round's failing tools. A success, or a round without the tool, ends its streak."""
        records = one.records
        if not records:
            return ()
        failed = [
            r for r in records if r.result is not None and r.result.is_error and is_failure(r) and not is_transient_failure(r)
        ]
        if not failed:
            if self._rows:
                self._rows = {}
            return ()
        succeeded = {record.call.name for record in records if record.success}
        rows: dict[str, tuple[int, int]] = {}
        findings: tuple[Finding, ...] = ()
        for name in dict.fromkeys(record.call.name for record in failed):
            if name in succeeded:
                continue
            first, count = self._rows.get(name, (one.index, 0))
            rows[name] = first, count + 1
            if (severity := severity_at(self.rounds, count + 1)) is not None:
                error = next(r.result.text for r in failed if r.call.name == name and r.result is not None)[:500]
                sentence = f"{name} failed in {count + 1} rounds in a row"
                findings = (*findings, *self.finding(first, one.index, severity, sentence, {"tool": name, "error": error}))
        self._rows = rows
        return findings


class RoundsWithErrors(RowDetector):
    """Unproductive rounds in a row: every call failed or, with ``silent``, no tool was called."""

    rule = "mistakes"
    family = "failure"

    def __init__(
        self, times: int | Ladder = 3, severity: Severity = "stop", *, failed: bool = True, silent: bool = False
    ) -> None:
        super().__init__(times, severity)
        self.failed, self.silent = failed, silent

    def check_round(self, one: WorkflowRound, run: RunFacts) -> Iterable[Finding]:
        """Count a round."""
        is_mistake = self.silent if not one.records else self.failed and not any(r.success for r in one.records)
        if not is_mistake:
            self._count = 0
            return ()
        predicate = "called no tool" if not self.failed else "had no call that succeeded"
        return self._count_round(one, f"{{}} rounds in a row {predicate}")


class Condensations(RoundDetector):
    """``times`` compactions in a row with no finished round between them."""

    rule = "condensations"
    family = "stall"

    def __init__(self, times: int = 10, severity: Severity = "stop") -> None:
        self.times, self.severity = times, severity
        self._counted = (0, 0)

    def take(self, event: AnyEvent, run: RunFacts) -> Iterable[Finding]:
        """Count the compactions of the open round."""
        if not isinstance(event, BeforeReply):
            return NOTHING
        index, count = run.last_round.index, sum(compaction.compacted is not None for compaction in run.last_round.compactions)
        before, self._counted = self._counted, (index, count)
        if count < self.times or before == self._counted:
            return NOTHING
        sentence = f"The conversation was compacted {count} times in a row with nothing in between"
        return self.finding(index, index, self.severity, sentence)
