"""Conditions that read what a later step gives: that step, and those between, run before the condition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from agentnb.workflow.form.spec import ConditionStep, Step
from agentnb.workflow.form.step_tree import lists_in, walk
from agentnb.workflow.templates.references import references


def deferred(steps: Sequence[Step]) -> dict[str, int]:
    """Return how many of the steps after a condition in its list run before it, by its path; of those that wait for some."""
    return {path: count for path, count in _deferred(steps) if count}


def _deferred(steps: Sequence[Step]) -> Iterator[tuple[str, int]]:
    places = {inner.id: place for place, step in enumerate(steps) for inner in walk(step)}  # a branch adds no level
    for place, step in enumerate(steps):
        if isinstance(step, ConditionStep):
            read = [one.parts[0] for one in references(step.condition) if one.root == "$steps" and one.parts]
            yield step.path, max([0, *(places.get(str(name), place) - place for name in read)])
            for branch in lists_in(step):
                yield from _deferred(branch)
        else:
            for child in (one for children in lists_in(step) for one in children):
                yield from _deferred([child])  # children of a block do not wait for each other
