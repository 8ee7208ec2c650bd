"""Estimates by a judge: corrected by its error rates, and equal to plain code."""

from __future__ import annotations

from dataclasses import replace
from math import comb
from random import Random
from statistics import NormalDist, fmean

import pytest
from judged_rows import JUDGE, compared, draw, judged_row, quality, table
from made_results import results_from, row
from pytest import approx
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.proportion import proportion_confint

from agentnb import compare
from agentnb.errors import SettingsError
from agentnb.experiments.planning.looks import Look
from agentnb.experiments.results.corrections import JudgeQuality, LabelledRun, rates_of


def test_judge_rates_equal_those_of_statsmodels_and_plain_code(subtests: pytest.Subtests) -> None:
    for hits, misses, false, right in ((20, 5, 3, 22), (12, 0, 4, 9), (7, 2, 0, 11)):
        with subtests.test(f"{hits} {misses} {false} {right}"):
            rates = rates_of(table(hits, misses, false, right))
            shares = {
                "sensitivity": (hits, hits + misses),
                "specificity": (right, right + false),
                "healthy_if_passed": (hits, hits + false),
                "healthy_if_failed": (misses, misses + right),
            }
            for name, (part, whole) in shares.items():
                found = getattr(rates, name)
                low, high = proportion_confint(part, whole, method="wilson")
                assert (found.value, found.low, found.high) == approx((part / whole, low, high), abs=1e-9), name
            runs = hits + misses + false + right
            agree = (hits + right) / runs
            chance = ((hits + misses) * (hits + false) + (false + right) * (misses + right)) / runs**2
            expected = cohens_kappa([[right, false], [misses, hits]])
            assert rates.kappa.value == approx((agree - chance) / (1 - chance))
            assert (rates.kappa.low, rates.kappa.high) == approx((expected.kappa_low, expected.kappa_upp))


