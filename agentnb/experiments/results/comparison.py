"""Comparisons of two variants, paired by task: difference, interval, p value, flips, and the minimum detectable effect."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, overload

from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.experiments.planning.checks import MEASURES, read_checks
from agentnb.experiments.results.folder import Records
from agentnb.experiments.results.results import Results, name_of_task
from agentnb.experiments.results.rows import Row, row_of
from agentnb.experiments.results.values import cluster_means, task_values, unit_of
from agentnb.experiments.statistics.discordant import Discordance, compare_discordant
from agentnb.experiments.statistics.equivalence import Equivalence, assess_equivalence
from agentnb.experiments.statistics.minimum_effect import estimate_minimum_effect
from agentnb.experiments.statistics.multiplicity import adjust_holm
from agentnb.experiments.statistics.paired import Difference, estimate_difference
from agentnb.experiments.statistics.pass_k import PassShare, estimate_all_pass
from agentnb.experiments.statistics.ratios import Ratio, estimate_ratio
from agentnb.experiments.statistics.survival import SurvivalComparison, compare_survival
from agentnb.experiments.statistics.tasks import TooFewTasks
from agentnb.interchange.files import RunSource, load_traces
from agentnb.plots.survival import ends_of
from agentnb.rerun.diff import RunDiff, diff

if TYPE_CHECKING:
    import pandas as pd

RATIOS = ("cost", "tokens", "seconds")
ROUNDING = 1e-12
"""Differences below this are rounding errors."""
Found: TypeAlias = Difference | TooFewTasks


@dataclass(frozen=True)
class Comparison:
    """Variant a minus variant b in the primary, paired by task. Without data numbers are None, and `missing` says why."""

    a: str
    b: str
    primary: str
    rows_a: Sequence[Row] = field(repr=False)
    rows_b: Sequence[Row] = field(repr=False)
    notes: tuple[str, ...] = ()
    """What was done otherwise than planned."""
    family: int = 1
    """Comparisons of the same results; with more than one, ``p_adjusted`` is by Holm."""
    p_adjusted: float | None = None
    records: Records | None = field(default=None, repr=False)
    runs: Mapping[str, Run] = field(default_factory=dict, repr=False)
    """Runs in memory, by their ids."""

    @cached_property
    def analysis(self) -> Found:
        """The paired difference over all runs: those that did not complete have not passed."""
        return _analyse(self.rows_a, self.rows_b, self.primary)

    @cached_property
    def of_completed(self) -> Found:
        """The second analysis: without the runs that did not complete."""
        return _analyse(
            [row for row in self.rows_a if row.is_completed], [row for row in self.rows_b if row.is_completed], self.primary
        )

    @property
    def difference(self) -> float | None:
        """Mean of a minus mean of b, each task with equal weight; None if too few tasks are paired."""
        return self.analysis.value if isinstance(self.analysis, Difference) else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 per cent limits of the true difference; None if too few tasks are paired, or all differ alike."""
        return self.analysis.interval if isinstance(self.analysis, Difference) and not self.is_identical else None

    @property
    def p_value(self) -> float | None:
        """Two-sided p value of no difference: below .05 exactly if 0 lies outside the interval."""
        return self.analysis.p_value if isinstance(self.analysis, Difference) and not self.is_identical else None

    @property
    def tasks(self) -> int:
        """Tasks, or clusters of tasks, with a known value in both variants."""
        return self.analysis.tasks

    @cached_property
    def mde(self) -> float | None:
        """Minimum detectable effect: the difference that a comparison like this one shows with a power of 80 per cent."""
        return estimate_minimum_effect(*_units(self.rows_a, self.rows_b, self.primary))

    @cached_property
    def is_identical(self) -> bool:
        """Whether all pairs of runs said and did the same: there is nothing to estimate."""
        pairs = self._pairs
        same = all(one.digest == other.digest and one.digest for one, other in pairs)
        return bool(pairs) and same and all(one.value(self.primary) == other.value(self.primary) for one, other in pairs)

    @cached_property
    def discordant(self) -> Discordance | None:
        """McNemar's exact test, where each task has one run per variant and no cluster, and passes or fails; else None."""
        a, b = task_values(self.rows_a, self.rows_b, self.primary)
        is_binary = all(len(values) <= 1 and {*values} <= {0.0, 1.0} for values in (*a, *b))
        if not is_binary or any(row.cluster for row in self.rows_a):
            return None
        return compare_discordant(a, b)

    @cached_property
    def pass_k(self) -> dict[str, tuple[PassShare, ...]]:
        """The share of tasks of which k runs all pass, by variant; empty unless the primary passes or fails.

        With several models, a task under each model counts as a task.
        """
        arms = [_runs_of_tasks(rows, self.primary) for rows in (self.rows_a, self.rows_b)]
        if any(not {*values} <= {0.0, 1.0} for arm in arms for values in arm):
            return {}
        return {name: estimate_all_pass(arm) for name, arm in zip((self.a, self.b), arms, strict=True)}

    @cached_property
    def ratios(self) -> dict[str, Ratio | TooFewTasks]:
        """How many times b's cost, tokens and seconds those of a are, paired by task."""
        return {name: estimate_ratio(*_measured(self.rows_a, self.rows_b, name)) for name in RATIOS}

    @cached_property
    def survival(self) -> SurvivalComparison:
        """Rounds until the first loop; runs that completed have none, those cut short are censored at their last round."""
        return compare_survival(ends_of(self.rows_a), ends_of(self.rows_b))

    def equivalence(self, margin: float) -> Equivalence | TooFewTasks:
        """Return whether the variants differ by less than the margin: two one-sided tests, paired by task."""
        if not isinstance(margin, int | float) or isinstance(margin, bool) or not 0 < margin < inf:
            raise SettingsError(f"margin={margin!r} is not a difference", "Give a number above 0, such as 0.1")
        return assess_equivalence(*_units(self.rows_a, self.rows_b, self.primary), margin)

    @cached_property
    def flips(self) -> pd.DataFrame:
        """One row per pair of runs with different values: ``task``, ``model``, ``repeat``, both values, runs and statuses."""
        import pandas as pd

        found = [
            (one.task, one.model, one.repeat + 1, *values, one.run_id, other.run_id, one.status, other.status)
            for one, other in self._pairs
            if (values := (one.value(self.primary), other.value(self.primary)))[0] != values[1]
        ]
        columns = ["task", "model", "repeat", "a", "b", "run_a", "run_b", "status_a", "status_b"]
        return pd.DataFrame(found, columns=columns)

    def run(self, run_id: str) -> Run:
        """Return a run of the comparison."""
        if run_id in self.runs:
            return self.runs[run_id]
        if self.records is None:
            raise SettingsError(f"Run {run_id} is not kept", "Give the experiment a folder")
        return self.records.run(run_id)

    def diff(self, task: str, repeat: int = 1, model: str | None = None) -> RunDiff:
        """Return both runs of a task side by side. ``repeat`` counts from 1; ``model``: by default the first there is."""
        for one, other in self._pairs:
            is_meant = one.task == task and one.repeat + 1 == repeat and model in (None, one.model)
            if is_meant and one.run_id and other.run_id:
                return diff(self.run(one.run_id), self.run(other.run_id))
        raise SettingsError(f"Task {task!r} has no pair of runs with the repeat {repeat}", "See c.flips")

    @property
    def missing(self) -> str:
        """Why there is no number; empty if there is one."""
        if isinstance(self.analysis, TooFewTasks):
            paired = self.analysis.tasks
            return f"{paired} tasks are paired: {self.analysis.required} are needed for a number. Pair runs of the same tasks"
        if self.is_identical:
            return "All runs are identical: the variants did the same, or nothing in them acts on these tasks"
        return ""

    @cached_property
    def _pairs(self) -> list[tuple[Row, Row]]:
        """The runs of the same task, model and repeat in both variants."""
        others: dict[tuple[str, str, int], Row] = {(row.task, row.model, row.repeat): row for row in self.rows_b}
        unnamed = {(row.task, row.repeat): row for row in self.rows_b}
        pairs = []
        for row in self.rows_a:
            other = others.get((row.task, row.model, row.repeat)) or unnamed.get((row.task, row.repeat))
            if other is not None:
                pairs.append((row, other))
        return pairs

    def __repr__(self) -> str:
        return "\n".join(comparison_lines(self))


