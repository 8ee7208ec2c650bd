"""Sets of recorded runs: their tasks, repeats and outcomes, and nested runs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from run_builder import Story

from agentnb import compare
from agentnb.core.log.outcome import Assessment
from agentnb.core.log.work_events import OutcomeGiven
from agentnb.detect.run import Run

ASKED, REPLIED = {"role": "user", "content": "Go"}, {"role": "assistant", "content": "Done."}


def inspect_log(task: str, scores: list[float | str], **of_sample: Any) -> dict[str, Any]:
    """Write an Inspect log with samples numbered from 1; a text as a score means no score."""
    samples = [
        {"id": number, "epoch": 1, "input": "Go", "messages": [ASKED, REPLIED], **of_sample}
        | ({"scores": {"match": {"value": score}}} if isinstance(score, float) else {})
        for number, score in enumerate(scores, 1)
    ]
    return {"version": 2, "status": "success", "eval": {"task": task, "model": "m"}, "samples": samples}


def tau_bench(rewards: list[float]) -> list[dict[str, Any]]:
    return [
        {"task_id": number, "trial": 0, "reward": reward, "info": {}, "traj": [ASKED, REPLIED]}
        for number, reward in enumerate(rewards)
    ]


def written(folder: Path, **files: Any) -> Path:
    folder.mkdir()
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    return folder


def outcome(passed: bool, prompt: str, run_id: str, end: str = "completed", **first: Any) -> Run:
    story = Story(prompt=prompt, run_id=run_id, **first).said()
    story.add(OutcomeGiven, assessment=Assessment("passed" if passed else "failed", "trace"))
    return story.over(end).run  # type: ignore[arg-type]


def test_tasks_of_different_benchmarks_are_kept_separate(tmp_path: Path, subtests: pytest.Subtests) -> None:
    better, worse = ([1.0] * 8, [0.0] * 8), ([0.0] * 8, [1.0] * 8)
    made = {
        "inspect": lambda values, name: inspect_log(name, values),
        "tau-bench": lambda values, name: tau_bench(values),
    }
    for product, make in made.items():
        with subtests.test(product):
            a, b = (
                written(tmp_path / f"{product}-{arm}", math=make(better[arm], "math"), code=make(worse[arm], "code"))
                for arm in (0, 1)
            )
            comparison = compare(a, b)
            assert comparison.tasks == 16 and comparison.difference == 0
            assert len(comparison.flips) == 16 and set(comparison.flips.a) == {0.0, 1.0}
            name = "math"
            assert f"{name} / 1" in {unit.task for unit in comparison.units}
            assert any("math" in note and "code" in note for note in comparison.notes)


def test_benchmark_in_several_logs_keeps_its_task_names(tmp_path: Path) -> None:
    a = written(tmp_path / "a", one=inspect_log("math", [1.0] * 6), two=inspect_log("math", [0.0] * 6))
    b = written(tmp_path / "b", other=inspect_log("math", [1.0] * 6))
    comparison = compare(a, b)
    assert [(unit.task, unit.a, unit.b) for unit in comparison.units][:2] == [
        ("1", [1.0, 0.0], [1.0]),
        ("2", [1.0, 0.0], [1.0]),
    ]
    assert comparison.tasks == 6 and comparison.difference == -0.5 and not comparison.notes


def test_nested_runs_are_part_of_their_parent() -> None:
    arms = [
        [
            run
            for number in range(6)
            for run in (
                outcome(arm == "a", f"task {number}", f"{arm}{number}"),
                outcome(arm == "a", f"step of {number}", f"{arm}{number}-step", parent_id=f"{arm}{number}"),
            )
        ]
        for arm in "ab"
    ]
    comparison = compare(*arms)
    assert comparison.tasks == 6 and comparison.counts["a"]["scored"] == 6
    assert compare([arms[0][1]], [arms[1][1]]).counts["a"]["scored"] == 1, "without its parent it is a separate run"


def test_recorded_outcomes_are_used_whatever_the_run_status(tmp_path: Path) -> None:
    ends = ("completed", "limited", "stopped", "failed", "cancelled", "unknown")
    a = [outcome(True, f"task {place}", f"a{place}", end) for place, end in enumerate(ends)]
    b = [outcome(False, f"task {place}", f"b{place}", end) for place, end in enumerate(ends)]
    comparison = compare(a, b)
    assert comparison.difference == 1 and comparison.missing_values == 0
    limited = {"limit": {"type": "token", "limit": 100.0}}
    logs = [written(tmp_path / arm, log=inspect_log("math", [score] * 6, **limited)) for arm, score in (("a", 1.0), ("b", 0.0))]
    assert compare(*logs).difference == 1
    without = written(tmp_path / "c", log=inspect_log("math", [""] * 6, **limited))
    assert compare(logs[0], without).difference == 1, "an end at a limit without an outcome has not passed"


def test_repeats_of_recorded_runs_are_averaged_within_task_and_model() -> None:
    a = [outcome(passed, "task", f"a{place}") for place, passed in enumerate((True, True, False))]
    b = [outcome(passed, "task", f"b{place}") for place, passed in enumerate((False, True))]
    (unit,) = compare(a, b).units
    assert (sorted(unit.a), sorted(unit.b), unit.repeat) == ([0.0, 1.0, 1.0], [0.0, 1.0], None)
    assert [(flip.repeat, flip.a, flip.b) for flip in compare(a, b).flips.itertuples()] == [(1, 1.0, 0.0)]
