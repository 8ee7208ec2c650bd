"""Comparisons of two variants, paired by task: difference, interval, p value, flips, and minimum detectable effect."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from math import floor, inf, log10
from pathlib import Path
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

from agentnb.detect.run import Run
from agentnb.display.texts.labels import pluralize
from agentnb.errors import SettingsError
from agentnb.experiments.planning.experiment_checks import MEASURES
from agentnb.experiments.planning.looks import Look
from agentnb.experiments.results.corrections import Correction, JudgeQuality, correction_of
from agentnb.experiments.results.experiment_folder import Records
from agentnb.experiments.results.experiment_results import Results
from agentnb.experiments.results.judged_rows import UNCORRECTED
from agentnb.experiments.results.record_notes import comparison_notes
from agentnb.experiments.results.recorded_arms import recorded_arms
from agentnb.experiments.results.rows import Row
from agentnb.experiments.results.values import (
    CellValue,
    Unit,
    cell_values,
    count_states,
    impute,
    pair_cells,
    runs_by_unit,
    stack_units,
    units_of,
)
from agentnb.experiments.statistics.discordant import Discordance, compare_discordant
from agentnb.experiments.statistics.equivalence import Equivalence, assess_equivalence
from agentnb.experiments.statistics.gray_test import SurvivalComparison, compare_survival
from agentnb.experiments.statistics.minimum_effect import POWER, estimate_minimum_effect
from agentnb.experiments.statistics.multiplicity import adjust_holm
from agentnb.experiments.statistics.paired import MIN_SKEWED, Difference, estimate_difference
from agentnb.experiments.statistics.pass_shares import PassShare, estimate_all_pass
from agentnb.experiments.statistics.ratios import Ratio, estimate_ratio
from agentnb.experiments.statistics.task_values import ALPHA, TooFewTasks
from agentnb.interchange.files import RunSource
from agentnb.plots.survival_plot import ends_of
from agentnb.rerun.run_diff import RunDiff, diff

if TYPE_CHECKING:
    import pandas as pd

RATIOS = ("cost", "tokens", "seconds")
ROUNDING = 1e-12
"""Differences below this are rounding errors."""
SKEW = {
    True: "A few differences are far larger than the others: the interval may have less than 95 % coverage",
    None: f"Fewer than {MIN_SKEWED} tasks or clusters differ, too few to detect outliers: the interval may be too narrow",
    False: "",
}
"""Warnings about the interval for differences that are skewed, or too few to tell."""
PASSES = (0.0, 1.0)
"""Values, and limits, of a pass/fail outcome."""
AnyDifference: TypeAlias = Difference | TooFewTasks
Estimate = TypeVar("Estimate")


@dataclass(frozen=True)
class Comparison:
    """Variant a minus variant b in the primary, paired by task. Without data, numbers are None and `missing` says why."""

    a: str
    b: str
    primary: str
    rows_a: Sequence[Row] = field(repr=False)
    rows_b: Sequence[Row] = field(repr=False)
    notes: tuple[str, ...] = ()
    """Notes on deviations from the plan."""
    family: int = 1
    """Number of comparisons made with the same results. If there are several, ``p_adjusted`` is adjusted by Holm's method."""
    p_adjusted: float | None = None
    records: Records | None = field(default=None, repr=False)
    runs: Mapping[str, Run] = field(default_factory=dict, repr=False)
    """Runs held in memory, by id."""
    experiment: str = ""
    """Id of the experiment; empty for sets of runs."""
    not_run: Sequence[Row] = field(default=(), repr=False)
    """Placeholder rows for planned cells that have not run."""
    quality: JudgeQuality | None = field(default=None, repr=False)
    """Quality of the deciding judge, used to correct the differences. Flips, McNemar's test and pass^k are not corrected."""
    limits: tuple[float, float] | None = None
    """Minimum and maximum of the primary, or None if they were not specified."""
    look: Look | None = None
    """The planned look of the comparison, or None if no looks are planned."""

    @property
    def level(self) -> float:
        """The significance level: .05, or the level of a planned look."""
        return ALPHA if self.look is None else self.look.level

    @property
    def price(self) -> float | None:
        """Width of the interval relative to one without planned looks, or None if there are no looks or no interval."""
        if self.look is None or self.interval is None:
            return None
        fixed = self._analyse(self.units, ALPHA)
        if not isinstance(fixed, Difference) or fixed.interval is None:
            return None
        return (self.interval[1] - self.interval[0]) / (fixed.interval[1] - fixed.interval[0])

    @cached_property
    def cells(self) -> tuple[list[CellValue], list[CellValue]]:
        """The cells of both arms with their values of the primary, or the reason why a value is missing."""
        return self._cells(self.primary)

    @cached_property
    def units(self) -> list[Unit]:
        """The units compared within tasks: tasks and models, and repeats if both arms share their seeds."""
        return units_of(*self.cells)

    @property
    def left_out(self) -> list[Unit]:
        """Units that lack a value in one or both arms; they are left out of every number."""
        return [unit for unit in self.units if not unit.is_paired]

    @cached_property
    def counts(self) -> dict[str, dict[str, int]]:
        """Number of cells that are scored, unknown, failed or not run, by variant."""
        return {name: count_states(cells) for name, cells in zip((self.a, self.b), self.cells, strict=True)}

    @property
    def missing_values(self) -> int:
        """Number of cells without a value."""
        return sum(cell.value is None for arm in self.cells for cell in arm)

    @cached_property
    def analysis(self) -> AnyDifference:
        """Paired difference over all cells that have a value; runs that were cut short count as not passed."""
        return self._analyse(self.units)

    @cached_property
    def of_completed(self) -> AnyDifference:
        """A second analysis that leaves out incomplete runs."""
        return self._analyse(units_of(*map(_keep_completed, self.cells)))

    @cached_property
    def value_limits(self) -> tuple[float, float] | None:
        """Minimum and maximum value: 0 and 1 for pass/fail, otherwise as specified or observed; None if no value is known."""
        if self.limits or not self._seen:
            return self.limits
        return PASSES if self._seen <= {*PASSES} else (min(self._seen), max(self._seen))

    @cached_property
    def extremes(self) -> tuple[AnyDifference, AnyDifference] | None:
        """Lowest and highest difference that missing values allow within `value_limits`, or None if no values are missing."""
        if self._extreme_units is None:
            return None
        lowest, highest = map(self._analyse, self._extreme_units)
        return lowest, highest

    @property
    def is_shown(self) -> bool:
        """True if a difference is shown: the p value, adjusted if there are several comparisons, is below `level`."""
        return bool(self.shown_sign)

    @property
    def shown_sign(self) -> int:
        """Sign of the difference, or 0 if none is shown."""
        return self._sign(self.analysis)

    def _sign(self, difference: AnyDifference) -> int:
        """Return the sign of a difference that is shown, otherwise 0. Holm's factor is that of the main analysis."""
        if self.p_adjusted is None or not isinstance(self.analysis, Difference):
            return find_sign(difference)
        return find_sign(difference, self.p_adjusted / self.analysis.p_value if self.analysis.p_value else self.family)

    @property
    def could_turn(self) -> bool | None:
        """True if missing values at an extreme change whether a difference is shown; None if no values are missing or the
        difference is unknown.
        """
        if self.extremes is None or not isinstance(self.analysis, Difference):
            return None
        return any(self._sign(extreme) != self.shown_sign for extreme in self.extremes)

    @property
    def robustness(self) -> str:
        """A sentence on whether missing values could change the result; empty if no values are missing.

        Only for single passes and failures do the extremes show what every mixture of missing values does.
        """
        if self.could_turn is None:
            return ""
        kind = "missing value" if self.quality is None else "missing verdict"  # a correction assumes the same error rates
        values = pluralize(self.missing_values, kind)
        adjusted = "" if self.p_adjusted is None else " after adjusting"
        is_exact = self.discordant is not None and self.quality is None and self.value_limits == PASSES
        if self.could_turn or is_exact:
            return f"{values} {'could' if self.could_turn else 'cannot'} change whether a difference is shown{adjusted}"
        seen = "" if self.limits or self._seen <= {*PASSES} else " of the values seen"
        shown = "a difference is shown" if self.is_shown else "no difference is shown"
        return f"With {values} at either extreme{seen}, {shown}{adjusted}; mixtures were not tried"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Problems with the data: unequal shares of missing values, and differences that are, or may be, skewed."""
        skew = [SKEW[self.analysis.is_skewed]] if isinstance(self.analysis, Difference) and not self.is_identical else []
        warnings = [warning for warning in skew if warning]
        totals = [(name, sum(states.values()), states["scored"]) for name, states in self.counts.items()]
        if len({scored / total for _, total, scored in totals if total}) > 1:
            shares = ", ".join(f"{name} {total - scored:,} of {total:,}" for name, total, scored in totals)
            warnings.append(f"More values are missing in one variant than in the other: {shares}")
        return tuple(warnings)

    @property
    def rests_on_incomplete(self) -> bool:
        """True if the difference is shown only because of runs that hit a limit or failed."""
        return self.is_shown and self._sign(self.of_completed) != self._sign(self.analysis)

    @property
    def difference(self) -> float | None:
        """Mean of a minus mean of b, with equal weight for each task, or None if too few tasks are paired."""
        return self.analysis.value if isinstance(self.analysis, Difference) else None

    @property
    def interval(self) -> tuple[float, float] | None:
        """95 per cent interval of the true difference, valid across all planned looks; None if there are too few pairs or all
        runs are identical.
        """
        return self.analysis.interval if isinstance(self.analysis, Difference) and not self.is_identical else None

    @property
    def p_value(self) -> float | None:
        """Two-sided p value for no difference: below `level` if and only if the interval excludes 0."""
        return self.analysis.p_value if isinstance(self.analysis, Difference) and not self.is_identical else None

    @property
    def tasks(self) -> int:
        """Number of tasks with a known value in both variants."""
        return self.analysis.tasks

    @cached_property
    def mde(self) -> float | None:
        """Minimum detectable effect: the difference that such a comparison detects with 80 per cent power.

        For several comparisons, at the level of Holm's first step. None at a planned look before the last, because the
        comparison continues.
        """
        if self.look is not None and not self.look.is_last:
            return None
        alpha = self.level / self.family
        if self._correction is not None:  # its interval has about the same width for any difference
            needed, deviations, power = map(NormalDist().inv_cdf, (1 - alpha / 2, 1 - self.level / 2, POWER))
            low, high = self.interval or (0.0, 0.0)
            return (needed + power) / deviations * (high - low) / 2 or None
        return self._by_unit(estimate_minimum_effect, self.units, alpha=alpha)

    @cached_property
    def is_identical(self) -> bool:
        """True if the runs in every pair are identical, so that there is nothing to estimate."""
        pairs = self.pairs
        same = all(a.row.digest == b.row.digest and a.row.digest for a, b in pairs)
        return bool(pairs) and not self.left_out and same and all(a.value == b.value for a, b in pairs)

    @property
    def also_differs(self) -> list[str]:
        """Measures other than time that differ within pairs of runs."""
        rows = [(a.row, b.row) for a, b in self.pairs]
        return [name for name in ("cost", "tokens") if any(a.value(name) != b.value(name) for a, b in rows)]

    @cached_property
    def discordant(self) -> Discordance | None:
        """McNemar's exact test if the primary is pass/fail and each task has one run per variant and no cluster; otherwise
        None.
        """
        values = [value for unit in self.units for value in (*unit.a, *unit.b)]
        is_single = len({unit.task for unit in self.units}) == len(self.units)
        is_single = is_single and all(len(unit.a) <= 1 >= len(unit.b) for unit in self.units)
        if not is_single or not {*values} <= {*PASSES} or self._clusters:
            return None
        return compare_discordant([unit.a for unit in self.units], [unit.b for unit in self.units])

    @cached_property
    def pass_k(self) -> dict[str, tuple[PassShare, ...]]:
        """Chance that k runs of a task all pass, averaged over tasks, by variant; empty unless the primary is pass/fail.

        If there are several models, a task's shares are averaged over them.
        """
        arms = [runs_by_unit(cells) for cells in self.cells]
        if any(not {*values} <= {*PASSES} for arm in arms for values in arm.values()):
            return {}
        return {
            name: estimate_all_pass([*arm.values()], tasks=[task for task, _ in arm])
            for name, arm in zip((self.a, self.b), arms, strict=True)
        }

    @cached_property
    def ratios(self) -> dict[str, Ratio | TooFewTasks]:
        """Cost, tokens and seconds of a divided by those of b, paired by task."""
        return {name: self._ratio(self._cells(name)) for name in RATIOS}

    @cached_property
    def ratios_of_completed(self) -> dict[str, Ratio | TooFewTasks]:
        """`ratios`, leaving out incomplete runs."""
        return {name: self._ratio(map(_keep_completed, self._cells(name))) for name in RATIOS}

    @cached_property
    def survival(self) -> SurvivalComparison:
        """Rounds until the first loop. Completed runs have no loop; runs cut short are censored at their last round."""
        return compare_survival(ends_of(self.rows_a), ends_of(self.rows_b))

    def equivalence(self, margin: float) -> Equivalence | TooFewTasks:
        """Test whether the variants differ by less than the margin, using two one-sided tests paired by task.

        If values are missing, the test is repeated with both of their extremes.
        """
        if not isinstance(margin, int | float) or isinstance(margin, bool) or not 0 < margin < inf:
            raise SettingsError(
                f"margin must be a positive, finite number, got {margin!r}", "Give a number above 0, such as 0.1"
            )
        if self._correction is not None:
            raise SettingsError("Equivalence cannot be tested for corrected differences", "Compare c.interval with the margin")
        test = partial(self._by_unit, assess_equivalence, alpha=self.level)
        result = test(self.units, margin)
        if isinstance(result, TooFewTasks):
            return result
        extremes = [test(units, margin) for units in self._extreme_units or ()]
        turns = any(isinstance(extreme, TooFewTasks) or extreme.is_equivalent != result.is_equivalent for extreme in extremes)
        return result._replace(turned_by=self.missing_values if turns else 0)

    @cached_property
    def flips(self) -> pd.DataFrame:
        """A row per pair of runs with different values, with ``task``, ``model``, ``repeat``, and the values, runs and statuses
        of both.
        """
        import pandas as pd

        rows = [
            (
                a.task,
                a.row.model,
                a.repeat + 1,
                a.value,
                b.value,
                a.row.run_id,
                b.row.run_id,
                a.row.status,
                b.row.status,
            )
            for a, b in self.pairs
            if a.value is not None and b.value is not None and a.value != b.value
        ]
        columns = ["task", "model", "repeat", "a", "b", "run_a", "run_b", "status_a", "status_b"]
        return pd.DataFrame(rows, columns=columns)

    def run(self, run_id: str) -> Run:
        """Return a run of the comparison."""
        if run_id in self.runs:
            return self.runs[run_id]
        if self.records is None:
            raise SettingsError(f"Run {run_id} was not stored", "Give the experiment a folder")
        return self.records.run(run_id)

    def diff(self, task: str, repeat: int = 1, model: str | None = None) -> RunDiff:
        """Return both runs of a task side by side. ``repeat`` counts from 1; ``model``: defaults to the first model."""
        for a, b in self.pairs:
            is_meant = a.task == task and a.repeat + 1 == repeat and model in (None, a.row.model)
            if is_meant and a.row.run_id and b.row.run_id:
                return diff(self.run(a.row.run_id), self.run(b.row.run_id))
        raise SettingsError(f"Task {task!r} has no pair of runs for repeat {repeat}", "See c.flips")

    @property
    def missing(self) -> str:
        """Why a number is missing; empty if there is a number."""
        if isinstance(self.analysis, TooFewTasks):
            remedy = "run both variants on the same tasks" if self.analysis.left_out else self.analysis.remedy
            why = pluralize(self.missing_values, "missing value") if self.missing_values else remedy
            return f"{self.analysis.shortage}: {why}"
        if self.is_identical:
            also = f". They differ in {' and '.join(self.also_differs)}" if self.also_differs else ""
            return f"Every pair of runs has the same replies and calls, so {self.primary} is the same{also}"
        return ""

    @cached_property
    def _seen(self) -> set[float]:
        """The values that are known."""
        return {cell.value for arm in self.cells for cell in arm if cell.value is not None}

    @cached_property
    def _extreme_units(self) -> tuple[list[Unit], list[Unit]] | None:
        """The units with missing values imputed for the lowest and the highest difference, or None if none are missing."""
        if self.value_limits is None or not self.missing_values:
            return None
        (a, b), (low, high) = self.cells, self.value_limits
        return units_of(impute(a, low), impute(b, high)), units_of(impute(a, high), impute(b, low))

    @cached_property
    def pairs(self) -> list[tuple[CellValue, CellValue]]:
        """Pairs of cells from both arms with the same task, model and repeat."""
        return pair_cells(*self.cells)

    def _cells(self, name: str) -> tuple[list[CellValue], list[CellValue]]:
        arms = ((self.a, self.rows_a), (self.b, self.rows_b))
        a, b = (cell_values([*rows, *[row for row in self.not_run if row.variant == arm]], name) for arm, rows in arms)
        return a, b

    @cached_property
    def _clusters(self) -> dict[str, str]:
        """The cluster of each task that has one."""
        return {row.task: row.cluster for row in (*self.rows_a, *self.rows_b) if row.cluster}

    @cached_property
    def _correction(self) -> Correction | None:
        return None if self.quality is None else correction_of(self.quality, *self.cells)

    def _analyse(self, units: list[Unit], level: float | None = None) -> AnyDifference:
        analyse = partial(self._by_unit, estimate_difference, confidence=1 - (level or self.level))
        return analyse(units) if self._correction is None else self._correction.difference(analyse, units)

    def _ratio(self, cells: Iterable[list[CellValue]]) -> Ratio | TooFewTasks:
        return self._by_unit(estimate_ratio, units_of(*cells))

    def _by_unit(self, estimate: Callable[..., Estimate], units: list[Unit], *more: Any, **options: float) -> Estimate:
        """Apply an estimator from `statistics` to units, with their tasks and clusters."""
        a, b, tasks = stack_units(units)
        clusters = [(task in self._clusters, self._clusters.get(task, task)) for task in tasks]
        return estimate(a, b, *more, tasks=tasks, clusters=clusters, **options)

    def __repr__(self) -> str:
        return "\n".join(comparison_lines(self))


class Comparisons(list[Comparison]):
    """Comparisons of the same results; a notebook displays each of them."""

    def __repr__(self) -> str:
        return "\n\n".join(map(repr, self))


Limits: TypeAlias = tuple[float, float] | None


@overload
def compare(
    source: Results, a: str, b: str, *, primary: Any = None, limits: Limits = None, quality: JudgeQuality | None = None
) -> Comparison: ...
@overload
def compare(
    source: Results, *, primary: Any = None, limits: Limits = None, quality: JudgeQuality | None = None
) -> list[Comparison]: ...
@overload
def compare(
    source: RunSource,
    a: RunSource,
    *,
    primary: Any = None,
    limits: Limits = None,
    names: tuple[str, str] = ("a", "b"),
    quality: JudgeQuality | None = None,
) -> Comparison: ...
def compare(
    source: Results | RunSource,
    a: str | RunSource | None = None,
    b: str | None = None,
    *,
    primary: Any = None,
    limits: Limits = None,
    names: tuple[str, str] = ("a", "b"),
    quality: JudgeQuality | None = None,
) -> Comparison | list[Comparison]:
    """Compare two variants of an experiment, or two sets of runs, paired by task: the first minus the second.

    ``compare(results, "new", "old")`` compares two variants. ``compare(results)`` compares each further variant with the first,
    with p values adjusted by Holm's method. ``compare(runs, others)`` compares runs, paths, stores or Inspect logs; tasks are
    paired by the tag ``task:NAME``, the task of their benchmark, or their prompt. ``primary``: a check or a measure (``cost``,
    ``rounds``, ``seconds``, ``tokens``); by default that of the experiment, otherwise `passed`, or `score` for runs with
    partial scores. ``limits``: minimum and maximum of the primary, which bound the effect of missing values. ``quality``: the
    quality of the deciding judge, from `Judge.quality`, used to correct differences and intervals. Raises `SettingsError` if a
    name is unknown, or while the results are covered.
    """
    _check_given(limits, quality)
    if not isinstance(source, Results):
        if a is None or b is not None:
            raise SettingsError("compare() needs two sets of runs", "Write compare(runs, others), or compare(results, A, B)")
        arms = recorded_arms(source, a, primary, names)
        comparison = Comparison(*names, arms.primary, arms.rows_a, arms.rows_b, arms.notes, runs=arms.runs, limits=limits)
        return _apply_quality(comparison, quality, getattr(primary, "content", None))
    source.check_comparable()
    chosen = source.primary if primary is None else _check_primary(source, primary)
    others = source.variants[1:] if a is None else (str(a),)
    notes = (*source.notes_of_runs, *comparison_notes(source.plan, chosen, len(source.variants), len(others)))

    def of_variants(a: str, b: str) -> Comparison:
        kept: dict[str, Any] = {"records": source.records, "not_run": source.not_run, "look": source.look}
        arms = source.of(a), source.of(b)
        comparison = Comparison(a, b, chosen, *arms, notes, limits=limits, experiment=source.plan.id, **kept)
        return _apply_quality(comparison, quality, source.plan.frozen.get("checks", {}).get(chosen))

    if a is not None and b is not None:
        if a == b:
            raise SettingsError(f"The variant {b!r} was given twice", f"It has {', '.join(source.variants)}")
        return of_variants(str(a), b)
    if a is not None or len(source.variants) < 2:
        raise SettingsError("compare() needs two variants", f"Name two of them: {', '.join(source.variants)}")
    return _adjust_p_values([of_variants(name, source.variants[0]) for name in others])


def _adjust_p_values(several: list[Comparison]) -> Comparisons:
    """Return the comparisons with p values adjusted by Holm's method. A single comparison is returned unchanged."""
    family = len(several)
    if family == 1:
        return Comparisons(several)
    values = adjust_holm([comparison.p_value for comparison in several])
    return Comparisons(
        [replace(comparison, family=family, p_adjusted=value) for comparison, value in zip(several, values, strict=True)]
    )


