"""Planned looks at an experiment: when each takes place, the tasks that it adds, and its significance level."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise
from random import Random
from typing import Any, NamedTuple

from agentnb.display.texts.labels import pluralize
from agentnb.experiments.planning.experiment_tasks import ExperimentTask, places_by_cluster
from agentnb.experiments.statistics.alpha_spending import spend_alpha
from agentnb.experiments.statistics.sign_flips import required_clusters


class Look(NamedTuple):
    """A planned look at an experiment."""

    number: int
    """The number of the look, from 1."""
    of: int
    """Number of planned looks."""
    tasks: int
    of_tasks: int
    """Total number of tasks in the experiment."""
    level: float
    """Significance level of this look."""

    @property
    def is_last(self) -> bool:
        """True for the look at the end of the experiment."""
        return self.number == self.of

    @property
    def name(self) -> str:
        """The number of the look, as text."""
        return f"look {self.number} of {self.of}"

    def __str__(self) -> str:
        return f"{self.name}, after {self.tasks:,} of {pluralize(self.of_tasks, 'task')}"


def read_looks(looks: Any, problems: list[str]) -> tuple[float, ...]:
    """Return the shares of the tasks after which looks are planned; empty if no looks are planned. Problems are appended."""
    shares = [number / looks for number in range(1, looks + 1)] if type(looks) is int else looks
    is_list = isinstance(shares, list | tuple) and all(type(share) in (int, float) for share in shares)
    if is_list and len(shares) > 1 and shares[-1] == 1 and all(a < b for a, b in pairwise([0, *shares])):
        return tuple(map(float, shares))
    if looks is not None:
        advice = "give their number (at least 2), or increasing shares of the tasks that end with 1, such as [0.5, 1.0]"
        problems.append(f"looks={looks!r}: {advice}")
    return ()


def stages_of(tasks: Sequence[ExperimentTask], shares: Sequence[float], seed: int) -> list[list[int]]:
    """Return the positions of the tasks that each look adds, as complete clusters drawn by seed; all tasks if there are no
    looks.
    """
    if not shares:
        return [[*range(len(tasks))]]
    order = places_by_cluster(tasks)
    Random(f"{seed}:looks").shuffle(order)
    stages: list[list[int]] = [[] for _ in shares]
    done = 0
    for places in order:
        stages[next(number for number, share in enumerate(shares) if done < round(share * len(tasks)))] += places
        done += len(places)
    return [sorted(stage) for stage in stages]


def looks_of(stages: Sequence[Sequence[int]]) -> tuple[Look, ...]:
    """Return the looks after these stages, with their significance levels."""
    counts = [*accumulate(map(len, stages))]
    levels = spend_alpha([count / counts[-1] for count in counts])
    return tuple(
        [
            Look(number, len(counts), count, counts[-1], level)
            for number, (count, level) in enumerate(zip(counts, levels, strict=True), 1)
        ]
    )


def look_problems(tasks: Sequence[ExperimentTask], shares: Sequence[float], seed: int) -> list[str]:
    """Return a problem if looks come too early to show a difference, naming the looks that remain."""
    if not shares:
        return []
    stages = stages_of(tasks, shares, seed)
    if not all(stages):
        return [f"looks: there are too few tasks ({len(tasks)}) in complete clusters for {len(shares)} looks. Plan fewer looks"]
    clusters = [*accumulate(len({tasks[position].cluster_key for position in stage}) for stage in stages)]
    looks = looks_of(stages)
    counts = [(look, count, required_clusters(look.level)) for look, count in zip(looks, clusters, strict=True)]
    early = [(look, count, required) for look, count, required in counts if required is None or count < required]
    if not early:
        return []
    too_early, count, required = early[0]
    kept = [round(share, 3) for row, share in zip(counts, shares, strict=True) if row not in early]
    advice = f"looks={kept}" if len(kept) > 1 else "more tasks, or no looks"
    limit = f"no p value for {pluralize(count, 'cluster')} can be below {too_early.level:.2g}"
    more = f", {required} are needed" if required else ""
    return [f"looks: no difference can be shown at {too_early}: {limit}{more}. Plan {advice}"]
