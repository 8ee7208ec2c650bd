"""The design of an experiment: its cells, expected cost and time, and the smallest effect that it can detect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from agentnb.display.texts.labels import pluralize
from agentnb.experiments.pilot import Pilot
from agentnb.experiments.planning.experiment_checks import Check
from agentnb.experiments.planning.experiment_tasks import ExperimentTask, list_names, places_by_cluster
from agentnb.experiments.planning.looks import Look
from agentnb.experiments.statistics.alpha_spending import compare_widths
from agentnb.experiments.statistics.minimum_effect import plan_minimum_effect_of_numbers, plan_minimum_effect_of_passes
from agentnb.experiments.statistics.task_values import ALPHA, MIN_TASKS

PASS_RATES = tuple(percent / 100 for percent in range(5, 55, 5))
"""Pass rates whose minimum effects are computed if none is known; p and 1 - p give the same effect."""
FEW_PILOT_TASKS = 5
"""With at most this many tasks, one pilot in ten finds only about half of the standard deviation."""
RUN_A_PILOT = "A pilot estimates what is unknown: await EXPERIMENT.pilot(5)"
BY_ROUND, SINGLE = "by_round", "single"
AROUND, NOT_COPIED = "Sandboxes of external agents", "Left out of copied task folders"
DRAWS = "their random draws differ between variants"
_NO_EFFECTS: Sequence[float | None] = ()


@dataclass(frozen=True, slots=True)
class Design:
    """The plan of an experiment, with estimates, each None if there is no basis for it."""

    tasks: int
    variants: tuple[str, ...]
    models: tuple[str, ...]
    """Empty if each variant has its own model."""
    repeats: int
    cells: int
    """Total number of runs."""
    cost: float | None
    """US dollars: 0 for free models, otherwise estimated from the pilot."""
    seconds: float | None
    """Duration, estimated from the pilot and the number of concurrent runs."""
    minimum_effect: float | None
    """Smallest difference in the primary between two variants that would be detected with 80 per cent power."""
    assumption: str
    """Basis of the minimum effect: ``pilot`` or ``pilot_spread`` (passes or numbers vary as in the pilot), ``pass_rate`` (all
    tasks pass equally often), ``any_rate`` (the same, at the worst pass rate), ``by_round`` or ``single``
    (no runs are compared), or ``unknown``.
    """
    unseeded: tuple[str, ...]
    """Models that do not accept a seed, so their draws differ between variants."""
    clusters: int = 0
    """Number of clusters of tasks, the units of the test; a task without a cluster is its own cluster."""
    least_effect: float | None = None
    """Minimum effect at the best pass rate, set if the pass rate is unknown."""
    hopeless_rates: tuple[float, ...] = ()
    """Those of `PASS_RATES` at which no possible difference has 80 per cent power, set if the pass rate is unknown."""
    pilot_tasks: int = 0
    """Number of tasks of the pilot on which the minimum effect is based, or 0."""
    budget: float | None = None
    """US dollars for all runs, or None for no limit."""
    set_aside: float | None = None
    """US dollars reserved for each active run: the most that it can still spend, or None if unknown."""
    looks: tuple[Look, ...] = ()
    """Planned looks. The minimum effect is that of the last look."""
    sandboxes: Mapping[str, str] = field(default_factory=dict)
    """The sandbox of each external agent, by variant."""
    left_out: tuple[str, ...] = ()
    """Files and folders in the tasks' folders that are not copied for the runs."""
    made: int = 0
    """Number of runs already made."""

    def __repr__(self) -> str:
        cost = "unknown" if self.cost is None else f"${self.cost:.4g}"
        seconds = "unknown" if self.seconds is None else f"{self.seconds:.3g} s"
        effect = f"Minimum detectable effect: {describe_effect(self)} ({explain_ground(self)})."
        unseeded = [f"Without a seed: {', '.join(self.unseeded)}; {DRAWS}"] if self.unseeded else []
        budget = [] if self.budget is None else [f"Budget: ${self.budget:.4g}, {describe_reserve(self)}."]
        folder_lines = [f"{AROUND}: {list_sandboxes(self.sandboxes)}."] if self.sandboxes else []
        folder_lines += [f"{NOT_COPIED}: {list_names(self.left_out)}."] if self.left_out else []
        hint = [*filter(None, [suggest_next(self)])]
        looks = [f"Looks: {describe_looks(self)}; {describe_price(self.price)}."] if self.looks else []
        lines = [describe_shape(self), f"Cost: {cost}. Time: {seconds}.", *budget, effect]
        return "\n".join([*lines, *looks, *folder_lines, *hint, *unseeded])

    @property
    def price(self) -> float:
        """Width of the last look's interval, relative to that of an experiment without looks."""
        return compare_widths(self.looks[-1].level, self.clusters) if self.looks else 1.0

    @property
    def ground(self) -> str:
        """Key in `GROUNDS` that explains the minimum effect."""
        if self.minimum_effect is not None or self.assumption in ("unknown", BY_ROUND, SINGLE):
            return self.assumption
        return "few" if self.clusters < MIN_TASKS else "alike" if self.assumption == "pilot_spread" else "never"