@overload
def compare(source: Results, a: str, b: str, *, primary: Any = None) -> Comparison: ...
@overload
def compare(source: Results, *, primary: Any = None) -> list[Comparison]: ...
@overload
def compare(source: RunSource, a: RunSource, *, primary: Any = None, names: tuple[str, str] = ("a", "b")) -> Comparison: ...
def compare(
    source: Results | RunSource,
    a: str | RunSource | None = None,
    b: str | None = None,
    *,
    primary: Any = None,
    names: tuple[str, str] = ("a", "b"),
) -> Comparison | list[Comparison]:
    """Compare two variants of an experiment, or two sets of runs, paired by task: the first minus the second.

    ``compare(results, "new", "old")`` compares two variants, ``compare(results)`` each further variant with the first, with p
    values adjusted by Holm. ``compare(runs, others)`` compares runs, paths, stores or logs of Inspect: tasks are paired by the
    tag ``task:NAME``, the task of their benchmark, or their prompt. ``primary``: a check or a measure (``cost``, ``rounds``,
    ``seconds``, ``tokens``); by default that of the experiment, else `passed`, or `score` where scores lie between none and
    full marks. Raises `SettingsError` for unknown names, and while the results are covered.
    """
    if not isinstance(source, Results):
        if a is None or b is not None:
            raise SettingsError("Two sets of runs are compared", "Write compare(runs, others), or compare(results, A, B)")
        return _of_runs(source, a, primary, names)
    source.check_open()
    chosen = source.primary if primary is None else _known(source, primary)
    if a is not None and b is not None:
        if a == b:
            raise SettingsError(f"The variant {b!r} was given twice", f"It has {', '.join(source.variants)}")
        return _of_results(source, str(a), b, chosen)
    if a is not None or len(source.variants) < 2:
        raise SettingsError("Two variants are compared", f"Name two of them: {', '.join(source.variants)}")
    first, *others = source.variants
    found = [_of_results(source, other, first, chosen) for other in others]
    adjusted = adjust_holm([one.p_value for one in found])
    return [
        Comparison(one.a, one.b, one.primary, one.rows_a, one.rows_b, one.notes, len(found), p_value, one.records, one.runs)
        for one, p_value in zip(found, adjusted, strict=True)
    ]


