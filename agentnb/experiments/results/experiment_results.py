"""The results of an experiment: one row per cell, and the notes that a reader needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentnb.detect.intervals import Share, mean_by_task
from agentnb.detect.run import Run
from agentnb.display.texts.labels import pluralize
from agentnb.errors import SettingsError, suggest_names
from agentnb.experiments.planning.columns import COLUMNS
from agentnb.experiments.planning.experiment_checks import answered
from agentnb.experiments.planning.experiment_tasks import ClusterKey
from agentnb.experiments.planning.looks import Look
from agentnb.experiments.results.experiment_folder import LOOK, PLANNED, Note, Plan, Records
from agentnb.experiments.results.judged_rows import UNCORRECTED
from agentnb.experiments.results.record_notes import notes_of_rows
from agentnb.experiments.results.rows import LOST, Row

if TYPE_CHECKING:
    import pandas as pd

OPEN = ("task", "cluster", "variant", "model", "repeat", "seed", "run_id")
"""Columns that do not reveal how the runs went."""


@dataclass(frozen=True)
class Results:
    """The results of an experiment, either complete or so far."""

    rows: Sequence[Row] = field(repr=False)
    plan: Plan
    primary: str
    variants: tuple[str, ...]
    missing: int = 0
    """Number of cells without a row."""
    is_covered: bool = False
    """True if variants are hidden because the experiment is not complete and no peek was requested."""
    unseeded: tuple[str, ...] = ()
    """Models that do not take a seed."""
    records: Records | None = field(default=None, repr=False)
    not_run: Sequence[Row] = field(default=(), repr=False)
    """Placeholder rows for cells that have no row."""
    look: Look | None = None
    """The planned look that these results are from, or None between looks or if no looks are planned."""
    writer: Callable[[Results, str | Path, Any], Path] | None = field(default=None, repr=False, compare=False)
    """Writes the report."""
    _made: Sequence[Row] = field(init=False, repr=False, compare=False)
    """The rows before any of them are covered."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_made", self.rows)
        if self.is_covered:
            object.__setattr__(self, "rows", [row.covered for row in self.rows])

    def table(self) -> pd.DataFrame:
        """Return one row per run, ordered by when they ended. Until all runs are done, rows only identify them."""
        return self._table(self.rows)

    @property
    def attempts(self) -> pd.DataFrame:
        """One row per attempt at a run: the rows in `table`, those replaced by a retry, and ``lost`` ones, whose worker
        died.
        """
        rows = self.rows if self.records is None else self.records.attempts()
        own = {row.key for row in self._made}
        return self._table([row.covered if self.is_covered else row for row in rows if row.key in own or row.status == LOST])

    def _table(self, rows: Sequence[Row]) -> pd.DataFrame:
        import pandas as pd

        checks = [*dict.fromkeys(name for row in rows for name in row.values)]
        values: dict[str, Any] = {
            "cluster": [row.cluster or row.task for row in rows],
            "repeat": [row.repeat + 1 for row in rows],
            "run_id": [row.run_id or None for row in rows],
        }
        frame: dict[str, pd.Series[Any]] = {}
        for name, (kind, _) in COLUMNS.items():
            if self.is_covered and name not in OPEN:
                continue
            column = values.get(name) or [getattr(row, name) for row in rows]
            if name == "at":
                column = pd.to_datetime(pd.Series(column, dtype="object"), utc=True)
            frame[name] = pd.Series(column, dtype=kind)
            if name == "reason":
                for check in checks:
                    frame[check] = pd.Series([row.value(check) for row in rows], dtype="float64")
        return pd.DataFrame(frame)

    def of(self, variant: str) -> list[Row]:
        """Return the rows of a variant. Raises `SettingsError` if the variant is unknown."""
        if variant not in self.variants:
            raise SettingsError(f"There is no variant {variant!r}", suggest_names(variant, self.variants))
        return [row for row in self.rows if row.variant == variant]

    def means(self) -> dict[str, Share]:
        """Return the mean of the primary by variant, with an interval by task that is not valid for differences.

        Raises `SettingsError` while the results are covered.
        """
        self.check_open()
        return {name: mean_by_task(*self._runs_by_task(name)) for name in self.variants}

    def _runs_by_task(self, variant: str) -> tuple[list[list[float]], list[ClusterKey]]:
        """Return the known values of each task, and its cluster key."""
        by_task: dict[str, tuple[list[float], ClusterKey]] = {}
        for row in self.of(variant):
            if (value := row.value(self.primary)) is not None:
                by_task.setdefault(row.task, ([], row.cluster_key))[0].append(value)
        return [values for values, _ in by_task.values()], [cluster for _, cluster in by_task.values()]

    def check_open(self) -> None:
        """Raise `SettingsError` while variants are covered."""
        if self.is_covered:
            raise SettingsError(
                f"The experiment is not done ({pluralize(self.missing, 'run')} missing): variants stay hidden",
                "Run it to completion, or look anyway: EXPERIMENT.results(peek=True). Every result will report the look",
            )

    @property
    def is_by_round(self) -> bool:
        """True if a guidance set was drawn for each round."""
        return "assign" in self.plan.frozen

    @property
    def sandboxes(self) -> Mapping[str, str]:
        """Sandbox of each external agent, by variant."""
        return self.plan.frozen.get("sandboxes", {})  # type: ignore[no-any-return]  # it was written so

    def check_comparable(self) -> None:
        """Raise `SettingsError` while the results are covered, or if every run mixes variants."""
        self.check_open()
        if self.is_by_round:
            raise SettingsError(
                "The guidance sets were drawn for each round: no run used only one of them",
                "For the effect of each set on the near outcome: lift(RESULTS)",
            )

    def run(self, run_id: str) -> Run:
        """Return a run from its log. Raises `StoreError` if it was not stored."""
        assert self.records is not None, "results of an experiment have records"
        return self.records.run(run_id)

    def report(self, path: str | Path, *, primary: Any = None) -> Path:
        """Write a report to share, as a page (``.html``) or Markdown (``.md``), with its data next to it; return its path.

        The report contains methods, the flow of runs, estimates, deviations, sensitivity, limits, figures, and the code that
        reproduces the experiment. The data are in a folder next to it: ``paper_data`` for ``paper.html``. ``primary``: a check
        or measure other than the frozen one, which the report names as a deviation. Raises `SettingsError` for any other
        suffix, or while the results are covered, and `StoreError` if a file cannot be written.
        """
        self.check_open()
        if self.writer is None:
            raise SettingsError("These results do not belong to an experiment that can be reported", "Use EXPERIMENT.results()")
        return self.writer(self, path, primary)

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes that all results report: deviations, looks before the end, and problems of the runs."""
        return (*self.notes_of_runs, *([UNCORRECTED] if any(self.primary in row.judged for row in self.rows) else []))

    @property
    def notes_of_runs(self) -> tuple[str, ...]:
        """`notes` without the note on estimates, since a comparison has its own."""
        raised = sum(bool(row.check_errors) for row in self._made)
        first = next((f" ({name}: {error})" for row in self.rows for name, error in row.check_errors.items()), "")
        redone = {kind: sum(row.redone == kind for row in self._made) for kind in ("recovered", "again")}
        return (
            *[note.text for note in self.deviations],
            *([self._about_look] if self.look else []),
            *([f"{pluralize(self.missing, 'run')} missing"] if self.missing else []),
            *([f"a check raised an error, so values are unknown in {pluralize(raised, 'run')}{first}"] if raised else []),
            *notes_of_rows(self._made, () if self.is_covered else self.variants),
            *[f"{pluralize(count, 'run')} {_DONE[kind]} after being cut off" for kind, count in redone.items() if count],
            *([f"models without a seed: {', '.join(self.unseeded)}"] if self.unseeded else []),
            *([self._about_answers] if self.primary == answered.__name__ else []),
        )

    @property
    def deviations(self) -> tuple[Note, ...]:
        """Deviations from the plan: extensions, retries, unplanned looks, and an exhausted budget."""
        return tuple([note for note in self.plan.notes if note.kind not in (PLANNED, LOOK)])

    @property
    def _about_look(self) -> str:
        """A note on the planned look that these results are from."""
        assert self.look is not None, "asked only at one"
        remaining = self.look.of_tasks - self.look.tasks
        suffix = (
            "" if self.look.is_last else f"; {pluralize(remaining, 'task')} not run, and not needed if a difference is shown"
        )
        return f"{self.look} as planned: only p below {self.look.level:.2g} would show a difference{suffix}"

    @property
    def _about_answers(self) -> str:
        """A note on the meaning of the default primary, and on runs that lacked the necessary tools."""
        without = sum(not row.has_tools for row in self.rows)
        lacked = [*dict.fromkeys(name for row in self.rows for name in row.lacked)]
        texts = [f"{pluralize(without, 'run')} had no tools"] if without else []
        texts += [f"the model called tools that the agent does not have: {', '.join(lacked)}"] if lacked else []
        return "; ".join(["answered means that the run ended with text; its content is not judged", *texts])

    @property
    def failures(self) -> dict[str, int]:
        """Number of incomplete runs, by reason."""
        counts: dict[str, int] = {}
        for row in self._made:
            if not row.is_completed:  # an error may reveal the variant
                reason = row.stop_reason or row.status if self.is_covered else row.reason
                counts[reason] = counts.get(reason, 0) + 1
        return dict(sorted(counts.items(), key=lambda item: -item[1]))

    def __repr__(self) -> str:
        failed = sum(self.failures.values())
        lines = [f"Results of {self.plan.id}: {len(self.rows):,} runs, {len(self.variants)} variants, primary {self.primary}"]
        if failed:
            reasons = ", ".join(f"{reason} {count}" for reason, count in [*self.failures.items()][:3])
            lines.append(f"{failed} runs did not complete: {reasons}")
        lines += [*self.notes]
        if self.is_covered:
            lines.append("Differences between variants are hidden until the end")
        elif len(self.variants) > 1:
            lines.append("Compare two variants: compare(RESULTS, A, B)")
        return "\n".join(lines)


_DONE = {"recovered": "recovered", "again": "repeated"}
