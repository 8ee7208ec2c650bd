"""Estimates from the verdicts of a judge, corrected for its errors. The intervals include the uncertainty of the error rates.

If labelled runs of both variants were drawn at random, each variant is corrected by its own labels: the pass rate is the share
of correct verdicts among the passed verdicts, and of wrong verdicts among the failed ones, weighted by how many runs get each
verdict. This makes no assumption about the judge. Source: Tenenbein (1970), A double sampling scheme for estimating from
binomial data with misclassifications, Journal of the American Statistical Association 65. Otherwise the pass rate is computed
from sensitivity and specificity, assumed to be the same in both variants, and as in the labelled runs. Source: Rogan and Gladen
(1978), Estimating prevalence from the results of a screening test, American Journal of Epidemiology 107.

Both methods are linear in the verdict, so the paired estimate of the verdicts carries over. Its interval is widened by moving
each rate to its own limits and adding the squares. Source: Zou and Donner (2008), Statistics in Medicine 27 (MOVER).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum
from statistics import NormalDist, fmean
from typing import NamedTuple, TypeAlias

from agentnb.detect.intervals import Z95, Share, clustered_share, clustered_variance
from agentnb.display.texts.labels import pluralize
from agentnb.errors import SettingsError
from agentnb.experiments.results.values import CellValue, Unit, task_means
from agentnb.experiments.statistics.extras import load_extra
from agentnb.experiments.statistics.paired import Difference
from agentnb.experiments.statistics.task_values import TooFewTasks

Analyse: TypeAlias = "Callable[[list[Unit]], Difference | TooFewTasks]"


class LabelledRun(NamedTuple):
    """A run with its label and verdict."""

    arm: str
    cluster: Hashable
    """Runs in the same cluster are not independent."""
    is_healthy: bool
    """True if the run's label is healthy."""
    is_passed: bool
    """True if the run's verdict is passed."""


class ErrorRates(NamedTuple):
    """Accuracy of a judge on labelled runs. The 95 per cent intervals, except the one for kappa, treat tasks as independent."""

    runs: int
    sensitivity: Share
    """Share of passed verdicts among healthy runs."""
    specificity: Share
    """Share of failed verdicts among failed runs."""
    healthy_if_passed: Share
    """Share of healthy runs among passed verdicts."""
    healthy_if_failed: Share
    """Share of healthy runs among failed verdicts."""
    kappa: Share
    """Agreement with the labels beyond chance (Cohen's kappa); its interval treats runs as independent."""


def rates_of(judged: Iterable[LabelledRun]) -> ErrorRates:
    """Compute the error rates of a judge on these runs."""
    runs = [*judged]
    return ErrorRates(
        len(runs),
        _share((run.is_passed, run.cluster) for run in runs if run.is_healthy),
        _share((not run.is_passed, run.cluster) for run in runs if not run.is_healthy),
        _share((run.is_healthy, run.cluster) for run in runs if run.is_passed),
        _share((run.is_healthy, run.cluster) for run in runs if not run.is_passed),
        _kappa(runs),
    )


def _share(values: Iterable[tuple[bool, Hashable]]) -> Share:
    """Return the share of true values, with Wilson's interval for the effective number of runs."""
    pairs = [*values]
    if not pairs:
        return Share()
    share = sum(value for value, _ in pairs) / len(pairs)
    return clustered_share(share, *clustered_variance(pairs, share), len(pairs))


def _kappa(runs: Sequence[LabelledRun]) -> Share:
    cells = [[sum((run.is_healthy, run.is_passed) == (row, column) for run in runs) for column in (0, 1)] for row in (0, 1)]
    rows, columns = [*map(sum, cells)], [*map(sum, zip(*cells, strict=True))]
    if len(runs) in (0, *rows, *columns):  # labels or verdicts are all equal: kappa is undefined
        return Share()
    result = load_extra("statsmodels.stats.inter_rater").cohens_kappa(load_extra("numpy").asarray(cells))
    return Share(*map(float, (result.kappa, result.kappa_low, result.kappa_upp)))


