"""Journal of a recovered run with steps: the events already in its log.

The run takes the same path again, using the events from the log, so that finished steps are not rerun and retry waits
are not repeated.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import Any, TypeVar

from agentnb.core.log import work_events as w
from agentnb.core.log.event import Event

Taken = TypeVar("Taken", bound=w.StepEvent)


class StepJournal:
    """The logged events that the run has not yet reached again, by step."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.left: dict[str, deque[Any]] = {}
        """Logged events that the run has not yet reached again, by step; empty unless the run is recovered."""
        self.within: dict[str, list[str]] = {}
        """The steps within each path, in the order of their first events."""
        for event in events:
            if isinstance(event, w.StepEvent):
                if event.step not in self.left:
                    self._note_around(event.step)
                self.left.setdefault(event.step, deque()).append(event)

    def take(self, kind: type[Taken], step: str) -> Taken | None:
        """Return and consume the next event of the step, if it is of this kind."""
        events = self.left.get(step)
        if not events or type(events[0]) is not kind:
            return None
        event: Taken = events.popleft()
        if not events:
            del self.left[step]
        return event

    def take_start(self, step: str) -> w.StepStarted | None:
        """Return and consume the step's next start, with the events that earlier versions logged before it.

        Earlier versions logged a second start for a step cut off by the death of a process, and a start after a skip
        for lack of money.
        """
        if step not in self.left:
            return None
        while self.take(w.StepSkipped, step) is not None:
            pass
        started = self.take(w.StepStarted, step)
        while started is not None and (again := self.take(w.StepStarted, step)) is not None:
            started = again
        return started

    def is_next(self, kind: type[Event], step: str) -> bool:
        """Return whether the next event of the step is of this kind."""
        events = self.left.get(step)
        return bool(events) and type(events[0]) is kind  # type: ignore[index]  # not empty

    def pass_over(self, block: str, before: int) -> Counter[str]:
        """Consume the events of steps within a block, up to the event with this number.

        Returns the number of starts of each step.
        """
        begun: Counter[str] = Counter()
        for step in self.within.get(block, ()):
            begun[step] += self.pass_over_step(step, before)
        return begun

    def pass_over_step(self, step: str, before: int) -> int:
        """Consume a step's events, up to the event with this number; return the number of its starts."""
        events, begun = self.left.get(step), 0
        while events and events[0].seq < before:
            event = events.popleft()
            begun += isinstance(event, w.StepStarted) and event.attempt == 1
        if events is not None and not events:
            del self.left[step]
        return begun

    def _note_around(self, step: str) -> None:
        around = step.rpartition("/")[0]
        while around:
            self.within.setdefault(around, []).append(step)
            around = around.rpartition("/")[0]
