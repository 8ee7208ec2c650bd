"""The outcome of a run: assessments of its success, their sources, and the rule that decides between them.

The state of a run says how it ended, the outcome whether it did its task. Neither is guessed from the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import isclose
from typing import Literal, TypeAlias, get_args

import msgspec
from msgspec.structs import replace

Outcome: TypeAlias = Literal["passed", "failed", "unknown"]
"""Success of a run at its task. ``unknown``: without any assessment, or with a score between none and full marks."""
Source: TypeAlias = Literal["trace", "expectation", "check", "label"]
"""Kinds of assessments, in the order in which a later one wins: recorded in the trace, an expectation, a check of
its experiment, a label by hand."""
SOURCES: tuple[Source, ...] = get_args(Source)
FULL_MARKS = 1.0
"""The score of a run that did all that it should, unless its format has another."""
BY_LABEL: dict[str, Outcome] = {"healthy": "passed", "failed": "failed"}
"""The labels that say an outcome; others, such as names of failures, say none."""


class Assessment(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The outcome of a run by one source."""

    outcome: Outcome
    source: Source
    name: str = ""
    """The name of the score or the field, the expectation, or whose label it is."""
    score: float | None = None
    """The score, if one was given."""


def outcome_of(score: float, *, full_marks: float = FULL_MARKS, threshold: float | None = None) -> Outcome:
    """Return the outcome that a score says. ``threshold``: the least score that passes.

    Without it, only full marks pass, and 0 or less fails. A score above full marks is of another scale, and says neither.
    """
    if threshold is not None:
        return "passed" if score >= threshold else "failed"
    return "passed" if isclose(score, full_marks) else "failed" if score <= 0 else "unknown"


def with_threshold(assessment: Assessment, threshold: float) -> Assessment:
    """Return the assessment with the outcome that its score says under this threshold; without a score, as it is."""
    if assessment.score is None:
        return assessment
    return replace(assessment, outcome=outcome_of(assessment.score, threshold=threshold))


def deciding(assessments: Iterable[Assessment]) -> Assessment | None:
    """Return the assessment that counts; None without any.

    The last kind of source that says something wins, whenever it was said. Several of that kind count together: their outcome
    is unknown unless all say the same.
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