def _check_given(limits: Limits, quality: Any) -> None:
    """Raise `SettingsError` if the limits or the quality are invalid."""
    if quality is not None and not isinstance(quality, JudgeQuality):
        raise SettingsError(f"quality must be a JudgeQuality, got {quality!r}", "Write quality=judge.quality(labels)")
    if limits is not None and not limits[0] < limits[1]:
        raise SettingsError(
            f"limits={limits!r}: the first must be below the second", "Give the minimum and maximum, such as (0, 10)"
        )


def _apply_quality(comparison: Comparison, quality: JudgeQuality | None, content: str | None) -> Comparison:
    """Return the comparison, corrected for the quality of its judge, with a note on the correction or on why it was impossible.

    ``content``: hash of the deciding judge, or None if unknown.
    """
    is_judged = any(comparison.primary in row.judged for row in (*comparison.rows_a, *comparison.rows_b))
    if quality is None:
        return replace(comparison, notes=(*comparison.notes, UNCORRECTED)) if is_judged else comparison
    if not is_judged or quality.judge != comparison.primary or content not in (None, quality.content):
        problem = f"The quality belongs to the judge {quality.judge}, but the primary is {comparison.primary}"
        raise SettingsError(problem, "Pass the quality measured for this judge, with the same rubric and model")
    corrected = replace(comparison, quality=quality)
    return replace(corrected, notes=(*comparison.notes, correction_of(quality, *comparison.cells).told))


