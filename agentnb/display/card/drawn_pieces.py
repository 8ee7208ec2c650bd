"""Caches the pieces of a growing card."""

from __future__ import annotations

from collections.abc import Callable, Collection

from agentnb.display.markup import Html


class DrawnPieces:
    """Redraws a piece only if one of its sources has been replaced."""

    def __init__(self) -> None:
        self._drawn: dict[str, tuple[tuple[object, ...], Html]] = {}

    def get(self, key: str, sources: tuple[object, ...], draw: Callable[[], Html]) -> Html:
        """Return the piece, redrawn if necessary."""
        cached = self._drawn.get(key)
        if cached is None or len(cached[0]) != len(sources) or any(map(_is_other, cached[0], sources)):
            cached = self._drawn[key] = (sources, draw())
        return cached[1]

    def keep(self, keys: Collection[str]) -> None:
        """Drop all other pieces."""
        self._drawn = {key: piece for key, piece in self._drawn.items() if key in keys}


def _is_other(before: object, current: object) -> bool:
    """True if a source has been replaced. Numbers and text are compared by value; objects by identity, as comparing them is
    slow.
    """
    return before != current if isinstance(current, int | str) else before is not current
