"""The values of rows, from the end of the run and the kind of check."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from run_builder import Story

from agentnb.core.log.events import ErrorRaised, RunError
from agentnb.core.log.outcome import Assessment
from agentnb.core.log.work_events import OutcomeGiven
from agentnb.detect.run import Run
from agentnb.experiments.planning.experiment_checks import read_checks, within
from agentnb.experiments.results.rows import Row, row_of

ENDS = {
    "completed": ("completed", "natural"),
    "limited": ("limited", "max_rounds"),
    "by a policy": ("stopped", "loop_detected"),
    "by a person": ("cancelled", "cancelled"),
    "killed": ("interrupted", "interrupted"),
}


def ended(status: str, stop_reason: str = "") -> Run:
    return Story().called("look").said().over(status, stop_reason).run  # type: ignore[arg-type]


def provider_failed() -> Run:
    return Story().called("look").failed().run


def refused_by_policy() -> Run:
    story = Story().called("look").said()
    story.add(ErrorRaised, error=RunError("invalid_output", "It does not fit"), where="reply")
    return story.over("failed", "invalid_output").run  # type: ignore[arg-type]


def fits(run: Run) -> bool:
    return True


def error_of(run: Run) -> float:
    return -5.0


def unknown(run: Run) -> Any:
    return None


def raises(run: Run) -> bool:
    raise KeyError("area")


def nan(run: Run) -> float:
    return float("nan")


def infinite(run: Run) -> float:
    return float("inf")


def row(run: Run, check: Any) -> tuple[Row, str]:
    problems: list[str] = []
    checks, name = read_checks((), check, problems)
    assert not problems
    named = {"key": "k", "task": "t", "variant": "a", "model": "m", "repeat": 0, "seed": 0}
    return msgspec.json.decode(msgspec.json.encode(row_of(run, checks, {}, **named)), type=Row), name


def test_value_depends_on_the_run_outcome_and_the_check(subtests: pytest.Subtests) -> None:
    runs = {name: ended(*end) for name, end in ENDS.items()}
    runs |= {"provider": provider_failed(), "by a verdict on its reply": refused_by_policy()}
    cut_short, lost = ("limited", "by a policy", "by a verdict on its reply"), ("by a person", "killed", "provider")
    cases: dict[str, tuple[Any, float, float | None]] = {
        "a pass": (fits, 1.0, 0.0),
        "a number": (error_of, -5.0, None),
        "the answer": ("text == 'Well.'", 1.0, 0.0),
        "no loop": ("no_loops", 1.0, 1.0),
        "an expectation of the record": ("rounds < 8", 1.0, 1.0),
        "an expectation that fails": ("rounds < 2", 0.0, 0.0),
        "limits": (within(rounds=8), 1.0, 1.0),
        "a measure": ("rounds", 2.0, 2.0),
    }
    for what, (check, whole, short) in cases.items():
        for end, run in runs.items():
            with subtests.test(f"{what}, {end}"):
                found, name = row(run, check)
                expected = None if end in lost else short if end in cut_short else whole
                assert found.value(name) == expected
                if expected is None:
                    assert found.state(name) == ("failed" if end in lost else "unknown")


def test_recorded_outcome_counts_however_the_run_ended(subtests: pytest.Subtests) -> None:
    for end in (*ENDS.values(), ("failed", "error")):
        for outcome, score in (("passed", 1.0), ("failed", 0.0)):
            with subtests.test(f"{outcome}, {end[0]}"):
                story = Story().said().add(OutcomeGiven, assessment=Assessment(outcome, "trace", "reward", score))  # type: ignore[arg-type]
                run = story.over(*end).run  # type: ignore[arg-type]
                for check in ("passed", "score"):
                    found, name = row(run, check)
                    assert found.value(name) == score and found.state(name) == "scored"


def test_run_without_a_recorded_outcome_fails_only_when_cut_short() -> None:
    values = {name: row(ended(*end), "passed")[0].value("passed") for name, end in ENDS.items()}
    assert values == {"completed": None, "limited": 0.0, "by a policy": 0.0, "by a person": None, "killed": None}


def test_non_numeric_value_is_missing_with_its_reason(subtests: pytest.Subtests) -> None:
    for check, reason in ((unknown, "returned no value"), (raises, "KeyError: 'area'"), (nan, "no value"), (infinite, "inf")):
        with subtests.test(check.__name__):
            found, name = row(ended("completed"), check)
            assert found.value(name) is None and found.state(name) == "unknown" and reason in found.why_missing(name)
    lost, name = row(provider_failed(), fits)
    assert lost.why_missing(name) == "The provider is overloaded"


def test_rows_of_earlier_versions_also_consider_the_run_outcome() -> None:
    known = {"key": "k", "task": "t", "variant": "a", "model": "m", "repeat": 0, "seed": 0, "values": {"ok": True, "n": 2.0}}
    values = {status: [Row(status=status, **known).value(name) for name in known["values"]] for status in ("limited", "failed")}  # type: ignore[attr-defined]
    assert values == {"limited": [0.0, None], "failed": [None, None]}


def test_row_records_missing_tools() -> None:
    assert not row(ended("completed"), fits)[0].has_tools
    found = Story().begun()
    call = found.call("look_up")
    assert row(found.replied(call).ran(call, "tool not found", error_code="unknown_tool").ended().over().run, fits)[
        0
    ].lacked == ("look_up",)
