"""Top-level runs of a list, and their nested runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from agentnb.store.summaries import RunSummary, families

NOON = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)


def run(name: str, seconds: float, parent_id: str | None = None) -> RunSummary:
    """Return a run that began this long after noon; its id has the second and a random part."""
    at = NOON + timedelta(seconds=seconds)
    return RunSummary(f"{at:%Y%m%d-%H%M%S}-{name}", at, "completed", "natural", 1, 1.0, "m", name, None, None, 0, parent_id)


def listed(*runs: RunSummary) -> list[list[tuple[str, int, int]]]:
    """Return prompt, depth and number of nested runs of each run, family by family."""
    newest_first = sorted(runs, key=lambda one: one.id, reverse=True)
    found = families(newest_first, {run.id for run in runs})
    return [[(one.prompt, one.depth, one.nested) for one in family] for family in found]


def test_nested_runs_are_listed_below_their_parent_oldest_first() -> None:
    top = run("top", 0)
    child = run("child", 2, top.id)
    later = [run("grandchild", 4, child.id), run("second", 6, top.id), run("other", 8)]
    assert listed(top, child, *later) == [
        [("other", 0, 0)],
        [("top", 0, 3), ("child", 1, 1), ("grandchild", 2, 0), ("second", 1, 0)],
    ]


def test_runs_of_the_same_second_are_ordered_by_start() -> None:
    top = run("zzz", 0)
    child = run("mmm", 0.25, top.id)
    assert listed(top, child, run("aaa", 0.5, child.id)) == [[("zzz", 0, 2), ("mmm", 1, 1), ("aaa", 2, 0)]]


def test_run_without_its_parent_counts_as_top_level() -> None:
    assert listed(run("orphan", 0, "20200101-000000-gone")) == [[("orphan", 0, 0)]]


def test_family_listing_reads_only_what_it_needs() -> None:
    read: list[int] = []

    def found() -> Iterator[RunSummary]:
        for number in range(9, 0, -1):
            read.append(number)
            yield run(f"r{number}", 2 * number)

    assert [one.prompt for one in next(families(found(), ()))] == ["r9"]
    assert read == [9, 8]


@given(st.lists(st.tuples(st.integers(0, 3_000), st.integers(-1, 11)), max_size=12))
def test_every_run_is_listed_once_after_its_parent(drawn: list[tuple[int, int]]) -> None:
    runs: list[RunSummary] = []
    for number, (milliseconds, parent) in enumerate(sorted(drawn)):
        at = milliseconds / 1_000 + number / 1_000_000  # a run begins after its parent
        runs.append(run(f"r{number * 7 % 12}", at, runs[parent].id if 0 <= parent < len(runs) else None))
    listing = listed(*runs)
    assert sorted(name for family in listing for name, _, _ in family) == sorted(one.prompt for one in runs)
    assert all(family[0][1:] == (0, len(family) - 1) and all(depth for _, depth, _ in family[1:]) for family in listing)
