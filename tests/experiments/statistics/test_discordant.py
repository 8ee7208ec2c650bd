"""McNemar's exact test."""

from __future__ import annotations

import pytest
from pytest import approx
from scipy import stats

from agentnb.experiments.statistics.discordant import compare_discordant


def test_discordance_equals_the_mcnemar_test_of_statsmodels(subtests: pytest.Subtests) -> None:
    from statsmodels.stats.contingency_tables import mcnemar

    for both, only_a, only_b, neither in ((5, 3, 11, 1), (0, 7, 7, 0), (4, 0, 6, 0), (3, 0, 0, 2), (10, 30, 14, 9)):
        with subtests.test(f"{only_a} and {only_b}"):
            outcomes = [(1, 1)] * both + [(1, 0)] * only_a + [(0, 1)] * only_b + [(0, 0)] * neither
            result = compare_discordant([[a] for a, _ in outcomes], [[b] for _, b in outcomes])
            assert result[:2] == (only_a, only_b)
            assert result.p_value == approx(float(mcnemar([[both, only_a], [only_b, neither]], exact=True).pvalue), abs=1e-9)
            if only_a + only_b:
                assert result.p_value == approx(stats.binomtest(only_a, only_a + only_b).pvalue, abs=1e-9)


def test_task_without_a_run_is_excluded() -> None:
    assert compare_discordant([[1], [], [0], [1]], [[0], [1], [1], []]) == (1, 1, 1.0)
