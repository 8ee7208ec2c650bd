"""Experiments that draw guidance sets by round: their arm, frozen and refused settings, and their lift."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from small_experiments import ASKS, CHATTY, PLAIN, TwoRounds, check_line, rows, small

from agentnb import Agent, Experiment, GuidanceSet, Matrix, Workflow, compare, lift, load_traces
from agentnb.errors import ExperimentProblems, SettingsError
from agentnb.experiments.form.yaml_reader import read_experiment
from agentnb.experiments.rounds.lift import OF_EFFECT
from agentnb.experiments.views.results_view import results_text
from agentnb.guidance.draws import draws_of

SETTINGS: dict[str, Any] = {"agent": {"tools": [check_line], "max_rounds": 6}, "primary": "answered"}


def by_round(count: int = 6, variants: Any = None, **settings: Any) -> Any:
    return small(count, variants, **{**SETTINGS, "assign": "round", **settings})


def test_each_run_draws_from_all_sets_round_by_round(tmp_path: Path) -> None:
    results = by_round(12, repeats=2, folder=tmp_path / "exp").run_sync(show=False)
    assert results.variants == ("drawn",) and len(results.rows) == 24
    runs = load_traces(tmp_path / "exp")
    draws = [draws_of(run) for run in runs]
    assert all([event.round for event in each] == [*range(len(each))] for each in draws)
    assert {event.set for each in draws for event in each} == {"off", "matrix"}
    assert {event.propensity for each in draws for event in each} == {0.5}
    assert len({tuple(event.set for event in each[:4]) for each in draws}) > 6, "each run draws by the seed of its cell"
    frozen = results.plan.frozen
    assert (frozen["assign"], frozen["near_outcome"], [*frozen["arms"]]) == ("round", "followed", ["drawn"])
    again = by_round(12, repeats=2).run_sync(show=False)
    sequences = [{row.key: sets_of(each, row.run_id) for row in each.rows} for each in (results, again)]
    assert sequences[0] == sequences[1]


def sets_of(results: Any, run_id: str) -> list[str]:
    return [event.set for event in draws_of(results.run(run_id))]


def test_lift_of_results_uses_the_planned_outcome_and_clusters() -> None:
    """Personas that heed every request for a call, and nothing else."""
    tasks = [{**row, "cluster": f"c{place % 12}"} for place, row in enumerate(rows(48))]
    sets = {"off": "off", "asks": GuidanceSet("asks", ASKS)}
    heeding = {"models": ["simulated:chatty?p=0.7&heed=1"], "near_outcome": "call_worked"}
    results = Experiment(tasks, sets, folder=False, assign="round", **{**SETTINGS, **heeding}).run_sync(show=False)
    planned = lift(results)
    assert {*planned["outcome"]} == {"call_worked"} and {*planned["claim"]} == {"effect"} and {*planned["against"]} == {"off"}
    assert planned["tasks"].max() == 12, "clusters count, not their tasks"
    other = lift(results, outcome="followed")
    assert other["note"].str.startswith(OF_EFFECT).all() and other["note"].str.endswith("outcome is call_worked").all()
    row = other.query("kind == 'todos_tools'").iloc[0]
    assert row["share"] == 1.0 and row["lift_low"] > 0.2 and row["p_adjusted"] < 0.05
    from_runs = lift([results.run(row.run_id) for row in results.rows], outcome="call_worked")
    pd.testing.assert_series_equal(from_runs["lift"], planned["lift"])


def test_results_of_drawn_rounds_cannot_compare_runs(tmp_path: Path) -> None:
    experiment = by_round(folder=tmp_path / "exp")
    assert (
        "number of draws of each kind" in repr(experiment.design()) and experiment.design(pass_rate=0.5).minimum_effect is None
    )
    results = experiment.run_sync(show=False)
    assert "lift(results)" in results_text(results)
    for names in ((), ("drawn", "off"), ("matrix", "off")):
        with pytest.raises(SettingsError, match="no run used only one of them"):
            compare(results, *names)
    with pytest.raises(ExperimentProblems, match="near_outcome"):
        by_round(folder=tmp_path / "exp", near_outcome="call_worked").check()
    with pytest.raises(SettingsError, match="variants stay hidden"):
        lift(by_round(folder=tmp_path / "exp").extend(repeats=1).results())


def test_impossible_assignments_are_refused(subtests: pytest.Subtests) -> None:
    brief, same = GuidanceSet("brief", {}), GuidanceSet("same", {})
    cases: dict[str, dict[str, Any]] = {
        'Variant w is Workflow: assign="round" draws guidance sets only': {"variants": {"w": Workflow("agents: {}")}},
        "Variant p is Matrix: assign": {"variants": {"off": "off", "p": Matrix()}},
        "Variant a is Agent: assign": {"variants": {"off": "off", "a": Agent(CHATTY)}},
        "Variant s is settings: assign": {"variants": {"off": "off", "s": {"model": CHATTY}}},
        "There is no guidance set 'of'": {"variants": {"off": "off", "o": "of"}},
        "must be two or more guidance sets": {"variants": {"off": "off"}},
        "The propensities add up to 0.9, not to 1: 0.5 + 0.4": {"propensities": {"off": 0.5, "matrix": 0.4}},
        "give one for each of the variants off, matrix": {"propensities": {"off": 1.0}},
        "Two of the guidance sets are equal": {"variants": {"a": brief, "b": same}},
        "Two variants name the same guidance set": {"variants": {"a": "off", "b": "off"}, "aa": True},
        "There is no near outcome 'answered'": {"near_outcome": "answered"},
        "assign='rounds': choose run or round": {"assign": "rounds"},
        "lift cannot replay the policy two_rounds, which is your own": {"agent": {"policy": TwoRounds()}},
        "near_outcome= applies only to assign=": {"assign": "run", "near_outcome": "followed"},
        "propensities= applies only to assign=": {"assign": "run", "propensities": {"off": 0.5, "matrix": 0.5}},
    }  # fmt: skip
    for problem, settings in cases.items():
        with subtests.test(problem), pytest.raises(ExperimentProblems) as caught:
            by_round(settings.pop("count", 6), **{"variants": PLAIN, **settings}).check()
        assert problem in str(caught.value)
    by_round(variants={"a": brief, "b": same}, aa=True).check()
    clustered = by_round()
    object.__setattr__(clustered, "tasks", [{**row, "cluster": "one"} for row in rows(6)])
    with pytest.raises(ExperimentProblems, match="6 tasks in 1 cluster"):
        clustered.check()


def test_forks_of_recorded_runs_cannot_be_assigned_by_round(tmp_path: Path) -> None:
    small(2, folder=tmp_path / "exp", agent={"tools": [check_line], "policy": TwoRounds()}).run_sync(show=False)
    forks = by_round()
    object.__setattr__(forks, "tasks", {"traces": str(tmp_path / "exp"), "at_round": 2})
    with pytest.raises(ExperimentProblems, match="forks of recorded runs have rounds without a draw"):
        forks.check()


def test_variants_are_assigned_to_complete_runs_by_default() -> None:
    assert small(3).id == small(3, assign="run").id and "assign" not in small(3)._frozen


def test_yaml_experiment_can_assign_by_round() -> None:
    text = """
    tasks: rows
    variants: {off: off, with: matrix}
    models: simulated:chatty
    assign: round
    propensities: {off: 0.3, with: 0.7}
    near_outcome: no_loop_within_3
    """
    experiment = read_experiment(text, {"rows": rows(6)})
    experiment.check()
    assert experiment._frozen["near_outcome"] == "no_loop_within_3"
    assert experiment._read.variants[0].work.guidance.among == {"off": 0.3, "matrix": 0.7}
