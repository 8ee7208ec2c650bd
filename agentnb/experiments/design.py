"""The design of an experiment: cells, cost and time to expect, and the smallest effect that it can detect."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from agentnb.experiments.pilot import Pilot
from agentnb.experiments.planning.checks import Check
from agentnb.experiments.statistics.power import assume_binary_components, compute_minimum_effect, compute_task_deviation

WIDEST = assume_binary_components(clustering=1.0, correlation=0.0)
"""Components of an outcome that passes or fails when nothing is known: repeats that tell nothing new, arms without a link."""


@dataclass(frozen=True, slots=True)
class Design:
    """What an experiment will do. Estimates without a ground are None: unknown."""

    tasks: int
    variants: tuple[str, ...]
    models: tuple[str, ...]
    """Empty if each variant has its own."""
    repeats: int
    cells: int
    """Runs in all."""
    cost: float | None
    """US dollars: 0 for models that cost nothing, else by the pilot."""
    seconds: float | None
    """By the pilot and the runs at a time."""
    minimum_effect: float | None
    """Smallest difference in the primary between two variants that is detected with a power of 80 per cent."""
    assumption: str
    """What the minimum effect rests on: ``pilot``, ``binary`` (the widest spread that passing can have), or ``unknown``."""
    unseeded: tuple[str, ...]
    """Models that take no seed: their draws differ between variants."""

    def __repr__(self) -> str:
        models = f" x {len(self.models)} models" if len(self.models) > 1 else ""
        repeats = f" x {self.repeats} repeats" if self.repeats > 1 else ""
        cost = "unknown" if self.cost is None else f"${self.cost:.4g}"
        seconds = "unknown" if self.seconds is None else f"{self.seconds:.3g} s"
        shape = f"{self.tasks} tasks x {len(self.variants)} variants{models}{repeats} = {self.cells:,} runs"
        lines = [shape, f"Cost: {cost}. Time: {seconds}.", self._effect()]
        if None in (self.cost, self.seconds):
            lines.append("A pilot estimates what is unknown: await exp.pilot(5)")
        if self.unseeded:
            lines.append(f"Without a seed: {', '.join(self.unseeded)}; their draws differ between variants")
        return "\n".join(lines)

    def _effect(self) -> str:
        if self.minimum_effect is None:
            why = {
                "unknown": "the spread of the primary is unknown before a pilot",
                "pilot": "the tasks of the pilot did not differ",
            }.get(self.assumption, "too few tasks")
            return f"Minimum detectable effect: unknown ({why})."
        basis = "by the pilot" if self.assumption == "pilot" else "at the widest spread; a pilot narrows it"
        return f"Minimum detectable effect: {self.minimum_effect:.3g} with a power of 80 % ({basis})."


def design_of(
    *,
    tasks: int,
    variants: Sequence[str],
    models: tuple[str, ...],
    repeats: int,
    cells: int,
    primary: Check | None,
    places: int,
    is_free: bool,
    unseeded: tuple[str, ...],
    pilot: Pilot | None,
) -> Design:
    """Return the design; what only a pilot can tell is None without one."""
    runs_of_task = repeats * max(1, len(models))
    deviation = None if pilot is None else pilot.deviation(runs_of_task)
    assumption = "pilot" if deviation is not None else "unknown"
    if deviation is None and primary is not None and primary.is_binary:
        deviation, assumption = compute_task_deviation(WIDEST, runs_of_task), "binary"
    cost = 0.0 if is_free else None if pilot is None or pilot.cost is None else pilot.cost * cells
    seconds = None if pilot is None or pilot.seconds is None else pilot.seconds * cells / places
    return Design(
        tasks=tasks,
        variants=tuple(variants),
        models=models,
        repeats=repeats,
        cells=cells,
        cost=cost,
        seconds=seconds,
        minimum_effect=compute_minimum_effect(tasks, deviation) if deviation else None,
        assumption=assumption,
        unseeded=unseeded,
    )
