"""Agreement of annotators: Krippendorff's alpha equals its package and plain code, with an interval that covers."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path
from random import Random

import krippendorff
import numpy as np
import pytest
from binomial_bounds import at_least, at_most
from property_settings import size
from pytest import approx

from agentnb import agreement, labels
from agentnb.errors import SettingsError
from agentnb.store.run_labels import Label, append_label

INTERVALS = size(20, nightly=200)


def drawn(rng: Random, runs: int, people: int, right: float, words: tuple[str, ...] = ("healthy", "failed")) -> list[Label]:
    """Draw labels of annotators with this accuracy, each skipping one run in ten."""
    found = []
    for run in range(runs):
        truth = rng.choice(words)
        for who in range(people):
            if rng.random() < 0.9:
                word = truth if rng.random() < right else rng.choice(words)
                found.append(Label(f"r{run}", words.index(word), who=f"p{who}", word=word))
    return found


def plain_alpha(given: list[Label]) -> float:
    """Compute alpha from all pairs of labels, by its definition."""
    units: dict[str, list[str]] = {}
    for one in given:
        units.setdefault(one.run_id, []).append(one.word)
    several = [words for words in units.values() if len(words) > 1]
    total = sum(map(len, several))
    observed = sum(sum(a != b for a, b in permutations(words, 2)) / (len(words) - 1) for words in several) / total
    every = [word for words in several for word in words]
    expected = sum(a != b for a, b in permutations(every, 2)) / (total * (total - 1))
    return 1 - observed / expected


def test_alpha_equals_that_of_the_package_and_plain_code(subtests: pytest.Subtests) -> None:
    for people, words in ((2, ("healthy", "failed")), (3, ("healthy", "failed")), (4, ("a", "b", "c"))):
        with subtests.test(f"{people} people, {len(words)} words"):
            given = drawn(Random(people), 40, people, 0.6, words)
            runs = [*dict.fromkeys(one.run_id for one in given)]
            table = np.full((people, len(runs)), np.nan)
            for one in given:
                table[int(one.who[1:]), runs.index(one.run_id)] = words.index(one.word)
            found = agreement(given)
            assert found.alpha == approx(krippendorff.alpha(table, level_of_measurement="nominal"))
            assert found.alpha == approx(plain_alpha(given)) and found.people == people
            assert found.interval[0] < found.alpha < found.interval[1] and agreement(given) == found


def test_interval_covers_the_true_alpha() -> None:
    rng = Random(4)
    equal = 0.85**2 + 0.15**2  # of two people who know 7 words in 10 and guess the others
    true = 1 - (1 - equal) / 0.5
    intervals = [agreement(drawn(rng, 60, 2, 0.7)).interval for _ in range(INTERVALS)]
    held = sum(low <= true <= high for low, high in intervals)
    assert at_least(0.93, INTERVALS) <= held <= at_most(0.95, INTERVALS), f"{held} of {INTERVALS} hold the true alpha"


def test_agreement_is_equal_for_labels_from_file_and_frame(tmp_path: Path) -> None:
    given = drawn(Random(1), 10, 3, 0.7)
    for one in given:
        append_label(tmp_path / "labels.csv", one)
    assert agreement(tmp_path / "labels.csv") == agreement(labels(tmp_path / "labels.csv")) == agreement(given)


def test_too_few_labels_for_agreement_are_reported(subtests: pytest.Subtests) -> None:
    with subtests.test("a person alone"), pytest.raises(SettingsError, match="No two people"):
        agreement([Label("r", 1, who="ada"), Label("q", 1, who="bob")])
    with subtests.test("a word alone"):
        found = agreement([Label(run, 1, who=who) for run in "abc" for who in ("ada", "bob")])
        assert (found.alpha, found.interval, found.subjects) == (None, None, 3) and "unknown" in repr(found)
    with subtests.test("a run alone"):
        assert agreement([Label("r", label, who=str(label)) for label in (0, 1)]).interval is None
