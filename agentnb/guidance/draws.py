"""Draws: random choices of a guidance set, for a run or for each of its rounds, with their probabilities."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import fsum, isfinite
from random import Random
from typing import Any, Literal, NamedTuple, TypeAlias

from msgspec import structs

from agentnb.core.log.events import AnyEvent, RunRecovered
from agentnb.core.log.work_events import GuidanceDrawn
from agentnb.core.run.facts import RunFacts
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.guidance.sets import GuidanceSet, find_set

Assign: TypeAlias = Literal["run", "round"]
"""When to draw: once per run, or for each of its rounds."""
ASSIGN: tuple[Assign, ...] = ("run", "round")
SUM_TOLERANCE = 1e-9
"""Tolerance for rounding errors when the sum of propensities is compared with 1."""
ASSIGN_KEY = "assign"
"""Key, in the logged guidance settings, for the frequency of draws."""


class DrawnSet(NamedTuple):
    """A drawn guidance set, in force until the next draw."""

    set: GuidanceSet
    propensity: float
    """Its probability, greater than 0 and at most 1."""
    among: Mapping[str, float] = {}
    """Probabilities of all candidate sets, by name."""

    @property
    def as_logged(self) -> dict[str, Any]:
        """The fields of the event that records it."""
        texts = self.set.as_texts
        return {
            "set": texts.set,
            "version": texts.version,
            "texts": texts.texts,
            "propensity": self.propensity,
            "among": dict(self.among),
        }


Draw: TypeAlias = Callable[[Run], "DrawnSet | None"]
"""Called before the first round and after each round, before the policies decide. Returns None to keep the current set."""


@dataclass(frozen=True, slots=True)
class RandomGuidance:
    """A random choice between guidance sets, in place of an agent's set.

    ``sets``: the propensity (probability) for each set, or name of a set; they must add up to 1. ``assign``: ``run``
    draws once per run; ``round`` draws for each round, so that `lift` can measure an effect. ``seed``: an integer;
    runs with the same seed draw identically. By default, the seed is a run's own id or, for a run of an experiment,
    the seed of its cell. Raises `SettingsError` for propensities that do not add up to 1.

    Agent(model, guidance=RandomGuidance({"matrix": 0.5, "off": 0.5}, assign="round"))
    """

    sets: Mapping[Any, float]
    assign: Assign = "run"
    seed: int | None = None
    made: Mapping[int, DrawnSet] = field(default_factory=dict, repr=False, compare=False)
    """Draws of a recorded run by round index; they are reused instead of drawing again."""

    def __post_init__(self) -> None:
        if self.assign not in ASSIGN:
            raise SettingsError(f"assign={self.assign!r} must be {' or '.join(ASSIGN)}")
        if self.seed is not None and type(self.seed) is not int:
            raise SettingsError(f"seed={self.seed!r} is not a whole number", "Without a seed, each run draws by its own id")
        if not isinstance(self.sets, Mapping) or len(self.sets) < 2:
            hint = 'State the propensity of each set: RandomGuidance({"matrix": 0.5, "off": 0.5})'
            raise SettingsError(f"sets={self.sets!r} must be two or more guidance sets with their propensities", hint)
        weights = {find_set(guidance_set): propensity for guidance_set, propensity in self.sets.items()}
        names = [guidance_set.name for guidance_set in weights]
        if len({*names}) < len(self.sets):
            raise SettingsError(
                f"Two of the guidance sets have the same name: {', '.join(names)}", "Give each set a unique name"
            )
        _check_propensities({guidance_set.name: propensity for guidance_set, propensity in weights.items()})
        object.__setattr__(self, "sets", weights)

    @property
    def first(self) -> GuidanceSet:
        """The first of the sets: the baseline for the others."""
        first: GuidanceSet = next(iter(self.sets))
        return first

    @property
    def among(self) -> dict[str, float]:
        """The propensity of each set, by name."""
        return {guidance_set.name: propensity for guidance_set, propensity in self.sets.items()}

    def __call__(self, run: Run) -> DrawnSet | None:
        """Draw the next round's set, or return None if the run's set has already been drawn."""
        if self.assign == "run" and run.drawn is not None:
            return None
        index = next_round(run)
        if index in self.made:
            return self.made[index]
        random = Random(f"{run.id if self.seed is None else self.seed}:{index}")
        (chosen,) = random.choices([*self.sets], [*self.sets.values()])
        return DrawnSet(chosen, self.sets[chosen], self.among)

    def with_seed(self, seed: int) -> RandomGuidance:
        """Return a copy with this seed, or the object itself if it already has a seed."""
        return self if self.seed is not None else replace(self, seed=seed)

    def with_draws_of(self, run: RunFacts) -> RandomGuidance:
        """Return a copy that reuses this run's draws, and draws only for other rounds."""
        return replace(self, made={event.round: _logged_draw(event) for event in draws_of(run) if event.round is not None})

    @property
    def as_logged(self) -> dict[str, Any]:
        """The settings of the draws as plain data, with the texts of all sets."""
        sets = [
            {"set": guidance_set.name, "propensity": propensity, "texts": guidance_set.as_texts.texts}
            for guidance_set, propensity in self.sets.items()
        ]
        return {ASSIGN_KEY: self.assign, **({} if self.seed is None else {"seed": self.seed}), "sets": sets}

    @classmethod
    def from_log(cls, settings: Mapping[str, Any]) -> RandomGuidance | None:
        """Return the draws recorded in the settings of a log, or None if agentnb did not draw its guidance."""
        logged = settings.get("guidance")
        if not isinstance(logged, Mapping) or ASSIGN_KEY not in logged:
            return None
        sets = {GuidanceSet.as_logged(entry["set"], entry["texts"]): entry["propensity"] for entry in logged["sets"]}
        return cls(sets, logged[ASSIGN_KEY], logged.get("seed"))


def next_round(run: RunFacts) -> int:
    """Return the index of the round after the last finished one."""
    last = run.last_finished_round
    return 0 if last is None else last.index + 1


def draws_of(run: RunFacts) -> list[GuidanceDrawn]:
    """Return the draws of a run, in order."""
    return [event for event in run.events if isinstance(event, GuidanceDrawn)]


def without_draws(event: AnyEvent) -> AnyEvent | None:
    """Return the event as if guidance had neither been drawn nor changed during the run: None for a draw."""
    if isinstance(event, RunRecovered):
        return structs.replace(event, guidance=None)
    return None if isinstance(event, GuidanceDrawn) else event


def _logged_draw(event: GuidanceDrawn) -> DrawnSet:
    return DrawnSet(GuidanceSet.as_logged(event.set, event.texts or {}), event.propensity, event.among)


def _check_propensities(propensities: Mapping[str, Any]) -> None:
    """Raise `SettingsError` for a value that is not a probability above 0, and for a sum that is not 1."""
    for name, value in propensities.items():
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or not isfinite(value) or not 0 < value <= 1:
            raise SettingsError(f"The propensity of {name} is invalid: {value!r}", "Use a probability above 0, such as 0.5")
    total = fsum(propensities.values())
    if abs(total - 1) > SUM_TOLERANCE:
        listed = " + ".join(f"{value:g}" for value in propensities.values())
        raise SettingsError(f"The propensities add up to {total:.10g}, not to 1: {listed}", "Give each set its share of 1")
