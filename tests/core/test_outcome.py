"""The outcome of a run: its sources, and facts that do not decide it."""

from __future__ import annotations

import json
from typing import get_args

import pytest
from run_builder import RunBuilder

from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.event import Status
from agentnb.core.log.outcome import Assessment, deciding_assessment, outcome_of
from agentnb.core.log.wire import decode, encode
from agentnb.errors import TraceError

FAILED = Assessment("failed", "trace", "reward", 0.0)
EXPECTED = Assessment("passed", "expectation", "rounds == 1")
LABEL = Assessment("failed", "label", "ada")


def test_scores_between_zero_and_full_marks_need_a_threshold(subtests: pytest.Subtests) -> None:
    cases = {0.0: "failed", -1.0: "failed", 1.0: "passed", 0.9999999999: "passed", 0.5: "unknown", 7.0: "unknown"}
    for score, outcome in cases.items():
        with subtests.test(str(score)):
            assert outcome_of(score) == outcome
    assert [outcome_of(score, threshold=0.5) for score in (0.49, 0.5, 0.51)] == ["failed", "passed", "passed"]
    assert outcome_of(7.0, full_marks=10) == "unknown" and outcome_of(10.0, full_marks=10) == "passed"


def test_stronger_kind_of_source_decides_the_outcome(subtests: pytest.Subtests) -> None:
    cases = {
        "trace alone": ((FAILED,), FAILED),
        "an expectation over a trace": ((FAILED, EXPECTED), EXPECTED),
        "said before the trace": ((EXPECTED, FAILED), EXPECTED),
        "a label over all": ((LABEL, EXPECTED, FAILED), LABEL),
        "nothing": ((), None),
    }
    for name, (given, decided) in cases.items():
        with subtests.test(name):
            assert deciding_assessment(given) == decided
            builder = RunBuilder().round("Done.")
            for one in given:
                if one.source != "label":
                    builder.add(w.OutcomeGiven, assessment=one)
            builder.run.set_labels([one for one in given if one.source == "label"])
            run = builder.run
            assert {*run.assessments} == {*given}
            assert (run.outcome, run.outcome_from) == ((decided.outcome, decided.source) if decided else ("unknown", None))


def test_several_assessments_of_one_kind_are_combined() -> None:
    passed, styled = Assessment("passed", "trace", "accuracy", 1.0), Assessment("passed", "trace", "style", 1.0)
    assert deciding_assessment([FAILED, passed]) == Assessment("unknown", "trace", "reward, accuracy")
    assert deciding_assessment([passed, styled]) == Assessment("passed", "trace", "accuracy, style", 1.0)


def test_same_source_replaces_its_earlier_assessment() -> None:
    builder = RunBuilder().round("Done.")
    for outcome in ("failed", "passed"):
        builder.add(w.OutcomeGiven, assessment=Assessment(outcome, "expectation", "rounds == 1"))
    assert [assessment.outcome for assessment in builder.run.assessments] == ["passed"]


def test_status_alone_has_no_outcome(subtests: pytest.Subtests) -> None:
    for status in get_args(Status):
        with subtests.test(status):
            builder = RunBuilder().round("Done.")
            if status not in ("running", "waiting_on_user", "interrupted"):
                builder.add(e.RunFinished, status=status, stop_reason="any")
            assert (builder.run.outcome, builder.run.score, builder.run.outcome_from) == ("unknown", None, None)


def test_threshold_applies_to_scores_only() -> None:
    builder = RunBuilder().round("Done.").add(w.OutcomeGiven, assessment=Assessment("unknown", "trace", "reward", 0.5))
    builder.run.set_threshold(0.5)
    assert (builder.run.outcome, builder.run.score) == ("passed", 0.5)
    builder.add(w.OutcomeGiven, assessment=EXPECTED)
    builder.run.set_threshold(2.0)
    assert builder.run.outcome == "passed"


def test_score_out_of_range_is_refused() -> None:
    builder = RunBuilder().round("Done.").add(w.OutcomeGiven, assessment=Assessment("passed", "trace", "reward", 0.25))
    with pytest.raises(TraceError, match=r"Number out of range - at `\$.assessment.score`"):
        decode(encode(builder.events[-1]).replace(b"0.25", b"1e999"))


def test_logged_assessment_has_only_known_fields() -> None:
    builder = RunBuilder().round("Done.").add(w.OutcomeGiven, assessment=Assessment("passed", "trace", "is_correct"))
    assert json.loads(encode(builder.events[-1]))["assessment"] == {
        "outcome": "passed",
        "source": "trace",
        "name": "is_correct",
    }
