"""Results made of rows, without any run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentnb.experiments.results.experiment_folder import Note, Plan
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.results.rows import Row

CALLED = "called"


def row(variant: str, task: str, value: Any, repeat: int = 0, **fields: Any) -> Row:
    """A completed row with a value of the primary, and a digest of its own."""
    known: dict[str, Any] = {
        "key": f"{variant}{task}{repeat}",
        "model": "simulated:chatty",
        "seed": 1,
        "run_id": f"run-{variant}-{task}-{repeat}",
        "status": "completed",
        "stop_reason": "natural",
        "values": {CALLED: value},
        "rounds": 3,
        "cost": 0.002,
        "input_tokens": 1_000,
        "output_tokens": 200,
        "seconds": 1.5,
        "digest": f"{variant}{task}{repeat}",
    }
    return Row(task=task, variant=variant, repeat=repeat, **{**known, **fields})


def results_of(arms: Mapping[str, Sequence[Any]], repeats: int = 1, notes: Sequence[str] = (), **more: Any) -> Results:
    """Results of arms by the values of their runs, task by task and repeat by repeat; None: it did not complete."""
    rows = []
    for variant, values in arms.items():
        for place, value in enumerate(values):
            lost = {"status": "limited", "stop_reason": "max_rounds"} if value is None else {}
            rows.append(row(variant, f"t{place // repeats}", bool(value), place % repeats, **lost))
    return results_from(rows, notes, **more)


def results_from(rows: Sequence[Row], notes: Sequence[str] = (), **more: Any) -> Results:
    """Results of rows."""
    plan = Plan("c0ac0847d02b", "hash", {}, notes=tuple([Note("extended", text) for text in notes]))
    variants = tuple(dict.fromkeys(one.variant for one in rows))
    return Results(rows, plan, **{"primary": CALLED, "variants": variants, **more})