def comparison_lines(one: Comparison) -> list[str]:
    """Return the comparison in sentences: the difference, how sure it is, and what else a reader must know."""
    lines = [f"{one.a} minus {one.b}, {one.primary}: {_told(one)}"]
    if not one.missing:
        second = one.of_completed
        left = sum(not row.is_completed for row in (*one.rows_a, *one.rows_b))
        if left:
            told = f"{signed(second.value)}{_limits(second.interval)}" if isinstance(second, Difference) else "too few tasks"
            lines.append(f"Without the {left} runs that did not complete: {told}")
        lines.append(f"Pairs of runs with another value: {len(one.flips)}")
    return [*lines, *one.notes]


def _told(one: Comparison) -> str:
    if one.missing:
        return one.missing
    analysis = one.analysis
    assert isinstance(analysis, Difference), "nothing is missing"
    if analysis.interval is None:
        most = analysis.max_exception_share
        each = f"{signed(analysis.value)} in each of {analysis.tasks} tasks"
        return f"{each}; at most {most:.0%} of all tasks differ from that (95 %)"
    p_value = analysis.p_value if one.p_adjusted is None else one.p_adjusted
    holm = ", Holm" if one.p_adjusted is not None else ""
    lines = f"{signed(analysis.value)}{_limits(analysis.interval)}, p = {p_value:.3g}{holm}, {analysis.tasks} tasks"
    is_clear = p_value < 1 - analysis.confidence
    if is_clear or one.mde is None:
        return lines
    return f"{lines}. No difference is shown; one of {one.mde:.2g} would have been seen with a power of 80 %"


def _limits(interval: tuple[float, float] | None) -> str:
    return "" if interval is None else f" [{signed(interval[0])}, {signed(interval[1])}]"


def signed(value: float) -> str:
    """Return a difference with its sign; what is left of 0 by rounding errors is 0."""
    return f"{0.0 if abs(value) < ROUNDING else value:+.3g}"


