"""The budget of an experiment: no cell begins that those under way may leave nothing for, and these end as they would have."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from agentnb.experiments.planning.problems import are_free
from agentnb.experiments.planning.variants import Variant, name_of
from agentnb.experiments.results.rows import LOST, Row
from agentnb.models.model import Model

Group: TypeAlias = tuple[str, str]
"""The names of a variant and of a model, whose runs are taken to cost alike."""


class CellAccount:
    """The budget of the runs of one cell, in any process: passes on what they spend.

    It ends no run: one cut short by the experiment's budget would count as a failure of its variant.
    """

    def __init__(self, pay: Callable[[float], object]) -> None:
        self._pay = pay

    def pay(self, dollars: float) -> None:
        """Pass on what a run has spent."""
        self._pay(dollars)

    def left(self) -> None:
        """Return None: a run may end although the experiment's budget is spent."""

    def exhausted(self) -> None:
        """Return None: no run ends for it."""

    def has_limit(self) -> bool:
        """Return False: prices are checked before the experiment begins."""
        return False


class CellSpending:
    """What the cells of an experiment have spent and can still spend, in US dollars, in all processes. Thread-safe."""

    def __init__(self, limit: float | None, spent: float = 0.0, bounds: Mapping[Group, float] | None = None) -> None:
        """``spent``: by earlier processes; ``bounds``: the most that a cell can spend, where it is known."""
        self.limit = limit
        self._spent = spent
        self._bounds = dict(bounds or {})
        self._under_way: dict[str, tuple[Group, float]] = {}
        """What each cell under way has spent, by its key."""
        self._lock = threading.Lock()

    @property
    def spent(self) -> float:
        """US dollars spent so far, those of earlier processes included."""
        return self._spent

    @property
    def is_spent(self) -> bool:
        """Whether the limit is reached."""
        return self.limit is not None and self.spent >= self.limit

    @property
    def set_aside(self) -> float:
        """What the cells under way can still spend; infinite before the first cell of a variant and model has ended."""
        with self._lock:
            return sum(max(0.0, self._bounds.get(group, math.inf) - spent) for group, spent in self._under_way.values())

    @property
    def has_room(self) -> bool:
        """Whether a cell may begin: those under way cannot spend all that is left."""
        return self.limit is None or self.spent + self.set_aside < self.limit

    def begin(self, key: str, group: Group) -> None:
        """Set aside what a cell can spend: as it begins, and as it begins again after a death."""
        with self._lock:
            self._under_way[key] = group, 0.0

    def end(self, key: str) -> None:
        """Set nothing aside for a cell any more. The dearest of its kind is what others may cost, where no limit says it."""
        with self._lock:
            group, spent = self._under_way.pop(key)
            self._bounds[group] = max(spent, self._bounds.get(group, 0.0))

    def pay(self, key: str, dollars: float) -> None:
        """Take what a run of a cell has spent, also of one whose end is noted."""
        with self._lock:
            self._spent += dollars
            if key in self._under_way:
                group, spent = self._under_way[key]
                self._under_way[key] = group, spent + dollars

    def account_of(self, key: str) -> CellAccount:
        """Return the budget of the runs of a cell that runs in this process."""
        return CellAccount(partial(self.pay, key))


def known_bounds(variants: Iterable[Variant], models: Sequence[str | Model], rows: Iterable[Row]) -> dict[Group, float]:
    """Return the most that a cell can spend, in US dollars: nothing, the budget of its agent, or the most of earlier rows."""
    bounds: dict[Group, float] = {}
    for row in rows:
        if row.spent is not None and row.status != LOST:
            bounds[row.variant, row.model] = max(row.spent, bounds.get((row.variant, row.model), 0.0))
    for group, (variant, model) in _groups(variants, models).items():
        bound = 0.0 if model is not None and are_free([variant], [model]) else variant.budget
        if bound is not None:
            bounds[group] = bound
    return bounds


def most_of(bounds: Mapping[Group, float], variants: Iterable[Variant], models: Sequence[str | Model]) -> float | None:
    """Return the most that a cell of any variant and model can spend, in US dollars; None if that of one is unknown."""
    maxima = [bounds.get(group) for group in _groups(variants, models)]
    return None if None in maxima else max(maximum for maximum in maxima if maximum is not None)


def _groups(variants: Iterable[Variant], models: Sequence[str | Model]) -> dict[Group, tuple[Variant, str | Model | None]]:
    return {
        (variant.name, "" if model is None else name_of(model)): (variant, model)
        for variant in variants
        for model in models or (variant.model,)
    }
