"""The walk over the rounds of a recorded run, and a shadow of it: the same replies and results with other guidance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import takewhile

import msgspec
from msgspec.structs import replace

from agentnb.core import events as e
from agentnb.core import work_events as w
from agentnb.core.guidance import Guidance
from agentnb.core.run import RunFacts
from agentnb.core.work_fold import KINDS as WORK_KINDS
from agentnb.detect.detector import DetectorMaker
from agentnb.detect.run import Run

BEFORE_THE_REPLY: tuple[type[e.Event], ...] = (
    e.GuidanceGiven,
    e.RetryScheduled,
    e.CompactionStarted,
    e.ContextCompacted,
    e.ExtraUsage,
    e.RunRecovered,
    e.RunSuspended,
    e.Warned,
    *WORK_KINDS,
)
"""Kinds of events of a round that come before its request was sent, or sent for the last time."""
DECIDED = (e.GuidanceGiven, e.LoopDetected, w.GuidanceDrawn, w.FindingMade)
"""Kinds of events that say what the model was told, and what was found: a shadow run has its own."""


class RoundEvents(msgspec.Struct, frozen=True):
    """The events of one round, in order."""

    start: e.RoundStarted
    before: tuple[e.AnyEvent, ...]
    """Since the round before ended: what the person said, questions, changes of the list; for the first, the opening."""
    prepared: tuple[e.AnyEvent, ...]
    """From its start to the request: guidance, compaction, retries."""
    answered: tuple[e.AnyEvent, ...]
    """The reply, the calls and their results, up to its end; less for a round that was cut off."""

    @property
    def guidance(self) -> tuple[Guidance, ...]:
        """The guidance that was given for its request."""
        return tuple([event.guidance for event in self.prepared if isinstance(event, e.GuidanceGiven)])


def walk_rounds(run: RunFacts) -> Iterator[RoundEvents]:
    """Yield the rounds of a run as events, oldest first, in one pass."""
    before: list[e.AnyEvent] = []
    prepared: list[e.AnyEvent] = []
    answered: list[e.AnyEvent] = []
    start: e.RoundStarted | None = None
    for event in run.events:
        if isinstance(event, e.RoundStarted):
            if start is not None:  # cut off: the log was resumed without its end
                yield RoundEvents(start, tuple(before), tuple(prepared), tuple(answered))
                before = []
            start, prepared, answered = event, [], []
        elif start is None:
            before.append(event)
        elif not answered and isinstance(event, BEFORE_THE_REPLY):
            prepared.append(event)
        else:
            answered.append(event)
            if isinstance(event, e.RoundFinished):
                yield RoundEvents(start, tuple(before), tuple(prepared), tuple(answered))
                start, before = None, []
    if start is not None:
        yield RoundEvents(start, tuple(before), tuple(prepared), tuple(answered))


def run_before(run: RunFacts, one: RoundEvents) -> Run:
    """Return the run as it was before this round of it began: what the policies saw that decided on the round."""
    return Run.from_events(takewhile(lambda event: event is not one.start, run.events))


class ShadowRun:
    """A run folded beside a recorded one: the same replies and results, other reasons and guidance.

    Before each round of the recorded run, `open_round` says what would have been decided; `close_round` takes over what the
    model answered. ``run`` is what policies, guides and detectors read, as if it had gone so.
    """

    def __init__(self, detectors: Iterable[DetectorMaker] = ()) -> None:
        self.run = Run(detectors)

    def open_round(self, one: RoundEvents, *, reason: str | None = None, round_status: str | None = None) -> None:
        """Take over what came before this round, and begin it: for the recorded reason, or another."""
        self._take_over(one.before)
        start = one.start
        self._apply(
            replace(
                start,
                reason=start.reason if reason is None else reason,
                before=start.before if round_status is None else round_status,
            )
        )

    def guide(self, guidance: Iterable[Guidance]) -> None:
        """Give guidance for the request of the open round."""
        for one in guidance:
            self._apply(e.GuidanceGiven(seq=0, at=None, run_id=self.run.id, guidance=one))

    def close_round(self, one: RoundEvents) -> None:
        """Take over what was prepared, answered and done in this round, without the guidance that was recorded."""
        self._take_over(one.prepared)
        self._take_over(one.answered)

    def _take_over(self, events: Iterable[e.AnyEvent]) -> None:
        for event in events:
            if not isinstance(event, DECIDED):
                self._apply(event)

    def _apply(self, event: e.AnyEvent) -> None:
        self.run.apply(replace(event, seq=len(self.run.events)))