def comparison_lines(comparison: Comparison) -> list[str]:
    """Return the comparison in sentences: the difference, its uncertainty, warnings and notes."""
    lines = [
        f"{comparison.a} minus {comparison.b}, {comparison.primary}: {_describe(comparison)}",
        *([comparison.robustness] if comparison.robustness else []),
    ]
    return [*lines, *comparison.warnings, *comparison.notes]


def find_sign(difference: AnyDifference, factor: float = 1.0) -> int:
    """Return the sign of a difference that is significant at the level of its interval; 0 if it is not.

    ``factor``: multiplies the p value, for several comparisons.
    """
    if not isinstance(difference, Difference) or difference.p_value * factor >= 1 - difference.confidence:
        return 0
    return 1 if difference.value > 0 else -1


def _keep_completed(cells: Iterable[CellValue]) -> list[CellValue]:
    return [cell for cell in cells if cell.row.is_completed]


def describe_equal(value: str, sizes: Sequence[int]) -> str:
    """Describe a mean that is the same in all clusters. Single tasks and runs may differ from it."""
    return f"{value} in each of {count_units(sizes)}"


def count_units(sizes: Sequence[int]) -> str:
    """Return the number of independent units: tasks, or clusters of tasks with these sizes."""
    return pluralize(len(sizes), "task" if max(sizes, default=1) == 1 else "cluster")