@dataclass(frozen=True)
class JudgeQuality:
    """Accuracy of a judge according to people's labels: over all labelled runs, and by variant."""

    judge: str
    content: str
    """Hash of the judge's rubric and model."""
    labels: Mapping[str, bool] = field(repr=False)
    """Labels by run id, True for healthy. Runs about which people disagree are left out."""
    judged: Sequence[LabelledRun] = field(repr=False)
    """Labelled runs that have a verdict."""
    unjudged: int = 0
    """Number of labelled runs without a verdict or a record."""
    disputed: int = 0
    """Number of labelled runs about which people disagree."""

    @property
    def rates(self) -> ErrorRates:
        """Error rates pooled over all labelled runs."""
        return rates_of(self.judged)

    @property
    def by_arm(self) -> dict[str, ErrorRates]:
        """Error rates by variant."""
        arms = dict.fromkeys(run.arm for run in self.judged)
        return {arm: rates_of(run for run in self.judged if run.arm == arm) for arm in arms}

    @property
    def p_values(self) -> dict[str, float | None]:
        """Fisher's exact p values for equal ``sensitivity`` and ``specificity`` in two variants; None unless there are two."""
        return {name: self._p_value(is_healthy) for name, is_healthy in (("sensitivity", True), ("specificity", False))}

    def _p_value(self, is_healthy: bool) -> float | None:
        arms = [*dict.fromkeys(run.arm for run in self.judged)]
        if len(arms) != 2:
            return None
        of_kind = [run for run in self.judged if run.is_healthy == is_healthy]
        table = [
            [sum((run.arm, run.is_passed) == (arm, passed) for run in of_kind) for passed in (True, False)] for arm in arms
        ]
        return float(load_extra("scipy.stats").fisher_exact(table).pvalue)

    def __repr__(self) -> str:
        lines = [f"Quality of {self.judge} on {pluralize(len(self.judged), 'labelled run')}: {_describe_rates(self.rates)}"]
        for name, p_value in self.p_values.items():
            if p_value is not None and p_value < 0.05:
                shares = ", ".join(f"{arm} {_describe_share(getattr(rates, name))}" for arm, rates in self.by_arm.items())
                lines.append(f"The {name} differs between variants (p = {p_value:.3g}): {shares}")
        without = [(self.unjudged, "without a verdict"), (self.disputed, "on which people disagree")]
        lines += [f"Left out: {pluralize(count, 'labelled run')} {why}" for count, why in without if count]
        return "\n".join(lines)


def _describe_rates(rates: ErrorRates) -> str:
    names = ("sensitivity", "specificity", "kappa")
    return ", ".join(f"{name} {_describe_share(getattr(rates, name))}" for name in names)


def _describe_share(share: Share) -> str:
    if share.value is None or share.low is None or share.high is None:
        return "unknown"
    return f"{share.value:.2f} [{share.low:.2f}, {share.high:.2f}]"


class Line(NamedTuple):
    """Pass rate of a variant as a linear function of the share of runs that a judge passes; its parameters are two rates."""

    rates: tuple[float, float]
    limits: tuple[tuple[float, float], tuple[float, float]]
    """Limits of each rate."""
    is_by_arm: bool
    """True if the rates are `healthy_if_passed` and `healthy_if_failed` of the variant's own runs, False for sensitivity and
    specificity.
    """

    def at(self, passed: float, moved: int | None = None, limit: int = 0) -> float:
        """Return the pass rate for a share of passed verdicts, with the rate at index ``moved`` set to a limit."""
        first, second = [self.limits[index][limit] if index == moved else rate for index, rate in enumerate(self.rates)]
        if self.is_by_arm:
            return second + passed * (first - second)
        return (passed + second - 1) / (first + second - 1)


class Correction(NamedTuple):
    """The lines of two variants, and a description of their source."""

    a: Line
    b: Line
    told: str

    @property
    def is_by_arm(self) -> bool:
        """True if each variant has its own rates, so that the errors of the rates are independent."""
        return self.a.is_by_arm

    def difference(self, analyse: Analyse, units: list[Unit]) -> Difference | TooFewTasks:
        """Return the corrected difference of paired units. ``analyse`` estimates the uncorrected difference."""
        judged = analyse(units)
        corrected = analyse([unit._replace(a=[*map(self.a.at, unit.a)], b=[*map(self.b.at, unit.b)]) for unit in units])
        if isinstance(corrected, TooFewTasks) or isinstance(judged, TooFewTasks):
            return corrected
        passed = [fmean(arm) for arm in task_means(units)]
        widths = _widths(judged, corrected, fmean([abs(line.at(1) - line.at(0)) for line in (self.a, self.b)]))
        deviations = NormalDist().inv_cdf((1 + judged.confidence) / 2)
        scale = deviations / Z95  # rates have 95 per cent limits; a planned look may need wider ones
        below, above = ([width**2] for width in widths)
        for moved in self._shift_rates(passed):
            below.append((scale * max(0.0, corrected.value - min(moved))) ** 2)
            above.append((scale * max(0.0, max(moved) - corrected.value)) ** 2)
        value = min(max(corrected.value, -1.0), 1.0)  # the correction may exceed the range of a difference
        interval = (max(value - fsum(below) ** 0.5, -1.0), min(value + fsum(above) ** 0.5, 1.0))
        p_value = _p_value(value, interval, deviations)
        return judged._replace(value=value, interval=interval, p_value=p_value, max_exception_share=None)

    def _shift_rates(self, passed: Sequence[float]) -> Iterable[tuple[float, float]]:
        """Yield the difference with each rate at its lower and upper limit; if both arms share a rate, both are moved
        at once.
        """
        for index in (0, 1):
            arms = ((0,), (1,)) if self.is_by_arm else ((0, 1),)
            for moving in arms:
                yield tuple(self._at(passed, index, moving, limit) for limit in (0, 1))  # type: ignore[misc]

    def _at(self, passed: Sequence[float], moved: int, moving: Sequence[int], limit: int) -> float:
        a, b = (line.at(passed[arm], moved if arm in moving else None, limit) for arm, line in enumerate((self.a, self.b)))
        return a - b