def _of_results(results: Results, a: str, b: str, primary: str) -> Comparison:
    return Comparison(a, b, primary, results.of(a), results.of(b), results.notes, records=results.records)


def _known(results: Results, primary: Any) -> str:
    known = [*dict.fromkeys(name for row in results.rows for name in row.values), *MEASURES]
    name = primary if isinstance(primary, str) else getattr(primary, "__name__", str(primary))
    if name not in known:
        raise SettingsError(f"The experiment has no check {name!r}", f"It has {', '.join(known)}")
    return str(name)


def _of_runs(first: RunSource, second: RunSource, primary: Any, names: tuple[str, str]) -> Comparison:
    sets = (load_traces(first), load_traces(second))
    runs = [run for one in sets for run in one]
    chosen = _usual_primary(runs) if primary is None else primary
    problems: list[str] = []
    checks, name = read_checks((), chosen, problems)
    if problems:
        raise SettingsError(problems[0])
    rows_a, rows_b = (_rows(one, label, checks) for one, label in zip(sets, names, strict=True))
    return Comparison(*names, name, rows_a, rows_b, runs={run.id: run for run in runs})


def _usual_primary(runs: Iterable[Run]) -> str:
    return "score" if any(run.score is not None and run.outcome == "unknown" for run in runs) else "passed"


def _rows(runs: Sequence[Run], variant: str, checks: Sequence[Any]) -> list[Row]:
    repeats: dict[str, int] = {}
    rows = []
    for run in runs:
        task = name_of_task(run)
        trial = run.origin.trial if run.origin is not None else ""
        repeat = repeats[task] = int(trial) - 1 if trial.isdecimal() else repeats.get(task, -1) + 1
        cell = {"key": run.id, "task": task, "variant": variant, "model": run.model, "repeat": repeat, "seed": 0}
        rows.append(row_of(run, checks, {}, **cell))
    return rows


def _analyse(a: Sequence[Row], b: Sequence[Row], name: str) -> Found:
    return estimate_difference(*_units(a, b, name))


def _units(a: Sequence[Row], b: Sequence[Row], name: str) -> tuple[list[list[float]], list[list[float]]]:
    """Return the values of both arms by unit: the task, or the cluster of tasks with the means of its tasks."""
    values_a, values_b = task_values(a, b, name)
    rows = [*a, *b]
    if not any(row.cluster for row in rows):
        return values_a, values_b
    order = sorted({row.task for row in rows})
    paired = [task for task, one, other in zip(order, values_a, values_b, strict=True) if one and other]
    kept_a = [one for one, other in zip(values_a, values_b, strict=True) if one and other]
    kept_b = [other for one, other in zip(values_a, values_b, strict=True) if one and other]
    means_a, means_b = cluster_means(rows, kept_a, paired), cluster_means(rows, kept_b, paired)
    return [means_a[one] for one in means_a], [means_b[one] for one in means_a]


def _runs_of_tasks(rows: Iterable[Row], name: str) -> list[list[float]]:
    """Return the known values of each task under each model."""
    found: dict[tuple[str, str], list[float]] = {}
    for row in rows:
        value = row.value(name)
        if value is not None:
            found.setdefault((row.task, row.model), []).append(value)
    return [found[key] for key in sorted(found)]


def _measured(a: Sequence[Row], b: Sequence[Row], name: str) -> tuple[list[list[float | None]], list[list[float | None]]]:
    def values(rows: Sequence[Row]) -> dict[tuple[str, str], list[float | None]]:
        found: dict[tuple[str, str], list[float | None]] = {}
        for row in rows:
            value = getattr(row, name)
            found.setdefault(unit_of(row), []).append(None if value is None else float(value))
        return found

    by_a, by_b = values(a), values(b)
    tasks = sorted({*by_a, *by_b})
    return [by_a.get(task, []) for task in tasks], [by_b.get(task, []) for task in tasks]


def log_of(records: Records | None, run_id: str) -> Path | None:
    """Return the path of a run's log; None if it is in memory only."""
    store = None if records is None else records.store
    return None if store is None or not run_id else store.path(run_id)
