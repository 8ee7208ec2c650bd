"""Who finds what, and when: the findings of several detectors in one table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from agentnb.core.run import RunFacts
from agentnb.core.work_events import Severity
from agentnb.detect.detector import Finding
from agentnb.detect.finding import Detectors, detect_name, findings
from agentnb.detect.presets.registry import DEFAULT

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


def detections(run: RunFacts, presets: Iterable[Detectors] = (DEFAULT,)) -> list[Detection]:
    """Return what each of these detectors finds, in the order in which it is found."""
    found: list[Detection] = []
    for one in [presets] if isinstance(presets, str) or callable(presets) else presets:
        found += _merged(detect_name(one), findings(run, one))
    return sorted(found, key=lambda one: one.made)


def timeline(run: RunFacts, presets: Iterable[Detectors] = (DEFAULT,)) -> pd.DataFrame:
    """Return one row per finding of these detectors, in the order in which they are found; rounds count from 1.

    ``round`` is the round after which it was first found, ``first`` and ``last`` the rounds that it is about; ``times`` says
    how often it was found, each time with a round more, and ``severity`` is the last one.
    """
    import pandas as pd

    rows = [
        (one.made + 1, one.preset, one.rule, one.family, one.severity, one.first + 1, one.last + 1, one.times, one.sentence)
        for one in detections(run, presets)
    ]
    columns = zip(*rows, strict=True) if rows else [()] * len(COLUMNS)
    return pd.DataFrame(
        {name: pd.Series([*values], dtype=kind) for (name, kind), values in zip(COLUMNS.items(), columns, strict=True)}
    )


def _merged(name: str, found: Iterable[Finding]) -> list[Detection]:
    merged: dict[tuple[str, int], Detection] = {}
    for one in found:
        key = one.rule, one.first
        before = merged.get(key)
        made, times = (one.last, 1) if before is None else (before.made, before.times + 1)
        merged[key] = Detection(name, one.rule, one.family, one.first, made, one.last, one.severity, times, one.sentence)
    return [*merged.values()]
