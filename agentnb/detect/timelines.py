"""Who finds what, and when: the findings of several detectors in one table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from agentnb.core.log.events import AnyEvent
from agentnb.core.log.work_events import Severity
from agentnb.core.run.facts import RunFacts
from agentnb.detect.detector import Finding
from agentnb.detect.finding import Detectors, detect_name, detectors_of
from agentnb.detect.presets.registry import DEFAULT
from agentnb.detect.run import Run

if TYPE_CHECKING:
    import pandas as pd


class Detection(NamedTuple):
    """A finding of a detector; rounds as indexes. Findings that begin in the same round are one, with the last sentence."""

    preset: str
    rule: str
    family: str
    first: int
    made: int
    """The round after which it was first found."""
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
"""Detectors that are told apart: presets by their names, or detectors of your own."""


class WatchedRun(Run):
    """A run in which several detectors look for findings, each for itself, while it is folded once."""

    __slots__ = ("_watches",)

    def __init__(self, presets: Presets = (DEFAULT,)) -> None:
        self._watches = [_Watch(preset) for preset in listed(presets)]
        super().__init__([lambda watch=watch: watch for watch in self._watches])  # type: ignore[misc]  # of each its own

    def detections(self) -> list[Detection]:
        """Return what was found, in the order in which it was found. What a detector raised is raised."""
        for _, error in self.take_failures():
            raise error
        return sorted(
            [detection for watch in self._watches for detection in _merged(watch.name, watch.found)], key=lambda one: one.made
        )


class _Watch:
    """The detectors of one preset as one, which keeps what they find."""

    def __init__(self, preset: Detectors) -> None:
        self.name = detect_name(preset)
        self.found: list[Finding] = []
        self._takes = [make().take for make in detectors_of(preset)]

    def take(self, event: AnyEvent, run: RunFacts) -> Iterable[Finding]:
        """Let each look at the event."""
        for take in self._takes:
            if new := take(event, run):
                self.found += new
        return ()


def listed(presets: Presets) -> list[Detectors]:
    """Return the detectors that are told apart, each by itself."""
    return [presets] if isinstance(presets, str) or callable(presets) else [*presets]


def watched(events: Iterable[AnyEvent], presets: Presets = (DEFAULT,)) -> WatchedRun:
    """Return the run of these events with what each of these detectors finds in it."""
    run = WatchedRun(presets)
    run.extend(events)
    return run


def detections(run: RunFacts, presets: Presets = (DEFAULT,)) -> list[Detection]:
    """Return what each of these detectors finds, in the order in which it is found."""
    return watched(run.events, presets).detections()


def timeline(run: RunFacts, presets: Presets = (DEFAULT,)) -> pd.DataFrame:
    """Return one row per finding of these detectors, in the order in which they are found; rounds count from 1.

    ``round`` is the round after which it was first found, ``first`` and ``last`` the rounds that it is about; ``times`` says
    how often it was found, each time with a round more, and ``severity`` is the last one.
    """
    import pandas as pd

    rows = [
        (
            detection.made + 1,
            detection.preset,
            detection.rule,
            detection.family,
            detection.severity,
            detection.first + 1,
            detection.last + 1,
            detection.times,
            detection.sentence,
        )
        for detection in detections(run, presets)
    ]
    columns = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
    return pd.DataFrame(
        {name: pd.Series([*values], dtype=kind) for (name, kind), values in zip(COLUMNS.items(), columns, strict=True)}
    )


def _merged(name: str, found: Iterable[Finding]) -> list[Detection]:
    merged: dict[tuple[str, int], Detection] = {}
    for finding in found:
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
