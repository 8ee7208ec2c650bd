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
from agentnb.core.events import RunRecovered
from agentnb.detect.run import Run

StepEvent = TypeVar("StepEvent", w.StepStarted, w.StepAttempted, w.StepSkipped, w.StepFinished, w.BranchTaken)
WAITING = ("parallel", "map", "emit", "await")
"""The kinds of steps that wait for others."""
KINDS = (w.StepStarted, w.StepAttempted, w.StepSkipped, w.StepFinished, w.BranchTaken)


class RecordedSteps:
    """The logged events of each step that the engine has not come to yet."""

    def __init__(self, events: Iterable[Event]) -> None:
        self._left: dict[str, deque[Any]] = {}
        self._within: dict[str, list[str]] = {}
        """By path, the steps that are within it."""
        for event in events:
            if isinstance(event, KINDS):
                if event.step not in self._left:
                    self._note_around(event.step)
                self._left.setdefault(event.step, deque()).append(event)

    def take(self, kind: type[StepEvent], step: str) -> StepEvent | None:
        """Return the next event of the step if it is of this kind, and count it as come to."""
        left = self._left.get(step)
        if not left or type(left[0]) is not kind:
            return None
        event: StepEvent = left.popleft()
        if not left:
            del self._left[step]
        return event

    def is_next(self, kind: type[Event], step: str) -> bool:
        """Return whether the next event of the step is of this kind."""
        left = self._left.get(step)
        return bool(left) and type(left[0]) is kind  # type: ignore[index]  # not empty

    def pass_over(self, block: str, before: int) -> Counter[str]:
        """Count the events of steps within a block as come to, up to the event of the log with this number.

        Returns how often each of these steps was begun there.
        """
        begun: Counter[str] = Counter()
        for step in self._within.get(block, ()):
            begun[step] += self.pass_over_step(step, before)
        return begun

    def pass_over_step(self, step: str, before: int) -> int:
        """Count the events of a step as come to, up to the event with this number; return how often it was begun there."""
        left, begun = self._left.get(step), 0
        while left and left[0].seq < before:
            event = left.popleft()
            begun += isinstance(event, w.StepStarted) and event.attempt == 1
        if left is not None and not left:
            del self._left[step]
        return begun

    def _note_around(self, step: str) -> None:
        around = step.rpartition("/")[0]
        while around:
            self._within.setdefault(around, []).append(step)
            around = around.rpartition("/")[0]


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


def went_on(run: Run, after: int) -> bool:
    """Return whether the run went on after the event of its log with this number, in the process that logged it.

    Nothing begins in a run that is being ended, nor does what waits for others complete: what was cancelled was not needed.
    """
    for event in run.events[after + 1 :]:
        if isinstance(event, RunRecovered):
            return False
        if isinstance(event, w.StepStarted | w.StepAttempted | w.BranchTaken | w.StepSkipped):
            return True
        if isinstance(event, w.StepFinished) and event.status == "completed" and run.step_records[event.step].kind in WAITING:
            return True
    return False
