"""Drawn rounds: personas that heed guidance with a known probability, and the sets drawn for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from random import Random
from typing import Any, NamedTuple

from agentnb.experiments.rounds.injections import Injection, InjectionKind
from agentnb.experiments.rounds.lift import DrawnInjection, effects

PLACES = [InjectionKind(kind, trigger) for kind in ("tools", "text") for trigger in ("tool_results", "said")]


class Persona(NamedTuple):
    """Acts well unprompted in a share of rounds that differs by task, and otherwise heeds one set."""

    heeds: Mapping[str, float]
    """Probability of heeding guidance, by set."""
    tired: float = 0.0
    """Share by which heeding lowers unprompted action in the next round: draws affect later rounds."""


def draw_rounds(rng: Random, tasks: int, persona: Persona, propensities: Mapping[str, float]) -> Iterator[DrawnInjection]:
    """Draw the rounds of two runs per task; the cell of a round depends on the rounds before it."""
    against = next(iter(propensities))
    for task in range(tasks):
        usual = min(max(rng.gauss(0.4, 0.2), 0.05), 0.75)
        for run in range(2):
            done, told = False, False
            for at in range(1, rng.randint(4, 12)):
                (name,) = rng.choices([*propensities], [*propensities.values()])
                place = PLACES[2 * done + rng.randrange(2)]
                by_itself = usual * (1 - persona.tired * told)
                told = name != against
                done = rng.random() < by_itself + persona.heeds.get(name, 0.0) * (1 - usual)
                injection = Injection(at, place, name, name, propensities[name], against, frozenset({"matrix"}), done)
                yield DrawnInjection("persona", f"t{task}", f"t{task}-{run}", injection)


def rows_of(rng: Random, tasks: int, persona: Persona, propensities: Mapping[str, float]) -> list[dict[str, Any]]:
    return effects(draw_rounds(rng, tasks, persona, propensities), "call_worked")
