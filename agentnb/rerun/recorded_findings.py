"""What detectors found in a run when it was made, for those that cannot look again: they are in no log, or ask a model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from agentnb.core.log.events import AnyEvent, RoundFinished
from agentnb.core.log.work_events import FindingMade
from agentnb.core.run.facts import RunFacts
from agentnb.detect.custom import FunctionDetector
from agentnb.detect.detector import DetectorMaker, Finding
from agentnb.detect.finding import Detectors, detectors_of


class RecordedFindings:
    """A detector that finds again, at the end of the same rounds, what a log says was found there."""

    def __init__(self, by_round: Mapping[int, Sequence[Finding]]) -> None:
        self._by_round = by_round

    def take(self, event: AnyEvent, run: RunFacts) -> Iterable[Finding]:
        """Return what was found when this round was over."""
        return self._by_round.get(run.last_round.index, ()) if isinstance(event, RoundFinished) else ()


def recorded_findings(run: RunFacts, rule: str | None = None) -> DetectorMaker:
    """Return what makes a detector of the findings in the log of a run: all of them, or those of one rule."""
    by_round: dict[int, list[Finding]] = defaultdict(list)
    index = 0
    for event in run.events:
        if isinstance(event, RoundFinished):
            index = event.index
        elif isinstance(event, FindingMade) and rule in (None, event.rule):
            by_round[index].append(Finding(*[getattr(event, name) for name in Finding.__struct_fields__]))
    return partial(RecordedFindings, by_round)


def without_asking(detectors: Detectors, run: RunFacts) -> list[DetectorMaker]:
    """Return these detectors; for each that asks a model its recorded findings."""
    return [
        recorded_findings(run, detector.name) if isinstance(detector, FunctionDetector) and detector.asks_model else detector
        for detector in detectors_of(detectors)
    ]