GROUNDS = {
    "pilot": "estimated by the pilot",
    "pilot_spread": "estimated by the pilot",
    "pass_rate": "at this pass rate, if pass rate and effect are the same in every task",
    "any_rate": "depends on the pass rate; assumes equal rates and effects in all tasks; a pilot or pass_rate= narrows it",
    "unknown": "the variance of the primary is unknown without a pilot",
    BY_ROUND: "the number of draws of each kind of guidance is unknown before the runs",
    SINGLE: "with one variant there is nothing to compare",
    "few": "too few tasks",
    "alike": "the tasks of the pilot did not differ",
    "never": "even the largest possible difference has less than 80 % power",
}
"""Explanations of a minimum effect, or of its absence."""


def explain_ground(design: Design) -> str:
    """Explain the minimum effect, or its absence, including the assumption about clusters."""
    is_clustered = design.minimum_effect is not None and design.clusters < design.tasks
    return GROUNDS[design.ground] + (", with tasks in a cluster varying like any others" if is_clustered else "")


def describe_shape(design: Design) -> str:
    """Return the numbers of tasks, variants, models and repeats, and the resulting number of runs."""
    clusters = f" in {pluralize(design.clusters, 'cluster')}" if design.clusters < design.tasks else ""
    parts = [pluralize(design.tasks, "task") + clusters, pluralize(len(design.variants), "variant")]
    parts += [f"{len(design.models)} models"] if len(design.models) > 1 else []
    parts += [f"{design.repeats} repeats"] if design.repeats > 1 else []
    progress = "" if not design.made else f", {'all' if design.made == design.cells else f'{design.made:,}'} of them made"
    return f"{' x '.join(parts)} = {pluralize(design.cells, 'run')}{progress}"


def suggest_next(design: Design) -> str:
    """Return the next command: the results once all runs are made, or a pilot if an estimate needs one; or ""."""
    if design.made == design.cells:
        return "All runs are made: EXPERIMENT.results() shows them"
    return RUN_A_PILOT if None in (design.cost, design.seconds) and design.tasks >= MIN_TASKS else ""


def describe_effect(design: Design) -> str:
    """Format the minimum effect with its power: ``unknown`` if there is no estimate, a range if the pass rate is unknown."""
    if design.minimum_effect is None:
        return "unknown"
    least = "" if design.least_effect is None else f"{design.least_effect:.2g} to "
    return f"{least}{design.minimum_effect:.2g} with 80 % power{describe_rates(design) if design.hopeless_rates else ''}"


def describe_rates(design: Design) -> str:
    """Return the pass rates for which the minimum effect holds, and those for which there is none; "" if the rate is known."""
    if design.assumption != "any_rate":
        return ""
    if not design.hopeless_rates:
        return " at any pass rate, if the effect is the same in every task"
    rates = [100 * rate for rate in PASS_RATES if rate not in design.hopeless_rates]
    return f" at pass rates from {rates[0]:g} to {rates[-1]:g} %; at {100 * design.hopeless_rates[-1]:g} % no difference is"


def describe_reserve(design: Design) -> str:
    """Describe how much of the budget is reserved for active runs."""
    if design.set_aside is None:
        return "all of it reserved for the first run of each variant and model until a pilot has run"
    return f"up to ${design.set_aside:.4g} of it reserved for each active run"


def list_sandboxes(sandboxes: Mapping[str, str]) -> str:
    """List the sandbox of each external agent."""
    return ", ".join([f"{name}: {wall}" for name, wall in sandboxes.items()])


def describe_looks(design: Design) -> str:
    """List the planned looks and their levels."""
    levels = [f"{look.tasks:,} (p below {look.level:.2g})" for look in design.looks]
    return f"after {', '.join(levels)} of {pluralize(design.looks[-1].of_tasks, 'task')}"