def _widths(judged: Difference, corrected: Difference, slope: float) -> tuple[float, float]:
    """Return the distances from the difference to both ends of the interval, with the rates fixed.

    They are at least as large as those of the verdicts' interval, which accounts for rare passes or failures. If all tasks show
    the same difference, the interval is as wide as the share of exceptions that cannot be excluded.
    """
    if judged.interval is None:
        return ((judged.max_exception_share or 1.0) * slope,) * 2
    (low, high), (judged_low, judged_high) = corrected.interval or (corrected.value,) * 2, judged.interval
    below, above = slope * (judged.value - judged_low), slope * (judged_high - judged.value)
    return max(corrected.value - low, below), max(high - corrected.value, above)


def _p_value(value: float, interval: tuple[float, float], deviations: float) -> float:
    """Return the p value implied by an interval of ``deviations`` standard errors: below the interval's level if and only if 0
    is outside.

    Source: Altman and Bland (2011), BMJ 343.
    """
    width = value - interval[0] if value > 0 else interval[1] - value
    return 1.0 if not value or not width else 2 * NormalDist().cdf(-deviations * abs(value) / width)


def correction_of(quality: JudgeQuality, a: Sequence[CellValue], b: Sequence[CellValue]) -> Correction:
    """Return the correction for two variants: each by its own labelled runs, or both by the rates pooled over all labelled
    runs.

    Raises `SettingsError` if the pooled rates are no better than chance.
    """
    own = [_find_labelled(quality, cells) for cells in (a, b)]
    if all(own):
        rates, pooled = [*map(rates_of, own)], rates_of([run for arm in own for run in arm])
        line_a, line_b = (_line_by_arm(of_arm, pooled) for of_arm in rates)
        text = " and ".join(str(of_arm.runs) for of_arm in rates)
        text = f"corrected with {text} labelled runs of the variants, assuming a random sample"
        return Correction(line_a, line_b, text + _describe_disputed(quality))
    rates_of_all = quality.rates
    shares = (rates_of_all.sensitivity, rates_of_all.specificity)
    bounds = [(share.low, share.value, share.high) for share in shares]
    limits = [(low, value, high) for low, value, high in bounds if low is not None and value is not None and high is not None]
    if len(limits) < 2 or min(limits[0][0] + limits[1][1], limits[0][1] + limits[1][0]) <= 1:
        raise SettingsError(
            f"The labels do not show that {quality.judge} is better than chance: {_describe_rates(rates_of_all)}",
            "Label more healthy and failed runs, or improve the rubric",
        )
    (first_low, first, first_high), (second_low, second, second_high) = limits
    line = Line((first, second), ((first_low, first_high), (second_low, second_high)), is_by_arm=False)
    text = "corrected with the sensitivity and specificity on all labelled runs"
    text += ", assumed to be the same in both variants, and as in the labelled runs"
    return Correction(line, line, text + _describe_disputed(quality))


def _describe_disputed(quality: JudgeQuality) -> str:
    if not quality.disputed:
        return ""
    runs = "1 disputed run is" if quality.disputed == 1 else f"{quality.disputed:,} disputed runs are"
    return f"; {runs} left out, so the sample is not random and the judge looks better than it is: settle them first"


def _find_labelled(quality: JudgeQuality, cells: Sequence[CellValue]) -> list[LabelledRun]:
    runs = []
    for cell in cells:
        label = quality.labels.get(cell.row.run_id)
        if label is not None and cell.value is not None:
            runs.append(LabelledRun(cell.arm, cell.row.cluster_key, label, bool(cell.value)))
    return runs


def _line_by_arm(rates: ErrorRates, pooled: ErrorRates) -> Line:
    """Return the line of a variant. A rate for which no labelled run has the verdict is unconstrained."""
    shares = (rates.healthy_if_passed, rates.healthy_if_failed)
    others = (pooled.healthy_if_passed.value, pooled.healthy_if_failed.value)
    bounds = []
    for share, pooled_share, verdict in zip(shares, others, (1.0, 0.0), strict=True):
        if share.value is None or share.low is None or share.high is None:
            bounds.append((verdict if pooled_share is None else pooled_share, (0.0, 1.0)))
        else:
            bounds.append((share.value, (share.low, share.high)))
    (first, first_limits), (second, second_limits) = bounds
    return Line((first, second), (first_limits, second_limits), is_by_arm=True)
