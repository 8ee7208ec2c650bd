"""Protocols for results, comparisons and rows in figures of experiments, as plots do not import experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from agentnb.detect.run import Run
from agentnb.interchange.files import RunSource


class ArmRow(Protocol):
    """A finished run of a variant."""

    @property
    def task(self) -> str:
        """Id of its task."""

    @property
    def cluster_key(self) -> tuple[bool, str]:
        """Its task's group of tasks, else the task."""

    @property
    def is_completed(self) -> bool:
        """True if it was not cut short."""

    @property
    def run_id(self) -> str:
        """Its run; empty if it never began."""

    @property
    def rounds(self) -> int:
        """Rounds."""

    @property
    def loop_round(self) -> int | None:
        """First round with a loop, from 1, or None without one."""

    @property
    def cost(self) -> float | None:
        """US dollars, or None if unknown."""

    @property
    def tokens(self) -> int | None:
        """Tokens sent and received, or None if unknown."""

    def value(self, name: str, /) -> float | None:
        """Return the value of a check or measure, or None if unknown."""


class ComparisonLike(Protocol):
    """A comparison of two variants, as `agentnb.compare` returns it."""

    @property
    def a(self) -> str:
        """The first variant."""

    @property
    def b(self) -> str:
        """The variant that is subtracted."""

    @property
    def primary(self) -> str:
        """The compared check or measure."""

    @property
    def rows_a(self) -> Sequence[ArmRow]:
        """Rows of the first variant."""

    @property
    def rows_b(self) -> Sequence[ArmRow]:
        """Rows of the second variant."""

    @property
    def difference(self) -> float | None:
        """Mean of a minus mean of b, or None without a number."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Limits of 95 per cent, if known."""

    @property
    def p_value(self) -> float | None:
        """Two-sided p value of no difference."""

    @property
    def p_adjusted(self) -> float | None:
        """The p value adjusted by Holm, if one of several comparisons."""

    @property
    def mde(self) -> float | None:
        """Minimum detectable effect."""

    @property
    def tasks(self) -> int:
        """Paired tasks."""

    @property
    def missing(self) -> str:
        """The reason for a missing number; empty otherwise."""

    @property
    def pass_k(self) -> Mapping[str, Sequence[Any]]:
        """Shares of tasks of which k runs all pass, by variant."""

    @property
    def survival(self) -> Any:
        """Rounds until the first loop in both variants."""

    def run(self, run_id: str, /) -> Run:
        """Return a run of the comparison."""


class ResultsLike(Protocol):
    """Results of an experiment."""

    @property
    def rows(self) -> Sequence[ArmRow]:
        """A row per run."""

    @property
    def variants(self) -> Sequence[str]:
        """Names of the variants."""

    @property
    def primary(self) -> str:
        """The check that decides."""

    def of(self, variant: str, /) -> Sequence[ArmRow]:
        """Return the rows of a variant."""

    def means(self) -> Mapping[str, Any]:
        """Return the mean of the primary by variant, with its interval."""

    def check_open(self) -> None:
        """Raise `SettingsError` while the differences between variants are covered."""

    def run(self, run_id: str, /) -> Run:
        """Return a run from its log."""


Comparisons: TypeAlias = "ComparisonLike | Sequence[ComparisonLike]"
ArmSource: TypeAlias = "RunSource | ResultsLike | Comparisons"
