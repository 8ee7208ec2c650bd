"""Splits a search's tasks into those for trying candidates, in folds, and those that judge the best candidate once."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from agentnb.errors import SettingsError, suggest_names
from agentnb.experiments.planning.experiment_tasks import ExperimentTask, places_by_cluster
from agentnb.experiments.statistics.task_values import MIN_TASKS


class Split(NamedTuple):
    """Positions of tasks. All tasks of a cluster are on the same side, and in the same fold."""

    keep: tuple[int, ...]
    """Tasks of the search that no candidate may make worse."""
    folds: tuple[tuple[int, ...], ...]
    """The other tasks of the search, in folds."""
    held_out: tuple[int, ...]
    """Tasks that the search never sees."""

    @property
    def searched(self) -> tuple[int, ...]:
        """All tasks of the search."""
        return (*self.keep, *(position for fold in self.folds for position in fold))

    def looks(self, first: int) -> list[tuple[int, ...]]:
        """Return the tasks of each look at a candidate, starting with this fold. Each look adds one fold."""
        order = [*self.folds[first:], *self.folds[:first]]
        return [(*self.keep, *(position for fold in order[: count + 1] for position in fold)) for count in range(len(order))]


def split_tasks(tasks: Sequence[ExperimentTask], keep: Sequence[str], held_out: float, folds: int, seed: int) -> Split:
    """Draw the split using the seed. Raises `SettingsError` if ``keep`` has unknown ids, or if there are too few tasks.

    ``held_out``: share of the clusters used for judging, but at least `MIN_TASKS` of them. Uses fewer ``folds`` if one would be
    too small for a first look.
    """
    ids = [task.id for task in tasks]
    for name in keep:
        if name not in ids:
            raise SettingsError(f"keep= names an unknown task: {name!r}", suggest_names(name, ids))
    clusters = places_by_cluster(tasks)
    kept = [group for group in clusters if any(ids[position] in keep for position in group)]
    drawn = [group for group in clusters if group not in kept]
    Random(f"{seed}:split").shuffle(drawn)
    judges = max(MIN_TASKS, round(held_out * len(clusters)))
    searched = drawn[judges:]
    if len(searched) + len(kept) < MIN_TASKS or not searched:
        raise SettingsError(
            f"{len(clusters)} tasks or clusters, {judges} of them held out: a search needs {MIN_TASKS} to search on and"
            f" {MIN_TASKS} held out, besides keep=",
            "Add tasks",
        )
    count = min(folds, max(1, len(searched) // MIN_TASKS))
    dealt = [[position for group in searched[first::count] for position in group] for first in range(count)]
    dealt[0] += [position for group in kept for position in group if ids[position] not in keep]
    return Split(
        tuple(position for position, name in enumerate(ids) if name in keep),
        tuple(map(tuple, dealt)),
        tuple(position for group in drawn[:judges] for position in group),
    )
