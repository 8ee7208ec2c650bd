"""A second computation of comparisons from drawn runs, in plain Python without code of the package."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import fsum, isfinite
from typing import NamedTuple, TypeAlias

from drawn_worlds import Drawn

Task: TypeAlias = tuple[str, str]
"""Benchmark and task."""


class Plain(NamedTuple):
    """A comparison."""

    pairs: list[tuple[Task, str, int | None, float, float]]
    """Task, model, repeat and both values; without a repeat where the arms share no seed."""
    unpaired: int
    """Tasks under a model, or their repeats, that lack a value in an arm."""
    counts: dict[str, dict[str, int]]
    """Scored, unknown and failed runs of each arm."""
    differences: dict[Task, float]
    means: dict[str, float]
    """By arm, over the tasks with a difference."""
    difference: float
    """Mean over tasks."""
    flips: list[tuple[str, str, float, float]]
    """Runs and values of pairs with different values."""


def value_of(one: Drawn, *, is_recorded: bool) -> float | None:
    """Return a recorded outcome in any state; otherwise limited runs have not passed, and other values are missing."""
    if one.value is None or not isfinite(one.value) or (one.ended == "failed" and not is_recorded):
        return None
    if one.ended == "limited" and not is_recorded:
        return 0.0 if isinstance(one.value, bool) else None
    return float(one.value)


def mean(values: Iterable[float]) -> float:
    known = [*values]
    return fsum(known) / len(known)


def compute(drawn: Sequence[Drawn], *, is_recorded: bool) -> Plain:
    """Compare the arms. Equal repeats share a seed in both, unless they were recorded."""
    have: dict[tuple[Task, str], dict[str, set[int]]] = defaultdict(lambda: {"a": set(), "b": set()})
    for one in drawn:
        have[(one.benchmark, one.task), one.model][one.arm].add(one.repeat)
    places: dict[tuple[Task, str, int | None], dict[str, list[float]]] = {}
    runs: dict[tuple[Task, str, int], dict[str, tuple[str, float | None]]] = defaultdict(dict)
    counts = {"a": Counter[str](), "b": Counter[str]()}
    for one in drawn:
        task, value = (one.benchmark, one.task), value_of(one, is_recorded=is_recorded)
        is_averaged = is_recorded or have[task, one.model]["a"].isdisjoint(have[task, one.model]["b"])
        place = places.setdefault((task, one.model, None if is_averaged else one.repeat), {"a": [], "b": []})
        if value is not None:
            place[one.arm].append(value)
        runs[task, one.model, one.repeat][one.arm] = (one.key, value)
        counts[one.arm]["scored" if value is not None else "failed" if one.ended == "failed" else "unknown"] += 1
    pairs = [(*place, mean(of["a"]), mean(of["b"])) for place, of in places.items() if of["a"] and of["b"]]
    by_model: dict[tuple[Task, str], list[tuple[float, float]]] = defaultdict(list)
    for task, model, _, a, b in pairs:
        by_model[task, model].append((a, b))
    by_task: dict[Task, list[list[float]]] = defaultdict(list)
    for (task, _), values in by_model.items():
        by_task[task].append([mean(side) for side in zip(*values, strict=True)])
    arms = {task: [mean(side) for side in zip(*models, strict=True)] for task, models in by_task.items()}
    differences = {task: a - b for task, (a, b) in arms.items()}
    flips = [
        (of["a"][0], of["b"][0], a, b)
        for of in runs.values()
        if len(of) == 2 and (a := of["a"][1]) is not None and (b := of["b"][1]) is not None and a != b
    ]
    means = {arm: mean(sides) for arm, sides in zip("ab", zip(*arms.values(), strict=True), strict=True)} if arms else {}
    difference = mean(differences.values()) if differences else 0.0
    return Plain(pairs, len(places) - len(pairs), counts, differences, means, difference, sorted(flips))  # type: ignore[arg-type]


def cluster_robust(differences: Sequence[float], clusters: Sequence[str]) -> tuple[float, float]:
    """Return the standard error of a mean by CR2, and its degrees of freedom by Satterthwaite (Bell and McCaffrey 2002).

    For a mean, the adjustment of a cluster with a share s of all tasks divides the sum of its residuals by sqrt(1 - s).
    """
    centre, of = mean(differences), len(differences)
    sums, sizes = defaultdict[str, float](float), Counter(clusters)
    for difference, cluster in zip(differences, clusters, strict=True):
        sums[cluster] += difference - centre
    shares = {cluster: size / of for cluster, size in sizes.items()}
    error = fsum(sums[one] ** 2 / (1 - shares[one]) for one in sizes) ** 0.5 / of
    squares = fsum(share**2 for share in shares.values())
    for one, share in shares.items():
        others = [other for name, other in shares.items() if name != one]
        squares += fsum((share * other) ** 2 / ((1 - share) * (1 - other)) for other in others)
    return error, 1 / squares
