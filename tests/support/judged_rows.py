"""Rows that a judge has judged, and labels of them, without any run."""

from __future__ import annotations

from random import Random
from typing import Any

from made_results import results_from, row

from agentnb import compare
from agentnb.experiments.results.comparison import Comparison
from agentnb.experiments.results.corrections import JudgeQuality, LabelledRun

JUDGE = "judge"


def judged_row(arm: str, task: str, value: bool | None, **fields: Any) -> Any:
    return row(arm, task, None, values={JUDGE: value}, judged={JUDGE: "j"}, run_id=f"{arm}-{task}", end="completed", **fields)


def compared(rows: list[Any], quality: JudgeQuality | None = None) -> Comparison:
    return compare(results_from(rows, primary=JUDGE), "a", "b", quality=quality)


def quality(labels: dict[str, bool], judged: list[LabelledRun] | None = None) -> JudgeQuality:
    return JudgeQuality(JUDGE, "hash", labels, judged or [])


def table(hits: int, misses: int, false: int, right: int, arm: str = "a") -> list[LabelledRun]:
    """Labelled runs: healthy ones that pass and fail, failed ones that pass and fail."""
    cells = [((True, True), hits), ((True, False), misses), ((False, True), false), ((False, False), right)]
    return [LabelledRun(arm, f"{pair}{n}", *pair) for pair, count in cells for n in range(count)]


def draw(rng: Random, tasks: int, labelled: int, rates: tuple[float, float], errors: Any) -> tuple[list[Any], dict[str, bool]]:
    """Rows that a judge has judged, with labels of a random sample of each arm. ``errors``: sensitivity and specificity."""
    rows, labels = [], {}
    levels = [rng.uniform(-0.15, 0.15) for _ in range(tasks)]
    for arm, rate, (sensitivity, specificity) in zip("ab", rates, errors, strict=True):
        healthy = [rng.random() < rate + level for level in levels]
        for task, is_healthy in enumerate(healthy):
            right = rng.random() < (sensitivity if is_healthy else specificity)
            rows.append(judged_row(arm, f"t{task}", is_healthy == right, key=f"{arm}{task}", digest=f"{arm}{task}"))
        labels |= {f"{arm}-t{task}": healthy[task] for task in rng.sample(range(tasks), labelled)}
    return rows, labels
