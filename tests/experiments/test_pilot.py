"""Pilots and designs: expectations before anything runs, and estimates from a few runs."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from asserted_sentences import Snapshot
from small_experiments import CHATTY, small

from agentnb import Experiment
from agentnb.errors import ExperimentProblems, SettingsError
from agentnb.experiments.design import PASS_RATES
from agentnb.experiments.statistics.minimum_effect import plan_minimum_effect_of_passes


def test_design_states_the_cell_count_and_the_unknowns() -> None:
    design = small(30, models=[CHATTY, "simulated:disciplined"], repeats=2, primary="answered").design()
    assert (design.tasks, design.cells, design.cost, design.seconds) == (30, 240, 0.0, None)
    assert design.assumption == "any_rate" and design.clusters == 30 and design.hopeless_rates == ()
    assert design.minimum_effect is not None and design.least_effect is not None and design.least_effect < design.minimum_effect
    few = small(12, primary="answered").design()
    effects = {rate: plan_minimum_effect_of_passes([1] * 12, 1, rate) for rate in PASS_RATES}
    assert few.minimum_effect == max(effect for effect in effects.values() if effect is not None)
    assert few.hopeless_rates == tuple([rate for rate, effect in effects.items() if effect is None]) == (0.45, 0.5)
    assert "at pass rates from 5 to 40 %; at 50 % no difference is" in repr(few)
    unknown = small(30, primary="rounds").design()
    assert unknown.minimum_effect is None and "unknown" in repr(unknown)


def clustered(tasks: int, clusters: int, variants: Any = None, **settings: Any) -> Experiment:
    """Build an experiment whose tasks are in this many clusters."""
    experiment = small(tasks, variants, **{"primary": "answered", **settings})
    return replace(experiment, tasks=[{**row, "cluster": f"c{place % clusters}"} for place, row in enumerate(experiment.tasks)])


def test_design_counts_units_exactly_as_the_test_does() -> None:
    def effect(clusters: int, **settings: Any) -> float:
        found = clustered(24, clusters, **settings).design(pass_rate=0.4).minimum_effect
        assert found is not None
        return found

    once = effect(24)
    assert once == plan_minimum_effect_of_passes([1] * 24, 1, 0.4)
    assert effect(12) == plan_minimum_effect_of_passes([2] * 12, 1, 0.4) != once
    two = effect(24, models=[CHATTY, "simulated:disciplined"])
    three = effect(24, variants={"a": "off", "b": "matrix", "c": {"policy": "minimal"}})
    assert three == plan_minimum_effect_of_passes([1] * 24, 1, 0.4, alpha=0.025) > once
    assert two == effect(24, repeats=2) == plan_minimum_effect_of_passes([1] * 24, 2, 0.4) < once


def test_too_few_clusters_are_refused_before_any_run(snapshot: Snapshot, tmp_path: Path) -> None:
    experiment = clustered(30, 4, folder=tmp_path / "exp")
    with pytest.raises(ExperimentProblems, check=snapshot.worded):
        experiment.design()
    with pytest.raises(ExperimentProblems):
        experiment.run_sync(show=False)
    assert not (tmp_path / "exp").exists() and clustered(30, 4, {"a": "off"}).design().clusters == 4


def test_too_few_tasks_are_refused_for_designs_but_still_run(snapshot: Snapshot) -> None:
    with pytest.raises(ExperimentProblems, check=snapshot.worded):
        small(5).design()
    assert small(6).design().tasks == 6 and small(5, {"a": "off"}).design().tasks == 5
    assert repr(small(5, {"a": "off"}).design()) == snapshot("one variant")
    assert len(small(1).run_sync(show=False).rows) == 2


def test_pass_rate_outside_0_to_1_is_refused() -> None:
    with pytest.raises(SettingsError, match="is not a valid pass rate"):
        small(6).design(pass_rate=60)


def test_models_without_a_seed_are_named() -> None:
    class Own:
        name = "own:model"

        async def stream(self, request: object) -> object:
            yield

    assert small(models=[CHATTY, Own()]).design().unseeded == ("own:model",)


def test_pilot_estimates_the_unknowns_of_the_design(tmp_path: Path) -> None:
    experiment = small(12, folder=tmp_path / "exp")
    pilot = asyncio.run(experiment.pilot(6, show=False))
    assert (pilot.runs, pilot.tasks) == (6 * 2 * 2, 6)
    assert pilot.components is not None and pilot.seconds is not None and pilot.clustering is not None
    design = experiment.design()
    assert design.assumption == "pilot" and design.seconds is not None and design.pilot_tasks == 6
    assert experiment.design(pass_rate=0.4).pilot_tasks == 0
    results = experiment.run_sync(show=False)
    assert len(results.rows) == 24
    seeds = {row.seed for row in results.rows}
    assert not seeds & {row.seed for row in experiment._pilot_rows()}
    assert not [path for path in (tmp_path / "exp").rglob("*") if "pilot" in path.name]


def test_pilot_does_not_show_variant_means() -> None:
    pilot = asyncio.run(small(6).pilot(3, show=False))
    assert "off" not in repr(pilot) and "matrix" not in repr(pilot) and not hasattr(pilot, "rows")


def test_more_repeats_lower_the_expected_deviation() -> None:
    pilot = asyncio.run(small(12, seeds="independent").pilot(12, show=False))
    assert pilot.components is not None and pilot.components.within > 0
    assert pilot.deviation(4) < pilot.deviation(1)  # type: ignore[operator]


def test_pilot_pairs_runs_that_share_a_seed() -> None:
    for seeds, is_alike in (("shared", True), ("independent", False)):
        experiment = small(8, {"a": "off", "b": "off"}, aa=True, seeds=seeds)
        pilot = asyncio.run(experiment.pilot(8, show=False))
        assert 0 < (pilot.pass_rate or 0.0) < 1 and (pilot.components == (0.0, 0.0)) is is_alike, seeds


def test_designing_an_experiment_runs_nothing(tmp_path: Path) -> None:
    small(folder=tmp_path / "exp").design()
    assert not (tmp_path / "exp").exists()


def test_results_before_the_first_run_are_refused() -> None:
    with pytest.raises(Exception, match="has not started"):
        Experiment([{"id": "a", "prompt": "Go"}], {"a": "off"}, models=[CHATTY], folder=False).results()
