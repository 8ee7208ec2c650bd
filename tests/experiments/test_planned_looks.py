"""Planned looks: runs end at each, levels are lowered, and worlds without an effect alarm no more than one test."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from asserted_sentences import Snapshot
from binomial_bounds import at_most
from drawn_worlds import WORLDS, Drawn, compared, shows
from property_settings import size
from small_experiments import small

from agentnb import Experiment, compare
from agentnb.errors import ExperimentProblems
from agentnb.experiments.design import describe_looks, describe_price
from agentnb.experiments.planning.looks import Look, looks_of
from agentnb.experiments.results.comparison import Comparison
from agentnb.experiments.running.live_experiment import LiveExperiment
from agentnb.experiments.statistics.clusters import ClusterDifferences, compute_differences, make_test
from agentnb.experiments.statistics.paired import Difference
from agentnb.experiments.views.comparison_facts import facts, verdict
from agentnb.experiments.views.comparison_view import comparison_text

DRAWS, TASKS = size(300, nightly=5_000), 60
STAGES = [range(24), range(24, 36), range(36, 48), range(48, 60)]


def looked_at(drawn: list[Drawn], look: Look | None, tasks: int) -> Comparison:
    """Compare the first tasks at a planned or unplanned look."""
    done = [one for one in drawn if int(one.task[1:]) < tasks]
    return replace(compared(done), look=look)


@pytest.mark.nightly("by day the levels of looks spend the rate that they should")
@pytest.mark.slow("the test of 300 experiments at four looks")
def test_all_looks_together_keep_the_false_positive_rate() -> None:
    looks = looks_of(STAGES)
    alarms = unplanned = 0
    for draw in range(DRAWS):
        rng = Random(f"looks {draw}")
        a, b = ([[rng.gauss(0, 1)] for _ in range(TASKS)] for _ in "ab")
        p_values = [p_value_of(a[: look.tasks], b[: look.tasks]) for look in looks]
        alarms += any(p_value < look.level for look, p_value in zip(looks, p_values, strict=True))
        unplanned += any(p_value < 0.05 for p_value in p_values)
    assert alarms <= at_most(0.05, DRAWS)
    assert unplanned > at_most(0.05, DRAWS), "the same looks at the level of one test alarm more often"


def p_value_of(a: list[list[float]], b: list[list[float]]) -> float:
    """Return the p value of the test that every comparison makes."""
    differences = compute_differences(a, b)
    assert isinstance(differences, ClusterDifferences)
    return make_test(differences).p_value()


def shown(one: Comparison) -> bool:
    """Return True if it claims to show a difference."""
    return isinstance(one.analysis, Difference) and one.analysis.p_value < one.level


def test_p_value_below_its_level_agrees_with_the_interval() -> None:
    look = looks_of(STAGES)[0]
    for effect in (0.0, 0.3, 0.4, 0.5):
        one = looked_at([*WORLDS["equal effect"].draw(Random(effect), TASKS, 1, effect)], look, look.tasks)
        assert one.interval is not None and one.p_value is not None
        assert shown(one) == (not one.interval[0] <= 0 <= one.interval[1]) == ("A difference is shown" in verdict(one))
        fixed = replace(one, look=None)
        assert fixed.interval is not None and one.price is not None
        width, narrow = (high - low for low, high in (one.interval, fixed.interval))
        assert one.price == pytest.approx(width / narrow) and one.price > 1.2
        assert shows(fixed) or not shown(one)
        assert one.mde is None and fixed.mde is not None


def test_experiment_pauses_at_each_look_and_continues(tmp_path: Path) -> None:
    experiment = small(24, looks=2, repeats=2, folder=tmp_path / "exp")
    first = experiment.run_sync(show=False)
    first.run(first.rows[0].run_id)  # at a planned look, logs are open too
    assert first.look == looks_of([range(12), range(12)])[0] and not first.is_covered and not first.missing
    assert len(first.rows) == 12 * 2 * 2 and len({row.task for row in first.rows}) == 12
    assert compare(first, "matrix", "off").level == first.look.level
    assert [note.kind for note in first.plan.notes] == ["look"]
    again = small(24, looks=2, repeats=2, folder=tmp_path / "exp")
    assert again.results().look == first.look, "another process is at the same look"
    last = again.run_sync(show=False)
    assert last.look is not None and last.look.is_last and len(last.rows) == 24 * 2 * 2
    assert {row.run_id for row in first.rows} < {row.run_id for row in last.rows}
    assert [note.text for note in last.plan.notes] == [str(look) for look in (first.look, last.look)]
    assert again.run_sync(show=False).look == last.look
    assert compare(last, "matrix", "off").mde is not None


def test_unplanned_look_is_noted_as_a_peek() -> None:
    experiment = small(24, looks=2, places=1)
    at_look = experiment.run_sync(show=False)
    at_look.run(at_look.rows[0].run_id)  # as planned: no peek
    live: LiveExperiment = experiment.start(show=False, watch=lambda progress: progress.done == 30 and live.stop())
    part = live.wait()
    assert part.is_covered and part.look is None and part.missing
    looked = experiment.results(peek=True)
    assert looked.look is None and [note.kind for note in looked.plan.notes] == ["look", "looked"]
    assert any(f"looked at after {len(looked.rows)} of 48 runs" in note for note in experiment.run_sync(show=False).notes)


def test_looks_are_frozen_and_extensions_follow_the_last_look(tmp_path: Path) -> None:
    def experiment(**settings: object) -> Experiment:
        return small(24, folder=tmp_path / "exp", **settings)

    first = experiment(looks=2).run_sync(show=False)
    assert "looks" in first.plan.frozen and "looks" not in small(24).run_sync(show=False).plan.frozen
    with pytest.raises(ExperimentProblems, match="looks"):
        experiment(looks=[0.75, 1.0]).run_sync(show=False)
    more = experiment(looks=2).extend(repeats=1)
    last = more.run_sync(show=False)
    assert last.look is not None and last.look.is_last and len(last.rows) == 24 * 2 * 2
    assert any("extended by 1 repeat" in note for note in last.notes)


def test_design_and_comparison_state_levels_and_price_of_looks(snapshot: Snapshot) -> None:
    experiment = small(24, looks=2)
    design = experiment.design()
    assert design.price == pytest.approx(1.005, abs=0.002) and design.looks[0].tasks == 12
    assert f"{describe_looks(design)}; {describe_price(design.price)}" == snapshot and describe_looks(design) in repr(design)
    comparison = compare(experiment.run_sync(show=False), "matrix", "off")
    (fact,) = [each for each in facts(comparison) if each.name == "Planned look"]
    assert comparison.price is not None and f"{comparison.price - 1:.1%}" in fact.meaning and "0.0031" in fact.value
    assert verdict(comparison) == snapshot
    first = next(each for each in facts(comparison) if each.name == "Difference").value
    assert ", 95 % interval, valid over all 2 looks, " in first
    assert "valid over" not in comparison_text(replace(comparison, look=None))
