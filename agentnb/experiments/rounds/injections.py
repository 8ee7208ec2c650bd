"""Injections: the rounds of runs in which a guidance set would be given, and what came soon after them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest
from typing import NamedTuple

from agentnb.detect.run import Run
from agentnb.experiments.planning.near_outcomes import NearOutcome
from agentnb.guidance.draws import RandomGuidance, draws_of
from agentnb.guidance.sets import GuidanceSet
from agentnb.rerun.replay import replay


class Place(NamedTuple):
    """A kind of injections."""

    kind: str
    """The cell of the guidance."""
    trigger: str
    """Why the round came, as `tables.rounds` has it."""


class Injection(NamedTuple):
    """A round in which one of the sets that could be drawn would give guidance, whichever was drawn."""

    at_round: int
    """Index of the round."""
    place: Place
    set: str
    """The name of the set that was drawn."""
    version: str
    propensity: float
    against: str
    """The name of the first of the sets, which the others are held against."""
    givers: frozenset[str]
    """The names of the sets that have guidance for it."""
    value: bool | None
    """The near outcome; None where it is unknown."""


def is_drawn_by_round(run: Run) -> bool:
    """Return whether a guidance set was drawn for each round of the run."""
    logged = RandomGuidance.logged(run.settings)
    return any(event.round for event in draws_of(run)) if logged is None else logged.assign == "round"


def injections_of(run: Run, outcome: NearOutcome) -> Iterator[Injection]:
    """Yield the injections of a run whose sets were drawn by round. Calls no model: the real guides say what they would give.

    Whether a round is one, and of which kind, depends on what came before its draw, and not on the draw.
    """
    draws = {event.round: event for event in draws_of(run)}
    value = outcome(run)
    asked: dict[tuple[int, Place], tuple[bool | None, frozenset[str]]] = {}
    for words in _sets_of(run):
        for index, injection_kind, followed in would_be_given(run, words):
            _, givers = asked.get((index, injection_kind), (None, frozenset()))
            asked[index, injection_kind] = followed, givers | {words.name}
    for (index, injection_kind), (followed, givers) in sorted(asked.items()):
        if (draw := draws.get(index)) is not None and draw.among:
            draw_fields = draw.set, draw.version, draw.propensity, next(iter(draw.among))
            yield Injection(index, injection_kind, *draw_fields, givers, value(index, followed))


def would_be_given(run: Run, words: GuidanceSet) -> Iterator[tuple[int, Place, bool | None]]:
    """Yield what a set would give in the rounds of a run: the index, its kind, and whether the reply did what it asks."""
    for round_ in replay(run, guidance=words).rounds:
        if round_.would_be is None or round_.recorded.is_final:
            continue
        for guidance, verdict in zip_longest(
            round_.would_be.guidance, round_.would_be.followed[: len(round_.would_be.guidance)]
        ):
            if guidance.set == words.name:  # the others, of detectors and contexts, belong to no set
                followed = None if verdict is None else verdict.followed
                yield round_.recorded.index, Place(guidance.cell, round_.recorded.reason), followed


def _sets_of(run: Run) -> list[GuidanceSet]:
    """Return the sets that could be drawn and say something; of a policy that draws itself, those that were drawn."""
    drawn = RandomGuidance.logged(run.settings)
    logged = {event.set: GuidanceSet.as_logged(event.set, event.texts or {}) for event in draws_of(run)}
    return [words for words in (logged.values() if drawn is None else drawn.sets) if words.as_texts.texts]
