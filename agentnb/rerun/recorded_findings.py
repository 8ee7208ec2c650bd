"""Recorded findings of detectors that cannot run again, because they are not in the log or because they ask a model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from agentnb.core.log.events import AnyEvent, RoundFinished
from agentnb.core.log.work_events import FindingMade
from agentnb.core.run.facts import RunFacts
from agentnb.detect.custom import FunctionDetector
from agentnb.detect.detector import DetectorMaker, Finding, finding_of
from agentnb.detect.run_detectors import Detectors, detectors_of


class RecordedFindings:
    """A detector that repeats the findings in a log at the end of the same rounds."""

    def __init__(self, by_round: Mapping[int, Sequence[Finding]]) -> None:
        self._by_round = by_round

    def take(self, event: AnyEvent, run: RunFacts) -> Iterable[Finding]:
        """Return the recorded findings of a finished round."""
        return self._by_round.get(run.last_round.index, ()) if isinstance(event, RoundFinished) else ()


def recorded_findings(run: RunFacts, rule: str | None = None) -> DetectorMaker:
    """Return a factory of detectors that repeat the findings in a run's log, either all or those of one rule."""
    by_round: dict[int, list[Finding]] = defaultdict(list)
    index = 0
    for event in run.events:
        if isinstance(event, RoundFinished):
            index = event.index
        elif isinstance(event, FindingMade) and rule in (None, event.rule):
            by_round[index].append(finding_of(event))
    return partial(RecordedFindings, by_round)


def without_asking(detectors: Detectors, run: RunFacts) -> list[DetectorMaker]:
    """Return the detectors, with those that ask a model replaced by their recorded findings."""
    return [
        recorded_findings(run, detector.name) if isinstance(detector, FunctionDetector) and detector.asks_model else detector
        for detector in detectors_of(detectors)
    ]
