"""A comparison computed a second time, from drawn runs, in plain Python that shares no code with the package."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from math import fsum, isfinite
from typing import NamedTuple

from drawn_worlds import Drawn


class Pair(NamedTuple):
    """What is compared: a task under a model, and a repeat of it where the arms share its seed."""

    task: tuple[str, str]
    """Benchmark and task."""
    model: str
    repeat: int | None
    a: float
    b: float


class Plain(NamedTuple):
    """A comparison."""

    pairs: list[Pair]
    unpaired: int
    """Tasks under a model, or repeats of them, with a value in one arm at most."""
    counts: dict[str, dict[str, int]]
    """How many runs of each arm are scored, unknown and failed."""
    differences: dict[tuple[str, str], float]
    """By task."""
    means: dict[str, float]
    """By arm, over the same tasks."""
    difference: float
    flips: list[tuple[str, str, int, float, float]]
    """Task, model, repeat from 1 and both values of runs whose values differ."""


def value_of(one: Drawn, *, is_recorded: bool = False) -> float | None:
    """A recorded outcome counts whatever the state; else a run that a limit ended has not passed, and other values are lost."""
    if is_recorded:
        return None if one.value is None else float(one.value)
    if one.ended == "failed" or one.value is None or not isfinite(one.value):
        return None
    if one.ended == "limited":
        return 0.0 if isinstance(one.value, bool) else None
    return float(one.value)


def state_of(one: Drawn, *, is_recorded: bool = False) -> str:
    if value_of(one, is_recorded=is_recorded) is not None:
        return "scored"
    return "failed" if one.ended == "failed" else "unknown"


def mean(values: Iterable[float]) -> float:
    known = [*values]
    return fsum(known) / len(known)


def compute(drawn: Sequence[Drawn], *, is_recorded: bool = False) -> Plain:
    """Compare the arms. Repeats of the same number have the same seed in both, unless they were recorded."""
    places: dict[tuple[tuple[str, str], str, int | None], dict[str, list[float]]] = {}
    runs: dict[tuple[tuple[str, str], str, int], dict[str, float | None]] = defaultdict(dict)
    for one in drawn:
        task, value = (one.benchmark, one.task), value_of(one, is_recorded=is_recorded)
        place = places.setdefault((task, one.model, None if is_recorded else one.repeat), {"a": [], "b": []})
        if value is not None:
            place[one.arm].append(value)
        runs[task, one.model, one.repeat][one.arm] = value
    pairs = [Pair(*place, mean(of["a"]), mean(of["b"])) for place, of in sorted(places.items()) if of["a"] and of["b"]]
    by_model: dict[tuple[tuple[str, str], str], list[Pair]] = defaultdict(list)
    for pair in pairs:
        by_model[pair.task, pair.model].append(pair)
    by_task: dict[tuple[str, str], list[tuple[float, float]]] = defaultdict(list)
    for (task, _), of_model in by_model.items():
        by_task[task].append((mean(pair.a for pair in of_model), mean(pair.b for pair in of_model)))
    arms = {task: (mean(a for a, _ in models), mean(b for _, b in models)) for task, models in by_task.items()}
    differences = {task: a - b for task, (a, b) in arms.items()}
    flips = [
        (task, model, repeat + 1, a, b)
        for ((_, task), model, repeat), of in sorted(runs.items())
        if (a := of.get("a")) is not None and (b := of.get("b")) is not None and a != b
    ]
    return Plain(
        pairs,
        len(places) - len(pairs),
        {arm: dict(Counter(state_of(one, is_recorded=is_recorded) for one in drawn if one.arm == arm)) for arm in "ab"},
        differences,
        {arm: mean(both["ab".index(arm)] for both in arms.values()) for arm in "ab"} if arms else {},
        mean(differences.values()) if differences else 0.0,
        flips,
    )


def cluster_robust(differences: Sequence[float], clusters: Sequence[str]) -> tuple[float, float]:
    """The standard error of a mean by CR2, and its degrees of freedom by Satterthwaite (Bell and McCaffrey 2002).

    Of a mean alone, the adjustment of a cluster with a share of s of all tasks divides the sum of its residuals by sqrt(1 - s).
    """
    centre, of = mean(differences), len(differences)
    sums, sizes = defaultdict[str, float](float), Counter(clusters)
    for difference, cluster in zip(differences, clusters, strict=True):
        sums[cluster] += difference - centre
    shares = {cluster: size / of for cluster, size in sizes.items()}
    error = fsum(sums[one] ** 2 / (1 - shares[one]) for one in sizes) ** 0.5 / of
    trace, squares = 0.0, 0.0
    for one, share in shares.items():
        trace += share
        squares += share**2
        squares += fsum((share * other) ** 2 / ((1 - share) * (1 - other)) for name, other in shares.items() if name != one)
    return error, trace**2 / squares
