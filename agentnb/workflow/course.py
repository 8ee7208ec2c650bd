"""What the log of a recovered workflow already says of the course of its run.

The engine takes the same way again, and wherever the log has the event already, takes it from there: so a step that has
finished is not run again, and a failed attempt is not waited for again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Any, TypeVar

from agentnb.core import work_events as w
from agentnb.core.event import Event

StepEvent = TypeVar("StepEvent", w.StepStarted, w.StepAttempted, w.StepSkipped, w.StepFinished, w.BranchTaken)
KINDS = (w.StepStarted, w.StepAttempted, w.StepSkipped, w.StepFinished, w.BranchTaken)


class RecordedSteps:
    """The logged events of each step that the engine has not come to yet."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._left: dict[str, deque[Any]] = {}
        self._within: dict[str, set[str]] = {}
        """By path, the steps that are within it."""
        for event in events:
            if isinstance(event, KINDS):
                if event.step not in self._left:
                    self._note_around(event.step)
                self._left.setdefault(event.step, deque()).append(event)

    def __bool__(self) -> bool:
        return bool(self._left)

    def take(self, kind: type[StepEvent], step: str) -> StepEvent | None:
        """Return the next event of the step if it is of this kind, and count it as come to."""
        left = self._left.get(step)
        if not left or type(left[0]) is not kind:
            return None
        event: StepEvent = left.popleft()
        if not left:
            del self._left[step]
        return event

    def pass_by(self, step: str, until: int, *, itself: bool = False) -> None:
        """Count the events of the steps within this one, up to the event with this number, as come to.

        What a block gave in an attempt or an execution that is over is not done again: its steps are not come to.
        ``itself``: the step's own events, and none within.
        """
        for path in (step,) if itself else self._within.get(step, ()):
            left = self._left.get(path)
            while left and left[0].seq < until:
                left.popleft()
            if left is not None and not left:
                del self._left[path]

    def _note_around(self, step: str) -> None:
        around = step.rpartition("/")[0]
        while around:
            self._within.setdefault(around, set()).add(step)
            around = around.rpartition("/")[0]

    def is_next(self, kind: type[Event], step: str) -> bool:
        """Return whether the next event of the step is of this kind."""
        left = self._left.get(step)
        return bool(left) and type(left[0]) is kind  # type: ignore[index]  # not empty
