"""Planned looks: their shares, their tasks, and looks that come too early."""

from __future__ import annotations

from typing import Any

import pytest
from asserted_sentences import Snapshot

from agentnb.experiments.planning.experiment_tasks import ExperimentTask
from agentnb.experiments.planning.looks import look_problems, looks_of, read_looks, stages_of


def tasks(count: int, clusters: int = 0) -> list[ExperimentTask]:
    """Return tasks, optionally in this many clusters."""
    groups = [{"cluster": f"c{place % clusters}"} if clusters else {} for place in range(count)]
    return [ExperimentTask(f"t{place}", group) for place, group in enumerate(groups)]


def test_looks_are_given_as_a_number_or_increasing_shares(subtests: pytest.Subtests) -> None:
    known: dict[Any, tuple[float, ...]] = {None: (), 2: (0.5, 1.0), (0.4, 1): (0.4, 1.0)}
    for looks, shares in known.items():
        with subtests.test(looks=looks):
            assert (read_looks(looks, problems := []), problems) == (shares, [])
    for looks in (
        0,
        1,
        -2,
        True,
        2.0,
        "two",
        [],
        [1.0],
        [0.5],
        [0.5, 0.5, 1],
        [0.0, 1.0],
        [0.9, 0.5, 1.0],
        [0.5, 2.0],
        ["a", 1],
    ):
        with subtests.test(looks=looks):
            assert read_looks(looks, problems := []) == () and len(problems) == 1


def test_stages_contain_each_task_once_and_keep_clusters_together() -> None:
    for count, clusters, shares in ((20, 0, (0.5, 1.0)), (30, 10, (0.4, 0.7, 1.0)), (7, 0, ())):
        all_tasks = tasks(count, clusters)
        stages = stages_of(all_tasks, shares, 3)
        assert sorted(place for stage in stages for place in stage) == [*range(count)]
        ends = [len({place for stage in stages[: number + 1] for place in stage}) for number in range(len(stages))]
        assert ends == [round(share * count) for share in shares or (1.0,)]
        groups = [{all_tasks[place].cluster or str(place) for place in stage} for stage in stages]
        assert sum(map(len, groups)) == len(set().union(*groups)) == (clusters or count)
    assert stages_of(tasks(20), (0.5, 1.0), 3) != stages_of(tasks(20), (0.5, 1.0), 4)


def test_each_look_states_its_tasks_and_lower_level() -> None:
    first, last = looks_of([[3, 1], [0, 2]])
    assert (str(first), first.is_last) == ("look 1 of 2, after 2 of 4 tasks", False)
    assert (str(last), last.is_last) == ("look 2 of 2, after 4 of 4 tasks", True)
    assert first.level < 0.0031 < last.level < 0.05


def test_looks_that_cannot_show_a_difference_are_refused(snapshot: Snapshot) -> None:
    refused = {
        "too early": (tasks(24), (0.2, 0.4, 0.6, 0.8, 1.0)),
        "of clusters": (tasks(60, 12), (0.5, 1.0)),
        "empty": (tasks(8), (0.01, 1.0)),
    }
    for name, (given, shares) in refused.items():
        assert "\n".join(look_problems(given, shares, 0)) == snapshot(name)
    assert look_problems(tasks(20), (0.5, 1.0), 0) == [] == look_problems(tasks(2), (), 0)
