"""The gaps between a graph's layers, where each horizontal edge segment gets its own height."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import NamedTuple

MARGIN = 9
"""Pixels above the first segment in a gap and below the last one."""
TRACK_HEIGHT = 8
"""Vertical distance between segments, in pixels."""
LABEL_HEIGHT = 17
"""Height of the label below a segment."""
SEGMENT_GAP = 10
"""Horizontal distance between segments at the same height, in pixels."""
MIN_GAP_HEIGHT = 24
"""Minimum height of a gap."""


class Bar(NamedTuple):
    """A horizontal segment of an edge."""

    key: Hashable
    """Segments with the same key lead to the same node, and form one line."""
    source: Hashable
    """Segments from the same node may touch."""
    start: float
    end: float


@dataclass(slots=True)
class _Line:
    left: float
    right: float
    sources: set[Hashable]
    track: int = -1

    def is_clear_of(self, other: _Line) -> bool:
        apart = 0 if self.sources & other.sources - {None} else SEGMENT_GAP
        return self.right + apart <= other.left or other.right + apart <= self.left


@dataclass(slots=True)
class Gap:
    """The space between two layers."""

    _lines: dict[Hashable, _Line] = field(default_factory=dict)
    _has_label: bool = False

    def add(self, bar: Bar, *, is_labelled: bool = False) -> None:
        """Reserve space for a segment and, if it has one, its label below it."""
        self._has_label = self._has_label or is_labelled
        start, end = sorted((bar.start, bar.end))
        line = self._lines.get(bar.key)
        if line is None:
            self._lines[bar.key] = _Line(start, end, {bar.source})
            return
        line.left, line.right = min(line.left, start), max(line.right, end)
        line.sources.add(bar.source)

    def height(self, *, is_outer: bool = False) -> float:
        """Return the height in pixels. ``is_outer``: whether the gap is above the first layer or below the last."""
        if is_outer and not self._lines:
            return 1
        bars = (self._tracks() - 1) * TRACK_HEIGHT if self._lines else 0
        return max(MIN_GAP_HEIGHT, MARGIN + max(bars, 0) + (LABEL_HEIGHT if self._has_label else 0) + MARGIN)

    def offset(self, key: Hashable) -> float:
        """Return a segment's distance from the top of the gap."""
        self._tracks()
        return MARGIN + max(self._lines[key].track, 0) * TRACK_HEIGHT

    def _tracks(self) -> int:
        """Assign each horizontal line the first height that is free, and return the number of heights."""
        tracks: list[list[_Line]] = []
        for line in sorted(self._lines.values(), key=lambda one: one.right - one.left):
            if line.right - line.left < 1:
                line.track = 0
                continue
            line.track = next(
                (index for index, others in enumerate(tracks) if all(line.is_clear_of(other) for other in others)), len(tracks)
            )
            if line.track == len(tracks):
                tracks.append([])
            tracks[line.track].append(line)
        return len(tracks)
