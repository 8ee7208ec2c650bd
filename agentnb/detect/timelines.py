"""Timelines: the findings of several detectors in one table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from agentnb.core.log.events import AnyEvent
from agentnb.core.log.work_events import Severity
from agentnb.core.run.facts import RunFacts
from agentnb.detect.detector import Finding
from agentnb.detect.frames import frame_from_rows
from agentnb.detect.presets.preset_registry import DEFAULT
from agentnb.detect.run import Run
from agentnb.detect.run_detectors import Detectors, detect_name, detectors_of

if TYPE_CHECKING:
    import pandas as pd


class Detection(NamedTuple):
    """A detector's finding with rounds as indexes. Findings with the same first round are merged, keeping the last sentence."""

    preset: str
    rule: str
    family: str
    first: int
    made: int
    """The round after which it first appeared."""
    last: int
    severity: Severity
    times: int
    sentence: str


COLUMNS = {
    "round": "int64",
    "preset": "str",
    "rule": "str",
    "family": "str",
    "severity": "str",
    "first": "int64",
    "last": "int64",
    "times": "int64",
    "sentence": "str",
}


Presets: TypeAlias = "Detectors | Iterable[Detectors]"
"""Detectors reported separately: names of presets, or your own detectors."""


class WatchedRun(Run):
    """A run that is folded once, while several detectors examine it independently."""

    __slots__ = ("_watches",)

    def __init__(self, presets: Presets = (DEFAULT,)) -> None:
        self._watches = [_Watch(preset) for preset in as_detectors(presets)]
        super().__init__([lambda watch=watch: watch for watch in self._watches])  # type: ignore[misc]  # of each its own

    def detections(self) -> list[Detection]:
        """Return the findings in order of detection. Exceptions of detectors propagate."""
        for _, error in self.take_failures():
            raise error
        return sorted(
            [detection for watch in self._watches for detection in _merge(watch.name, watch.found)], key=lambda one: one.made
        )


class _Watch:
    """Wraps the detectors of a preset and keeps their findings."""

    def __init__(self, preset: Detectors) -> None:
        self.name = detect_name(preset)
        self.found: list[Finding] = []
        self._takes = [make().take for make in detectors_of(preset)]

    def take(self, event: AnyEvent, run: RunFacts) -> Iterable[Finding]:
        """Pass the event to each detector."""
        for take in self._takes:
            if new := take(event, run):
                self.found += new
        return ()


def as_detectors(presets: Presets) -> list[Detectors]:
    """Return the detectors to report separately, as a list."""
    return [presets] if isinstance(presets, str) or callable(presets) else [*presets]


def fold_watched(events: Iterable[AnyEvent], presets: Presets = (DEFAULT,)) -> WatchedRun:
    """Return the run of these events with each detector's findings."""
    run = WatchedRun(presets)
    run.extend(events)
    return run


def detections(run: RunFacts, presets: Presets = (DEFAULT,)) -> list[Detection]:
    """Return each detector's findings in order of detection."""
    return fold_watched(run.events, presets).detections()


def timeline(run: RunFacts, presets: Presets = (DEFAULT,)) -> pd.DataFrame:
    """Return a row per finding of these detectors, in order of detection; rounds count from 1.

    ``round`` is the round after which it first appeared, ``first`` and ``last`` the rounds it covers; ``times`` is how often it
    was detected, each time one round longer, and ``severity`` is the latest.
    """
    rows = [
        {**detection._asdict(), "round": detection.made + 1, "first": detection.first + 1, "last": detection.last + 1}
        for detection in detections(run, presets)
    ]
    return frame_from_rows(rows, COLUMNS)


def _merge(name: str, findings: Iterable[Finding]) -> list[Detection]:
    merged: dict[tuple[str, int], Detection] = {}
    for finding in findings:
        key = finding.rule, finding.first
        before = merged.get(key)
        first_seen, times = (finding.last, 1) if before is None else (before.made, before.times + 1)
        merged[key] = Detection(
            name,
            finding.rule,
            finding.family,
            finding.first,
            first_seen,
            finding.last,
            finding.severity,
            times,
            finding.sentence,
        )
    return [*merged.values()]
