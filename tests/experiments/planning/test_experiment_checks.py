"""Checks: built-in names, functions of the run and its row, and expectations."""

from __future__ import annotations

from typing import Any

import pytest
from small_experiments import was_called

from agentnb import Agent, load_trace, within
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.experiments.planning.experiment_checks import Check, read_checks, values_of
from agentnb.models.scripted import ScriptedModel


def talk(*texts: str) -> Run:
    return Agent(ScriptedModel([*texts])).run_sync("go", show=False)


def checks(*given: Any, primary: Any = "answered") -> tuple[Check, ...]:
    problems: list[str] = []
    found, _ = read_checks(given, primary, problems)
    assert not problems
    return found


def test_built_in_checks_evaluate_the_run(subtests: pytest.Subtests) -> None:
    healthy, failing = load_trace("healthy"), load_trace("complex-fails")
    cases = {
        "answered": (True, True),
        "passed": (None, None),
        "score": (None, None),
        "todos_closed": (True, True),
        "no_loops": (True, False),
        "rounds <= 8": (False, True),
    }
    for name, expected in cases.items():
        with subtests.test(name):
            (check,) = checks(primary=name)
            found = tuple([values_of([check], run, {})[0][check.name] for run in (healthy, failing)])
            assert found == expected, found


def test_limit_check_passes_fails_or_is_unknown() -> None:
    run = talk("first", "second")
    rounds = len(run.rounds)
    assert within(rounds=rounds)(run) is True and within(rounds=rounds - 1)(run) is False
    unknown = load_trace("healthy")
    assert unknown.cost is None and within(cost=1.0)(unknown) is None and within(cost=1.0, rounds=1)(unknown) is False
    assert within(cost=0.05, rounds=8).__name__ == "within cost 0.05, rounds 8"
    with pytest.raises(SettingsError, match="needs a limit"):
        within()


def test_check_function_receives_the_row_if_requested() -> None:
    def of_row(run: Any, row: Any) -> float:
        return row["weight"] / 2

    def of_run(run: Any, least: int = 3) -> bool:
        return len(run.rounds) < least

    run = talk("text")
    values, errors = values_of(checks(of_row, of_run, primary=of_row), run, {"weight": 3})
    assert values == {"of_row": 1.5, "of_run": True} and not errors


def test_unusable_check_value_is_an_error_of_the_check() -> None:
    def words(run: Any) -> str:
        return "fine"

    values, errors = values_of(checks(words, primary=words), talk("text"), {})
    assert values == {"words": None} and "returned 'fine'" in errors["words"]


def test_checks_annotated_as_bool_are_binary() -> None:
    def sure(run: Any) -> bool:
        return True

    found = {check.name: check.is_binary for check in checks(sure, was_called, "score", "rounds < 3", within(rounds=3))}
    assert found == {
        "sure": True, "was_called": True, "score": False, "rounds < 3": True, "within rounds 3": True, "answered": True,
    }  # fmt: skip
