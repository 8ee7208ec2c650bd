"""The budget of an experiment: a cell starts only if active cells cannot use it up, and active cells are never cut short."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TypeAlias

from agentnb.experiments.planning.plan_problems import are_free
from agentnb.experiments.planning.variants import Variant, name_of
from agentnb.experiments.results.rows import LOST, Row
from agentnb.models.model import Model

Group: TypeAlias = tuple[str, str]
"""Names of a variant and a model whose runs are assumed to cost about the same."""


class CellAccount:
    """Budget for the runs of one cell, in any process. Forwards what they spend.

    Never ends a run, because a run cut short by the experiment's budget would count as a failure of its variant.
    """

    def __init__(self, pay: Callable[[float], object]) -> None:
        self._pay = pay

    def pay(self, dollars: float) -> None:
        """Forward an amount that a run has spent."""
        self._pay(dollars)

    def left(self) -> None:
        """Return None, since the experiment's budget does not limit individual runs."""

    def exhausted(self) -> None:
        """Return None, since it never ends a run."""

    def has_limit(self) -> bool:
        """Return False, since prices are checked before the experiment starts."""
        return False


class CellSpending:
    """The spending of an experiment's cells, and an upper bound for it, in US dollars, across all processes. Thread-safe."""

    def __init__(self, limit: float | None, spent: float = 0.0, bounds: Mapping[Group, float] | None = None) -> None:
        """``spent``: the amount spent by earlier processes; ``bounds``: maximum cost of a cell, where known."""
        self.limit = limit
        self._spent = spent
        self._bounds = dict(bounds or {})
        self._under_way: dict[str, tuple[Group, float]] = {}
        """The group and spending of each active cell, by key."""
        self._lock = threading.Lock()

    @property
    def spent(self) -> float:
        """US dollars spent so far, including by earlier processes."""
        return self._spent

    @property
    def is_spent(self) -> bool:
        """True if the limit has been reached."""
        return self.limit is not None and self.spent >= self.limit

    @property
    def set_aside(self) -> float:
        """Maximum that active cells can still spend; infinite until a first cell of each variant and model has ended."""
        with self._lock:
            return sum(max(0.0, self._bounds.get(group, math.inf) - spent) for group, spent in self._under_way.values())

    @property
    def has_room(self) -> bool:
        """True if a cell may start because active cells cannot use up the budget."""
        return self.limit is None or self.spent + self.set_aside < self.limit

    def begin(self, key: str, group: Group) -> None:
        """Reserve the maximum cost of a cell that is starting, or restarting after a death."""
        with self._lock:
            self._under_way[key] = group, 0.0

    def end(self, key: str) -> None:
        """Release the reservation of a cell. Its cost raises the bound of its group unless a limit is known."""
        with self._lock:
            group, spent = self._under_way.pop(key)
            self._bounds[group] = max(spent, self._bounds.get(group, 0.0))

    def pay(self, key: str, dollars: float) -> None:
        """Record an amount spent by a cell's run, even after the cell has ended."""
        with self._lock:
            self._spent += dollars
            if key in self._under_way:
                group, spent = self._under_way[key]
                self._under_way[key] = group, spent + dollars

    def account_of(self, key: str) -> CellAccount:
        """Return the budget for a cell's runs in this process."""
        return CellAccount(partial(self.pay, key))


def known_bounds(variants: Iterable[Variant], models: Sequence[str | Model], rows: Iterable[Row]) -> dict[Group, float]:
    """Return the maximum cost of a cell in US dollars: 0 for free models, the agent's budget, or the maximum in earlier
    rows.
    """
    bounds: dict[Group, float] = {}
    for row in rows:
        if row.spent is not None and row.status != LOST:
            bounds[row.variant, row.model] = max(row.spent, bounds.get((row.variant, row.model), 0.0))
    for group, (variant, model) in _groups(variants, models).items():
        bound = 0.0 if model is not None and are_free([variant], [model]) else variant.budget
        if bound is not None:
            bounds[group] = bound
    return bounds


def find_maximum(bounds: Mapping[Group, float], variants: Iterable[Variant], models: Sequence[str | Model]) -> float | None:
    """Return the maximum cost of a cell across all variants and models, in US dollars, or None if any is unknown."""
    maxima = [bounds.get(group) for group in _groups(variants, models)]
    return None if None in maxima else max(maximum for maximum in maxima if maximum is not None)


def _groups(variants: Iterable[Variant], models: Sequence[str | Model]) -> dict[Group, tuple[Variant, str | Model | None]]:
    return {
        (variant.name, "" if model is None else name_of(model)): (variant, model)
        for variant in variants
        for model in models or (variant.model,)
    }
