"""Draws: a guidance set chosen at random for the next round, with its probability."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from agentnb.detect.run import Run
from agentnb.guidance.sets import GuidanceSet


class DrawnSet(NamedTuple):
    """A guidance set that was drawn; it is in force until another is."""

    set: GuidanceSet
    propensity: float
    """The probability with which it was drawn, above 0 to 1."""
    among: Mapping[str, float] = {}
    """The probability of each set that could have been drawn, by name."""

    @property
    def as_logged(self) -> dict[str, Any]:
        """The fields of its event."""
        texts = self.set.as_texts
        return {
            "set": texts.set,
            "version": texts.version,
            "texts": texts.texts,
            "propensity": self.propensity,
            "among": dict(self.among),
        }


Draw: TypeAlias = Callable[[Run], "DrawnSet | None"]
"""Called before the first round and after each, before the policies decide; None leaves the set in force."""
