"""Protocols for the results, comparisons and rows in figures about experiments, since plots do not import experiments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol, TypeAlias

from agentnb.core.log.run_tags import TaskRow
from agentnb.detect.run import Run
from agentnb.interchange.files import RunSource


class ArmRow(TaskRow, Protocol):
    """A finished run of a variant."""

    @property
    def cluster_key(self) -> tuple[bool, str]:
        """The group of tasks that its task belongs to, or else the task."""

    @property
    def is_completed(self) -> bool:
        """True if it was not cut short."""

    @property
    def run_id(self) -> str:
        """Id of its run; empty if the run never began."""

    @property
    def rounds(self) -> int:
        """Number of rounds."""

    @property
    def loop_round(self) -> int | None:
        """The first round with a loop, from 1, or None if there was none."""

    @property
    def cost(self) -> float | None:
        """Cost in US dollars, or None if unknown."""

    @property
    def tokens(self) -> int | None:
        """Tokens sent and received, or None if unknown."""


class ComparisonLike(Protocol):
    """A comparison of two variants, as `agentnb.compare` returns it."""

    @property
    def a(self) -> str:
        """The first variant."""

    @property
    def b(self) -> str:
        """The variant that is subtracted."""

    @property
    def is_shown(self) -> bool:
        """True if a difference is shown: its p value, adjusted if there are several comparisons, is below the level."""

    @property
    def primary(self) -> str:
        """The check or measure that is compared."""

    @property
    def rows_a(self) -> Sequence[ArmRow]:
        """Rows of the first variant."""

    @property
    def rows_b(self) -> Sequence[ArmRow]:
        """Rows of the second variant."""

    @property
    def difference(self) -> float | None:
        """The mean of a minus the mean of b, or None if unavailable."""

    @property
    def interval(self) -> tuple[float, float] | None:
        """Limits of the 95 per cent interval, if known."""

    @property
    def p_value(self) -> float | None:
        """Two-sided p-value for the hypothesis of no difference."""

    @property
    def p_adjusted(self) -> float | None:
        """The p-value adjusted by Holm's method, if this is one of several comparisons."""

    @property
    def mde(self) -> float | None:
        """Minimum detectable effect."""

    @property
    def tasks(self) -> int:
        """Number of paired tasks."""

    @property
    def missing(self) -> str:
        """The reason for a missing number; empty otherwise."""

    @property
    def pass_k(self) -> Mapping[str, Sequence[Any]]:
        """The chance that k runs of a task all pass, averaged over tasks, by variant."""

    @property
    def survival(self) -> Any:
        """Number of rounds until the first loop, in both variants."""

    def run(self, run_id: str, /) -> Run:
        """Return one of the comparison's runs."""


class ResultsLike(Protocol):
    """The results of an experiment."""

    @property
    def rows(self) -> Sequence[ArmRow]:
        """Rows, one per run."""

    @property
    def variants(self) -> Sequence[str]:
        """Names of the variants."""

    @property
    def primary(self) -> str:
        """The check by which variants are judged."""

    def of(self, variant: str, /) -> Sequence[ArmRow]:
        """Return the rows of a variant."""

    def means(self) -> Mapping[str, Any]:
        """Return the mean of the primary for each variant, with its interval."""

    def check_open(self) -> None:
        """Raise `SettingsError` while the differences between variants are covered."""

    def run(self, run_id: str, /) -> Run:
        """Return a run, loaded from its log."""


Comparisons: TypeAlias = "ComparisonLike | Sequence[ComparisonLike]"
ArmSource: TypeAlias = "RunSource | ResultsLike | Comparisons"