def _describe(comparison: Comparison) -> str:
    analysis = comparison.analysis
    if comparison.missing or not isinstance(analysis, Difference):
        return comparison.missing
    if analysis.interval is None:
        return describe_equal(format_difference(analysis.value), analysis.sizes)
    holm = ", Holm" if comparison.p_adjusted is not None else ""
    p_value = analysis.p_value if comparison.p_adjusted is None else comparison.p_adjusted
    seen = "" if comparison.is_shown or comparison.mde is None else f", minimum detectable effect {comparison.mde:.2g}"
    difference = format_with_limits(analysis.value, analysis.interval)
    return f"{difference}, p = {p_value:.3g}{holm}, {analysis.tasks} tasks{seen}"


def format_difference(value: float) -> str:
    """Format a difference with its sign and three digits. Rounding errors become 0."""
    return "0" if abs(value) < ROUNDING else f"{value:+.3g}"


def format_differences(*values: float) -> list[str]:
    """Format a difference and its limits with the same number of decimals: at most three digits for the largest.

    A value too small for them is shown as it is, because a limit of 0 would say that the interval includes 0.
    """
    largest = max(map(abs, values))
    decimals = max(0, 2 - floor(log10(largest))) if largest >= ROUNDING else 0
    while decimals and all(round(value, decimals) == round(value, decimals - 1) for value in values):
        decimals -= 1
    return [f"{value:+.{decimals}f}" if round(value, decimals) else format_difference(value) for value in values]


def format_with_limits(value: float, interval: Sequence[float] | None) -> str:
    """Format a difference, followed by the limits of its interval in brackets if there are any."""
    difference, *limits = format_differences(value, *(interval or ()))
    return f"{difference} [{', '.join(limits)}]" if limits else difference


def _check_primary(results: Results, primary: Any) -> str:
    names = [*dict.fromkeys(name for row in results.rows for name in row.values), *MEASURES]
    name = primary if isinstance(primary, str) else getattr(primary, "__name__", str(primary))
    if name not in names:
        raise SettingsError(f"The experiment has no check {name!r}", f"It has {', '.join(names)}")
    return str(name)


def log_of(records: Records | None, run_id: str) -> Path | None:
    """Return the path of a run's log, or None if the run is only in memory."""
    store = None if records is None else records.store
    return None if store is None or not run_id else store.path(run_id)
