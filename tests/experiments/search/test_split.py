"""The split of the tasks: whole clusters on one side and in one fold, deterministic by seed."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from agentnb.errors import SettingsError
from agentnb.experiments.planning.experiment_tasks import read_tasks
from agentnb.experiments.search.split import split_tasks


def tasks_of(count: int, clusters: int = 0) -> Any:
    rows = [{"id": f"t{n}", "prompt": "Do it.", **({"cluster": f"c{n % clusters}"} if clusters else {})} for n in range(count)]
    return read_tasks(rows, [])


def test_each_task_is_on_one_side_and_clusters_stay_together() -> None:
    for count, clusters, keep in ((40, 0, ()), (40, 0, ("t3", "t7")), (60, 15, ("t1",)), (13, 0, ())):
        tasks = tasks_of(count, clusters)
        drawn = set()
        for seed in range(20):
            split = split_tasks(tasks, keep, 0.5, 3, seed)
            assert sorted((*split.searched, *split.held_out)) == [*range(count)]
            assert [tasks[place].id for place in split.keep] == [*keep]
            groups = [
                {tasks[place].cluster or tasks[place].id for place in places} for places in (*split.folds, split.held_out)
            ]
            assert sum(map(len, groups)) == len(set().union(*groups))
            assert min(map(len, groups)) >= 6 or len(split.folds) == 1
            assert split == split_tasks(tasks, keep, 0.5, 3, seed)
            drawn.add(split.held_out)
        assert len(drawn) > 10


def test_looks_can_start_at_any_fold_and_cover_all_tasks() -> None:
    split = split_tasks(tasks_of(40), ("t0",), 0.5, 3, 1)
    for first in range(3):
        looks = split.looks(first)
        assert {*looks[0]} == {*split.keep, *split.folds[first]} and {*looks[-1]} == {*split.searched}
        assert all({*fewer} < {*more} for fewer, more in itertools.pairwise(looks))


def test_too_few_or_unknown_tasks_are_refused() -> None:
    with pytest.raises(SettingsError, match="10 tasks or clusters, 6 of them held out"):
        split_tasks(tasks_of(10), (), 0.5, 3, 0)
    with pytest.raises(SettingsError, match="names an unknown task"):
        split_tasks(tasks_of(20), ("t99",), 0.5, 3, 0)
