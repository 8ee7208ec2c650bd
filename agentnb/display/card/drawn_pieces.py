"""Pieces of a growing card as they were drawn last."""

from __future__ import annotations

from collections.abc import Callable, Collection

from agentnb.display.markup import Html


class DrawnPieces:
    """Draws a piece again only if a source of it was replaced."""

    def __init__(self) -> None:
        self._drawn: dict[str, tuple[tuple[object, ...], Html]] = {}

    def get(self, key: str, sources: tuple[object, ...], draw: Callable[[], Html]) -> Html:
        """Return the piece, drawn again if need be."""
        cached = self._drawn.get(key)
        if cached is None or len(cached[0]) != len(sources) or any(map(_is_other, cached[0], sources)):
            cached = self._drawn[key] = (sources, draw())
        return cached[1]

    def keep(self, keys: Collection[str]) -> None:
        """Forget all other pieces."""
        self._drawn = {key: piece for key, piece in self._drawn.items() if key in keys}


def _is_other(before: object, now: object) -> bool:
    """Return whether a source was replaced: objects by identity, as comparing them takes long; numbers and words by value."""
    return before != now if isinstance(now, int | str) else before is not now