def test_several_runs_of_a_task_widen_the_interval() -> None:
    apart = [LabelledRun("a", n, True, n % 4 > 0) for n in range(40)]
    alike = [LabelledRun("a", n // 4, True, n >= 10) for n in range(40)]
    wide, narrow = (rates_of(runs).sensitivity for runs in (alike, apart))
    assert wide.value == narrow.value == 0.75
    assert wide.high - wide.low > 1.5 * (narrow.high - narrow.low)


def test_difference_of_variants_is_tested_by_fisher() -> None:
    found = quality({}, [*table(19, 1, 2, 18), *table(10, 10, 2, 18, "b")])

    def plain(k: int) -> float:
        return comb(20, k) * comb(20, 29 - k) / comb(40, 29)

    expected = sum(plain(k) for k in range(9, 21) if plain(k) <= plain(19) * (1 + 1e-9))
    assert found.p_values == {"sensitivity": approx(expected), "specificity": approx(1.0)}
    assert "sensitivity differs between variants" in repr(found) and "specificity differs" not in repr(found)


def test_corrected_difference_equals_plain_code() -> None:
    rows, labels = draw(Random(1), 80, 40, (0.7, 0.4), ((0.9, 0.7), (0.8, 0.9)))
    comparison = compared(rows, quality(labels))
    means, parts = [], []
    for arm in "ab":
        values = {row.run_id: row.values[JUDGE] for row in rows if row.variant == arm}
        known = [(values[run_id], label) for run_id, label in labels.items() if run_id in values]
        passed = fmean(values.values())
        if_passed, if_failed = ([label for value, label in known if value is verdict] for verdict in (True, False))
        means.append(passed * fmean(if_passed) + (1 - passed) * fmean(if_failed))
        sides = (passed, if_passed), (1 - passed, if_failed)
        for share, of in sides:
            low, high = proportion_confint(sum(of), len(of), method="wilson")
            parts.append((share * (fmean(of) - low), share * (high - fmean(of)))[:: 1 if arm == "a" else -1])
    assert comparison.difference == approx(means[0] - means[1])
    plain = compared(rows)
    low, high = comparison.interval
    below = comparison.difference - low
    assert below**2 > sum(one**2 for one, _ in parts), "the interval covers both rates and tasks"
    slopes = 0.3, 0.9  # of any line between verdict and pass rate here
    width = plain.difference - plain.interval[0]
    assert (slopes[0] * width) ** 2 < below**2 - sum(one**2 for one, _ in parts) < (slopes[1] * width) ** 2
    assert high > comparison.difference and comparison.mde > 0
    of_two, alone, power = (NormalDist().inv_cdf(share) for share in (0.9875, 0.975, 0.8))
    assert replace(comparison, family=2).mde / comparison.mde == approx((of_two + power) / (alone + power))


def test_planned_look_widens_the_corrected_interval_at_its_level() -> None:
    rows, labels = draw(Random(5), 80, 40, (0.7, 0.4), ((0.9, 0.7), (0.8, 0.9)))
    comparison = compared(rows, quality(labels))
    look = replace(comparison, look=Look(1, 2, 80, 160, 0.01))
    width, wider = (one.interval[1] - one.interval[0] for one in (comparison, look))
    more = NormalDist().inv_cdf(0.995) / NormalDist().inv_cdf(0.975)
    assert wider / width == approx(more, rel=0.1) and look.price == approx(wider / width)
    assert (look.p_value < 0.01) == (not look.interval[0] <= 0 <= look.interval[1])


def test_uncorrectable_estimate_explains_the_reason(subtests: pytest.Subtests) -> None:
    rows, labels = draw(Random(2), 40, 20, (0.7, 0.4), ((0.9, 0.8),) * 2)
    with subtests.test("no quality: a note"):
        assert [note for note in compared(rows).notes if "not corrected" in note]
        assert not [note for note in compared(rows, quality(labels)).notes if "not corrected" in note]
        assert [note for note in compared(rows, quality(labels)).notes if "20 and 20 labelled runs" in note]
        assert not [note for note in compared(rows, quality(labels)).notes if "disputed" in note]
    with subtests.test("disputed runs: a note"):
        for count, runs in ((1, "1 disputed run is"), (2, "2 disputed runs are")):
            for found in (quality(labels), quality({}, table(40, 5, 5, 40))):
                (note,) = [note for note in compared(rows, replace(found, disputed=count)).notes if "disputed" in note]
                assert note.partition("; ")[2].startswith(f"{runs} left out, so the sample is not random")
    with subtests.test("labels of other runs: an assumption"):
        told = "on all labelled runs, assumed to be the same in both variants, and as in the labelled runs"
        assert [note for note in compared(rows, quality({}, table(40, 5, 5, 40))).notes if note.endswith(told)]
    with subtests.test("a judge no better than chance"), pytest.raises(SettingsError, match="better than chance"):
        compared(rows, quality({}, table(5, 5, 5, 5)))
    with subtests.test("another judge"), pytest.raises(SettingsError, match="but the primary is"):
        compared(rows, JudgeQuality("other", "hash", labels, []))
    with subtests.test("a check without a judge"), pytest.raises(SettingsError, match="but the primary is"):
        plain = [row(arm, f"t{n}", True) for arm in "ab" for n in range(6)]
        compare(results_from(plain, primary=JUDGE), "a", "b", quality=quality(labels))
    with subtests.test("something else"), pytest.raises(SettingsError, match="must be a JudgeQuality"):
        compare(results_from(rows, primary=JUDGE), "a", "b", quality=0.9)
    with subtests.test("equivalence"), pytest.raises(SettingsError, match="cannot be tested"):
        compared(rows, quality(labels)).equivalence(0.1)


def test_missing_verdicts_are_distinguished_from_missing_values() -> None:
    rows, labels = draw(Random(1), 80, 40, (0.7, 0.4), ((0.9, 0.7), (0.8, 0.9)))
    rows[0] = judged_row("a", "t0", None, key="a0", digest="a0")
    assert "1 missing value" in compared(rows).robustness
    assert compared(rows, quality(labels)).robustness.startswith("With 1 missing verdict at either extreme, ")


def test_corrected_difference_at_its_bound_keeps_an_interval() -> None:
    for arms, sign in (("ab", 1), ("ba", -1)):
        rows = [
            judged_row(arm, f"t{n}", arm == arms[0], key=f"{arm}{n}", digest=f"{arm}{n}") for arm in arms for n in range(60)
        ]
        comparison = compared(rows, quality({}, table(80, 20, 20, 80)))
        assert comparison.difference == sign and comparison.p_value < 0.05
        assert (
            min(map(abs, comparison.interval)) < 1 == max(map(abs, comparison.interval))
            and comparison.interval[0] < comparison.interval[1]
        )


def test_verdicts_without_labelled_runs_widen_the_interval() -> None:
    rows = [judged_row(arm, f"t{n}", n > 2, key=f"{arm}{n}", digest=f"{arm}{n}") for arm in "ab" for n in range(30)]
    rows[-1] = judged_row("b", "t29", False, key="b29", digest="b29")
    labels = {f"{arm}-t{n}": True for arm in "ab" for n in range(3, 25)}
    comparison = compared(rows, quality(labels))
    assert comparison.interval[0] < -0.1 and comparison.interval[1] > 0.1, (
        "one run in ten got this verdict, of unknown accuracy"
    )
