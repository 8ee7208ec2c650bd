"""Conditions that read what a later step gives: that step, and those between, run before the condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentnb.workflow.references import references
from agentnb.workflow.spec import ConditionStep, MapStep, ParallelStep, Step
from agentnb.workflow.step_tree import walk


def deferred(steps: Sequence[Step]) -> dict[str, int]:
    """Return how many of the steps after a condition in its list run before it, by its path; of those that wait for some."""
    return {path: count for path, count in _deferred(steps) if count}


def _deferred(steps: Sequence[Step]) -> Iterator[tuple[str, int]]:
    places = {inner.id: place for place, step in enumerate(steps) for inner in walk(step)}  # a branch adds no level
    for place, step in enumerate(steps):
        if isinstance(step, ConditionStep):
            read = [one.parts[0] for one in references(step.condition) if one.root == "$steps" and one.parts]
            yield step.path, max([0, *(places.get(str(name), place) - place for name in read)])
            yield from _deferred(step.true_)
            yield from _deferred(step.false_)
        elif isinstance(step, ParallelStep):
            for child in step.steps:
                yield from _deferred([child])
        elif isinstance(step, MapStep):
            yield from _deferred([step.step])