def describe_price(price: float) -> str:
    """Describe how much wider planned looks make the interval."""
    return f"the interval is {price - 1:.1%} wider than without looks"


def size_problems(tasks: Sequence[ExperimentTask], variants: int, *, is_planned: bool = False) -> list[str]:
    """Return a problem if there are too few tasks for a comparison.

    Too few clusters are always a problem. Too few unclustered tasks are a problem only if a comparison is planned, so that it
    is possible to try out a few tasks.
    """
    clusters, is_clustered = len(_sizes(tasks)), any(task.cluster for task in tasks)
    if variants < 2 or clusters >= MIN_TASKS or not (is_clustered or is_planned):
        return []
    needed = f"a comparison needs {MIN_TASKS}"
    if not is_clustered:
        return [f"{pluralize(clusters, 'task')}: {needed}. Add tasks; results without a comparison need no more"]
    return [
        f"{pluralize(len(tasks), 'task')} in {pluralize(clusters, 'cluster')}: {needed}, because a cluster counts once."
        " Add tasks from other clusters, or leave out the column cluster if the tasks have nothing in common"
    ]


def design_of(
    *,
    tasks: Sequence[ExperimentTask],
    variants: Sequence[str],
    models: tuple[str, ...],
    repeats: int,
    cells: int,
    primary: Check | None,
    places: int,
    is_free: bool,
    unseeded: tuple[str, ...],
    pilot: Pilot | None,
    pass_rate: float | None = None,
    is_by_round: bool = False,
    looks: tuple[Look, ...] = (),
) -> Design:
    """Build the design. Without a pilot, estimates that need one are None.

    ``is_by_round``: whether guidance sets are drawn for each round, in which case no complete runs are compared.
    """
    sizes, runs = _sizes(tasks), repeats * max(1, len(models))
    alpha = (looks[-1].level if looks else ALPHA) / max(1, len(variants) - 1)  # Holm's first step
    assumption, effects = BY_ROUND if is_by_round else SINGLE, _NO_EFFECTS
    if not is_by_round and len(variants) > 1:
        assumption, effects = _minimum_effects(sizes, runs, primary, pilot, pass_rate, alpha)
    known_effects = [effect for effect in effects if effect is not None]
    rates = zip(PASS_RATES, effects, strict=True) if assumption == "any_rate" and known_effects else ()
    seconds = None if pilot is None or pilot.seconds is None else pilot.seconds * cells / places
    return Design(
        tasks=len(tasks),
        variants=tuple(variants),
        models=models,
        repeats=repeats,
        cells=cells,
        cost=expected_cost(cells, pilot, is_free=is_free),
        seconds=seconds,
        minimum_effect=max(known_effects, default=None),
        assumption=assumption,
        unseeded=unseeded,
        clusters=len(sizes),
        least_effect=min(known_effects) if len(known_effects) > 1 else None,
        hopeless_rates=tuple([rate for rate, effect in rates if effect is None]),
        pilot_tasks=pilot.tasks if pilot is not None and assumption.startswith("pilot") else 0,
        looks=looks,
    )


def _minimum_effects(
    sizes: tuple[int, ...], runs: int, primary: Check | None, pilot: Pilot | None, pass_rate: float | None, alpha: float
) -> tuple[str, Sequence[float | None]]:
    """Return the basis of the minimum effect, and its bounds. A bound of None means that no test can show the effect."""
    of_passes = partial(plan_minimum_effect_of_passes, sizes, runs, alpha=alpha)
    if pass_rate is not None:
        return "pass_rate", [of_passes(pass_rate)]
    if pilot is not None and pilot.pass_rate is not None:
        return "pilot", [of_passes(pilot.pass_rate, min(max(pilot.clustering or 0.0, 0.0), 0.99))]
    if pilot is not None and (deviation := pilot.deviation(runs)) is not None:
        return "pilot_spread", [plan_minimum_effect_of_numbers(sizes, deviation, alpha)]
    if primary is not None and primary.is_binary:
        return "any_rate", [of_passes(rate) for rate in PASS_RATES]
    return "unknown", ()


def expected_cost(cells: int, pilot: Pilot | None, *, is_free: bool) -> float | None:
    """Estimate the US dollars for these runs: 0 for free models, otherwise based on the pilot, or None if unknown."""
    return 0.0 if is_free else None if pilot is None or pilot.cost is None else pilot.cost * cells


def _sizes(tasks: Sequence[ExperimentTask]) -> tuple[int, ...]:
    """Return the number of tasks in each cluster."""
    return tuple(map(len, places_by_cluster(tasks)))
