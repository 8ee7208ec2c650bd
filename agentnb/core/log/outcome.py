"""The outcome of a run: assessments of success, their sources, and the rule for combining them.

The state of a run is the way it ended; the outcome is its success at the task. Neither is derived from the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isclose
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

Outcome: TypeAlias = Literal["passed", "failed", "unknown"]
"""Success of a run at its task. ``unknown``: no assessment, or a score between zero and full marks."""
Source: TypeAlias = Literal["trace", "expectation", "check", "label"]
"""Sources of assessments in ascending priority: recorded in the trace, an expectation, a check of the experiment, a manual
label."""
SOURCES: tuple[Source, ...] = get_args(Source)
FULL_MARKS = 1.0
"""Score for complete success, unless the format defines another."""
BY_LABEL: dict[str, Outcome] = {"healthy": "passed", "failed": "failed"}
"""Outcomes by label. Other labels, such as names of failures, have no outcome."""


class Assessment(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The outcome of a run according to one source."""

    outcome: Outcome
    source: Source
    name: str = ""
    """Name of the score, field or expectation, or the author of the label."""
    score: float | None = None
    """The score, if any."""


def outcome_of(score: float, *, full_marks: float = FULL_MARKS, threshold: float | None = None) -> Outcome:
    """Return the outcome for a score. ``threshold``: the minimum score to pass.

    Without a threshold, only full marks pass, and 0 or less fails. A score above full marks is on another scale, so its
    outcome is unknown.
    """
    if threshold is not None:
        return "passed" if score >= threshold else "failed"
    return "passed" if isclose(score, full_marks) else "failed" if score <= 0 else "unknown"


def with_threshold(assessment: Assessment, threshold: float) -> Assessment:
    """Return the assessment with its outcome under this threshold; unchanged if it has no score."""
    if assessment.score is None:
        return assessment
    return replace(assessment, outcome=outcome_of(assessment.score, threshold=threshold))


def deciding_assessment(assessments: Iterable[Assessment]) -> Assessment | None:
    """Return the assessment that counts, or None if there are none.

    The source with the highest priority wins, regardless of when it assessed the run. Several assessments by that source are
    combined: their outcome is unknown unless all agree.
    """
    candidates = [*assessments]
    if not candidates:
        return None
    source = max(candidates, key=lambda one: SOURCES.index(one.source)).source
    winners = [assessment for assessment in candidates if assessment.source == source]
    if len(winners) == 1:
        return winners[0]
    outcomes, scores = {assessment.outcome for assessment in winners}, {assessment.score for assessment in winners}
    names = dict.fromkeys(assessment.name for assessment in winners if assessment.name)
    return Assessment(
        winners[0].outcome if len(outcomes) == 1 else "unknown",
        source,
        ", ".join(names),
        winners[0].score if len(scores) == 1 else None,
    )
