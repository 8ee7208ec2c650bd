"""What the log of a recovered workflow already says of the course of its run.

The engine takes the same way again, and wherever the log has the event already, takes it from there: so a step that has
finished is not run again, and a failed attempt is not waited for again.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from agentnb.core import work_events as w
from agentnb.core.event import Event

StepEvent = TypeVar("StepEvent", w.StepStarted, w.StepAttempted, w.StepSkipped, w.StepFinished, w.BranchTaken)
KINDS = (w.StepStarted, w.StepAttempted, w.StepSkipped, w.StepFinished, w.BranchTaken)


class RecordedSteps:
    """The logged events of each step that the engine has not come to yet."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._left: dict[str, deque[Any]] = {}
        for event in events:
            if isinstance(event, KINDS):
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

    def pass_over(self, block: str, before: int) -> Counter[str]:
        """Count the events of steps within a block as come to, up to the event of the log with this number.

        Returns how often each of these steps was begun there.
        """
        begun: Counter[str] = Counter()
        for step in [one for one in self._left if one.startswith(f"{block}/")]:
            left = self._left[step]
            while left and left[0].seq < before:
                event = left.popleft()
                begun[step] += isinstance(event, w.StepStarted) and event.attempt == 1
            if not left:
                del self._left[step]
        return begun


def was_given_up(events: Sequence[Event], block: str, before: int) -> bool:
    """Return whether a child of this block, or of one around it, had failed before the event of the log with this number.

    The block fails with it, and its other children are cancelled.
    """
    blocks = {block[:end] for end, character in enumerate(block) if character == "/"} | ({block} if block else set())
    children: dict[str, set[str]] = {}
    for event in events[:before]:
        if isinstance(event, w.StepStarted):
            children.setdefault(event.parent, set()).add(event.step)
    for event in reversed(events[:before]):
        if isinstance(event, w.StepStarted):
            blocks.discard(event.step)  # what failed before was another attempt at it
        elif (
            isinstance(event, w.StepFinished)
            and event.status == "failed"
            and any(event.step in children.get(one, ()) for one in blocks)
        ):
            return True
    return False
