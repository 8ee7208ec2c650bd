"""Our own rules: few in number, each for one kind of trouble, and fast enough for live runs."""

from __future__ import annotations

from collections.abc import Iterable
from inspect import signature
from typing import Any

from agentnb.core.log.events import AnyEvent, RoundFinished, RunFinished, TodosChanged
from agentnb.core.run.facts import RunFacts
from agentnb.detect.blocks.detector_bases import NOTHING, RoundDetector
from agentnb.detect.blocks.failing_tools import FailingTool
from agentnb.detect.blocks.near_repeat import NearRepeat
from agentnb.detect.blocks.nothing_new import NothingNew
from agentnb.detect.blocks.run_ends import ClaimAgainstRecord, EmptyAnswer, EndDetector
from agentnb.detect.blocks.texts import MIN_SIMILARITY, Embed, RepeatedText, UnheededMessage
from agentnb.detect.blocks.todo_discipline import PlanningOnly, ReopenedTodo, TalkWithOpenTodos
from agentnb.detect.detector import Finding
from agentnb.detect.presets.preset import Preset, Source, rule


class Default:
    """The rules of `default` in a single detector, which examines each event once.

    Loops: `NothingNew` and `NearRepeat` for calls, `RepeatedText` for replies. Stalls: `PlanningOnly`, `TalkWithOpenTodos` and
    `UnheededMessage`. Failures: `FailingTool`. Discipline: `ReopenedTodo`. Ends: `EmptyAnswer` and `ClaimAgainstRecord`.
    ``texts=False`` omits all comparisons of texts; ``alike`` and ``embed`` are passed to `RepeatedText`.
    """

    def __init__(self, *, texts: bool = True, embed: Embed | None = None, alike: float = MIN_SIMILARITY) -> None:
        self._reopened, self._near = ReopenedTodo(), NearRepeat({3: "nudge", 5: "block", 7: "stop"})
        self._ends: tuple[EndDetector, ...] = (EmptyAnswer(), ClaimAgainstRecord())
        self._rules: tuple[RoundDetector, ...] = (
            NothingNew(),
            FailingTool({4: "nudge", 6: "block", 8: "stop"}),
            PlanningOnly(),
            TalkWithOpenTodos({3: "nudge", 5: "stop"}),
            *([RepeatedText(embed=embed, alike=alike), UnheededMessage()] if texts else []),
            *self._ends,
        )
        self._looks = tuple([rule.check_round for rule in self._rules])  # bound once: this runs in every round

    @property
    def rule_names(self) -> tuple[str, ...]:
        """The names of its rules."""
        return tuple(self.thresholds)

    @property
    def thresholds(self) -> dict[str, dict[str, Any]]:
        """The arguments of its rules, by rule name."""
        rules = (*self._rules, self._near, self._reopened)
        return {
            detector.rule: {
                name: value for name, value in vars(detector).items() if name in signature(type(detector)).parameters
            }
            for detector in rules
        }

    def take(self, event: AnyEvent, run: RunFacts) -> Iterable[Finding]:
        """Process an event."""
        kind = type(event)
        findings: tuple[Finding, ...] = NOTHING
        if kind is RoundFinished:
            finished_round = run.last_round
            for look in self._looks:
                if more := look(finished_round, run):
                    findings = (*findings, *more)
            near_repeats = self._near.check_round(finished_round, run)
            # Report the same calls once.
            if near_repeats and not any(finding.family == self._near.family for finding in findings):
                findings = (*findings, *near_repeats)
        elif kind is TodosChanged or kind is RunFinished:
            for rule_detector in (self._reopened, *self._ends):
                findings = (*findings, *rule_detector.take(event, run))
        elif (message := event.person_message) is not None:
            for rule_detector in (*self._rules, self._near):
                rule_detector.spoke(message)
        return findings


PRESETS = (
    Preset(
        "default",
        Source("agentnb", file="agentnb/detect/presets/default.py"),
        (rule(Default),),
        "Repeated calls or replies with nothing new in between, failing tools, planning or talk instead of work",
    ),
    Preset(
        "default_without_texts",
        Source("agentnb", file="agentnb/detect/presets/default.py"),
        (rule(Default, texts=False),),
        "The same without the comparison of replies, in a tenth of the time",
    ),
)
