"""Turns recorded runs of any origin into the rows of two arms, identifying tasks, repeats and nested runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from agentnb.core.log.run_tags import TASK_TAG, VARIANT_TAG, find_tag
from agentnb.core.run.facts import RunFacts
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.experiments.planning.experiment_checks import Check, read_checks
from agentnb.experiments.results.judged_rows import bench_of, judge_recorded
from agentnb.experiments.results.rows import Row, row_of
from agentnb.interchange.files import RunSource, load_traces


class RecordedArms(NamedTuple):
    """Two sets of runs, prepared for comparison."""

    primary: str
    rows_a: list[Row]
    rows_b: list[Row]
    runs: dict[str, Run]
    notes: tuple[str, ...]


def recorded_arms(first: RunSource, second: RunSource, primary: Any, names: Sequence[str]) -> RecordedArms:
    """Return two sets of runs as rows. ``primary`` defaults to `passed` or `score`, depending on their outcomes."""
    arms = [_outer(load_traces(source)) for source in (first, second)]
    runs = [run for arm in arms for run in arm]
    chosen = _usual_primary(runs) if primary is None else primary
    problems: list[str] = []
    checks, name = read_checks((), chosen, problems)
    if problems:
        raise SettingsError(problems[0])
    by_file = any(map(_number_tasks_alike, arms))
    benchmarks = {_benchmark(run, by_file=by_file) for run in runs} - {""}
    is_named = len(benchmarks) > 1
    plain = [check for check in checks if not check.is_asked]
    rows = [_rows(arm, label, plain, is_named=is_named, by_file=by_file) for arm, label in zip(arms, names, strict=True)]
    if len(plain) < len(checks):
        sources = zip(rows, arms, (first, second), strict=True)
        rows = [judge_recorded(of_arm, arm, checks, bench_of(source)) for of_arm, arm, source in sources]
    notes = (f"Tasks have the names of their benchmarks: {', '.join(sorted(benchmarks))}",) if is_named else ()
    return RecordedArms(name, rows[0], rows[1], {run.id: run for run in runs}, notes)


def _outer(runs: Sequence[Run]) -> list[Run]:
    """Return the runs that are not nested in another of these runs."""
    ids = {run.id for run in runs}
    return [run for run in runs if run.parent_id not in ids]


def _usual_primary(runs: Iterable[Run]) -> str:
    return "score" if any(run.score is not None and run.outcome == "unknown" for run in runs) else "passed"


def _number_tasks_alike(runs: Iterable[Run]) -> bool:
    """True if several files in an arm have a task with the same number, and nothing shows that these are the same task."""
    files: dict[tuple[str, str, str], set[str]] = {}
    for run in runs:
        origin = run.origin
        if origin is not None and origin.task.isdecimal() and not origin.benchmark:
            files.setdefault((origin.task, origin.trial, run.model), set()).add(origin.file)
    return any(len(names) > 1 for names in files.values())


def _benchmark(run: RunFacts, *, by_file: bool) -> str:
    """Return the benchmark of the run's task: the file name if tasks are numbered per file; empty if unknown."""
    origin = run.origin
    if origin is None or not origin.task:
        return ""
    return origin.benchmark or (origin.file_name if by_file and origin.task.isdecimal() else "")


def name_of_task(run: RunFacts) -> str:
    """Return the task of a run: its tag, its benchmark's task, or its prompt."""
    return find_tag(run.tags, TASK_TAG) or (run.origin.task if run.origin is not None else "") or run.prompt


def arm_of(run: RunFacts) -> str:
    """Return the variant of an experiment's run; empty for other runs."""
    return find_tag(run.tags, VARIANT_TAG)


def _rows(runs: Sequence[Run], variant: str, checks: Sequence[Check], *, is_named: bool, by_file: bool) -> list[Row]:
    used: set[tuple[str, str, int]] = set()
    rows = []
    for run in runs:
        benchmark = _benchmark(run, by_file=by_file) if is_named else ""
        task = " / ".join(filter(None, (benchmark, name_of_task(run))))
        trial = run.origin.trial if run.origin is not None else ""
        repeat = max(int(trial) - 1, 0) if trial.isdecimal() else 0
        while (task, run.model, repeat) in used:
            repeat += 1
        used.add((task, run.model, repeat))
        cell = {"key": run.id, "task": task, "variant": variant, "model": run.model, "repeat": repeat, "seed": None}
        rows.append(row_of(run, checks, {}, **cell))
    return rows
