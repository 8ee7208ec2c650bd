"""Sentences and names read as if a native engineer had written them: the counts stay within their limits."""

from __future__ import annotations

from functools import cache

import pytest
from prose_count import LIMITS, ROOT, SETTINGS, Count, count_prose, listed, repeated_file_names

PARTS = {"package": ["agentnb"], "tests": ["tests"], "docs": ["docs", "README.md"]}
ADVICE = f"Mend as many of these places (files that changed last come first), or see {LIMITS.name}"


@cache
def count_of(part: str) -> Count:
    return count_prose(*(ROOT / name for name in PARTS[part]))


@pytest.mark.parametrize("part", PARTS)
def test_prose_has_few_signs_of_translation(part: str) -> None:
    count, limit = count_of(part), SETTINGS["limits"]["marks_in_1000_words"][part]
    assert count.per_thousand <= limit, f"{count.per_thousand:.2f} marks in 1,000 words. {ADVICE}\n{listed(count.marks)}"


@pytest.mark.parametrize(
    ("part", "kind", "limit"),
    [
        ("package", "names", "names_that_say_nothing"),
        ("package", "participles", "functions_named_by_a_participle"),
        ("tests", "test_names", "test_names_over_ten_words"),
    ],
)
def test_meaningless_or_overlong_names_stay_below_their_limits(part: str, kind: str, limit: str) -> None:
    places = getattr(count_of(part), kind)
    assert len(places) <= SETTINGS["limits"][limit], f"{len(places)} {limit}. {ADVICE}\n{listed(places)}"


def test_complete_sentences_are_compared_with_their_room_snapshot() -> None:
    asserted = count_of("tests").asserted
    assert not asserted, f"Compare with the fixture snapshot, see tests/README.md:\n{listed(asserted)}"


def test_file_names_have_one_meaning() -> None:
    repeated = repeated_file_names(ROOT / "agentnb")
    assert len(repeated) <= SETTINGS["limits"]["file_names_used_twice"], "\n".join(repeated)


def test_prose_count_detects_marks_names_and_participles() -> None:
    count = Count()
    path = ROOT / "tests" / "example.py"
    count.add_text(path, 7, "Return the run's rounds. It is none of them: How it stands, as ever.")
    assert [text.partition(":")[0] for _, _, text in count.marks] == [
        "pronoun as subject",
        "begins with a clause",
        "posture",
        "as ever, no more",
    ]
    assert count.words == 14
