"""The rounds of a recorded run in turn, and its shadow: the same replies and results with different guidance."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import takewhile
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from agentnb.core.guidance import Guidance
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.messages import ToolResult
from agentnb.core.run.facts import RunFacts
from agentnb.detect.detector import DetectorMaker
from agentnb.detect.run import Run

BEFORE_THE_REPLY = e.BeforeReply | e.ExtraUsage | e.RunRecovered | e.RunSuspended | e.Warned | w.WorkEvent
"""Kinds of events in a round that precede its request, or the last attempt at it."""
DECIDED = frozenset({e.GuidanceGiven, *e.Found.__args__})
"""Kinds of events that hold guidance and findings; a shadow run produces its own."""


class RoundEvents(msgspec.Struct, frozen=True):
    """The events of one round, in order."""

    start: e.RoundStarted
    before: tuple[e.AnyEvent, ...]
    """Messages, questions and list changes since the previous round; for the first round, the opening."""
    prepared: tuple[e.AnyEvent, ...]
    """Events from its start to the request: guidance, compaction, retries."""
    answered: tuple[e.AnyEvent, ...]
    """The reply, the calls and their results; incomplete for an interrupted round."""

    @property
    def guidance(self) -> tuple[Guidance, ...]:
        """The guidance in its request."""
        return tuple([event.guidance for event in self.prepared if isinstance(event, e.GuidanceGiven)])


def walk_rounds(run: RunFacts) -> Iterator[RoundEvents]:
    """Yield the rounds of a run as events, oldest first, in one pass."""
    before: list[e.AnyEvent] = []
    prepared: list[e.AnyEvent] = []
    answered: list[e.AnyEvent] = []
    start: e.RoundStarted | None = None
    for event in run.events:
        if isinstance(event, e.RoundStarted):
            if start is not None:  # interrupted: the log continues without its end
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
    """Return the run before this round began, as seen by the policies that decided on it."""
    return Run.from_events(takewhile(lambda event: event is not one.start, run.events))


Vary: TypeAlias = Callable[[e.AnyEvent], "e.AnyEvent | None"]
"""Returns a recorded event as the shadow should apply it, for example with other settings, or None to omit it."""
JudgeCall: TypeAlias = Callable[[e.CallEvent], "tuple[ToolResult, str] | None"]
"""Judges the call that an event of the recorded run admitted, started or blocked. Returns the result and rule if it should be
blocked, otherwise None.
"""


def _as_recorded(event: e.AnyEvent) -> e.AnyEvent:
    return event


class ShadowRun:
    """A run folded beside a recorded one: the same replies and results, different reasons and guidance.

    Before each round of the recorded run, `open_round` records the new decision; `close_round` copies the model's answer.
    Policies, guides and detectors read ``run`` as if it had happened.
    """

    def __init__(self, detectors: Iterable[DetectorMaker] = (), vary: Vary = _as_recorded) -> None:
        self.run = Run(detectors)
        self._vary = vary
        self._caught_up: RoundEvents | None = None

    def catch_up(self, one: RoundEvents) -> None:
        """Copy the events before this round: messages from the person and changes to the list."""
        if self._caught_up is not one:
            self._caught_up = one
            self.take_over(one.before)

    def take_over(self, events: Iterable[e.AnyEvent]) -> None:
        """Copy these events of the recorded run, such as those after its last round."""
        for event in events:
            if type(event) not in DECIDED and (varied := self._vary(event)) is not None:
                self._apply(varied)

    def open_round(
        self,
        one: RoundEvents,
        *,
        reason: str | None = None,
        round_status: str | None = None,
        continuation: str | None = None,
        note: str | None = None,
    ) -> None:
        """Copy the events before this round and begin it as recorded, or with these fields changed."""
        self.catch_up(one)
        words = {"reason": reason, "before": round_status, "continuation": continuation, "note": note}
        self._apply(replace(one.start, **{name: text for name, text in words.items() if text is not None}))

    def open_further_round(self, reason: str, round_status: str = "") -> None:
        """Begin a round that the recorded run does not have."""
        index = self.run.last_round.index + 1 if self.run.rounds else 0
        self._apply(e.RoundStarted(seq=0, at=None, run_id=self.run.id, index=index, reason=reason, before=round_status))

    def guide(self, guidance: Iterable[Guidance]) -> None:
        """Add guidance to the request of the open round."""
        for item in guidance:
            self._apply(e.GuidanceGiven(seq=0, at=None, run_id=self.run.id, guidance=item))

    def close_round(self, one: RoundEvents, judge: JudgeCall | None = None) -> None:
        """Copy this round's events, except for the recorded guidance.

        ``judge``: returns the result and the rule if a call should be blocked; nothing else of that call is copied.
        """
        self.take_over(one.prepared)
        self.take_over(one.answered if judge is None else self._replace_blocked(one.answered, judge))

    def log_findings(self) -> None:
        """Record new findings of the detectors, as a live run does after a round."""
        for finding in self.run.take_unlogged():
            self._apply(w.FindingMade(seq=0, at=None, run_id=self.run.id, **msgspec.structs.asdict(finding)))

    def _replace_blocked(self, events: Iterable[e.AnyEvent], judge: JudgeCall) -> Iterator[e.AnyEvent]:
        """Yield the events of the answer, with calls to block replaced by `CallBlocked`."""
        judged: set[str] = set()
        blocked: set[str] = set()
        for event in events:
            if isinstance(event, e.CallEvent):
                call, parent = event.call, event.parent_call
                if parent in blocked:
                    blocked.add(call.id)
                elif not parent and call.id not in judged:
                    judged.add(call.id)
                    if (block := judge(event)) is not None:
                        blocked.add(call.id)
                        yield e.CallBlocked(seq=0, at=event.at, run_id=event.run_id, call=call, result=block[0], rule=block[1])
            if not blocked or _call_of(event) not in blocked:
                yield event

    def _apply(self, event: e.AnyEvent) -> None:
        seq = len(self.run.events)
        self.run.apply(event if event.seq == seq else replace(event, seq=seq))  # unchanged until the runs diverge


def _call_of(event: e.AnyEvent) -> str | None:
    """Return the id of the event's call, if any."""
    if isinstance(event, e.CallEvent):
        return event.call.id
    if isinstance(event, e.ToolFinished):
        return event.result.call_id
    return event.call_id if isinstance(event, e.TodosChanged) and event.by == "model" else None
