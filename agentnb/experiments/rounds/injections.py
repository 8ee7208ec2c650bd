"""Injections: rounds in which a guidance set would apply, and their short-term outcomes."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from agentnb.detect.run import Run
from agentnb.experiments.planning.near_outcomes import NearOutcome
from agentnb.guidance.draws import RandomGuidance, draws_of
from agentnb.guidance.sets import GuidanceSet
from agentnb.rerun.replay import replay


class InjectionKind(NamedTuple):
    """The kind of an injection."""

    kind: str
    """The cell of the guidance."""
    trigger: str
    """The reason for the round, as in `tables.rounds`."""


class Injection(NamedTuple):
    """A round for which at least one of the sets that could be drawn has guidance, whichever set was drawn."""

    at_round: int
    """Index of the round."""
    place: InjectionKind
    set: str
    """Name of the drawn set."""
    version: str
    propensity: float
    against: str
    """Name of the first set; the others are compared with it."""
    givers: frozenset[str]
    """Names of the sets that have guidance for this round."""
    value: bool | None
    """The near outcome, or None if unknown."""


def is_drawn_by_round(run: Run) -> bool:
    """True if a guidance set was drawn for each round of the run."""
    logged = RandomGuidance.from_log(run.settings)
    return any(event.round for event in draws_of(run)) if logged is None else logged.assign == "round"


def injections_of(run: Run, outcome: NearOutcome) -> Iterator[Injection]:
    """Yield the injections of a run whose sets were drawn by round. Replays the real guides, without calling a model.

    An injection and its kind depend on events before its draw, never on the draw itself.
    """
    draws = {event.round: event for event in draws_of(run)}
    value = outcome(run)
    asked: dict[tuple[int, InjectionKind], tuple[bool | None, frozenset[str]]] = {}
    for words in _sets_of(run):
        for index, injection_kind, followed in would_be_given(run, words):
            _, givers = asked.get((index, injection_kind), (None, frozenset()))
            asked[index, injection_kind] = followed, givers | {words.name}
    for (index, injection_kind), (followed, givers) in sorted(asked.items()):
        if (draw := draws.get(index)) is not None and draw.among:
            draw_fields = draw.set, draw.version, draw.propensity, next(iter(draw.among))
            yield Injection(index, injection_kind, *draw_fields, givers, value(index, followed))


def would_be_given(run: Run, words: GuidanceSet) -> Iterator[tuple[int, InjectionKind, bool | None]]:
    """Yield the guidance that a set would give for rounds of a run: the round's index, the kind, and whether the reply followed
    it.
    """
    for round_ in replay(run, guidance=words).rounds:
        if round_.would_be is None or round_.recorded.is_final:
            continue
        for guidance, verdict in zip_longest(
            round_.would_be.guidance, round_.would_be.followed[: len(round_.would_be.guidance)]
        ):
            if guidance.set == words.name:  # skip guidance of detectors and contexts, which have no set
                followed = None if verdict is None else verdict.followed
                yield round_.recorded.index, InjectionKind(guidance.cell, round_.recorded.reason), followed


def _sets_of(run: Run) -> list[GuidanceSet]:
    """Return the sets with guidance that could be drawn. If a policy does the drawing itself, return those that were drawn."""
    drawn = RandomGuidance.from_log(run.settings)
    logged = {event.set: GuidanceSet.as_logged(event.set, event.texts or {}) for event in draws_of(run)}
    return [words for words in (logged.values() if drawn is None else drawn.sets) if words.as_texts.texts]
