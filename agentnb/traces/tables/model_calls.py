"""The model calls of a run, found among its events: one by one, with their purpose, attempts and usage."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from msgspec.structs import replace

from agentnb.core.events import (
    AnyEvent,
    CompactionStarted,
    ContextCompacted,
    ExtraUsage,
    ModelReplied,
    RetryScheduled,
    RoundStarted,
    RunRecovered,
)
from agentnb.core.rounds import FINAL_ANSWER, Retry, WorkflowRound
from agentnb.core.run import RunFacts
from agentnb.core.usage import NOTHING_USED, Usage
from agentnb.core.work_events import ModelCalled

CHAT = "chat"
"""The operation of the loop's own calls, as OpenTelemetry names it."""
COMPACTION = "compaction"
NESTED = "nested"
"""The operation of a row for all calls of a nested run."""
OVERFLOW = "overflow"
"""Why the conversation was compacted: a call was refused as too long."""
TOO_LONG = "The conversation was longer than the model can take; it was compacted, and sent again"
BROKEN_OFF = "broken_off"
"""The stop reason of a partial reply."""


class Call(NamedTuple):
    """A model call of any operation."""

    run: RunFacts
    round: int | None
    operation: str
    started_at: datetime | None
    replied: bool
    """Whether a reply came, even a partial one."""
    failed: bool
    """Whether no whole reply came."""
    retries: Sequence[Retry]
    usage: Usage
    seconds: float | None
    stop_reason: str
    metadata: dict[str, Any]
    not_waited: float
    """Seconds of the last wait that did not pass because the person stopped the run; else 0."""
    problem: str = ""
    """Why it failed, if that did not end the run."""
    model: str = ""
    """Its model, if that is not the run's."""
    author: str = ""
    """Who replied, where several agents share a conversation."""
    nested_run: str | None = None
    """The nested run whose calls it sums up; None for a call of the run itself."""

    @property
    def attempts(self) -> int:
        """Attempts made."""
        return sum(retry.attempt > 0 for retry in self.retries) + (not self.not_waited)

    @property
    def waited(self) -> float:
        """Seconds between the attempts."""
        return sum(retry.seconds for retry in self.retries) - self.not_waited

    @property
    def error(self) -> str | None:
        """Why no whole reply came."""
        if not self.failed:
            return None
        if self.problem:
            return self.problem
        return str(self.run.error) if self.run.error else self.run.stop_reason


def model_calls(run: RunFacts) -> Iterator[Call]:
    """Yield all model calls of a run; no other function finds them."""
    side_calls = _SideCalls(run)
    yield from side_calls.calls.get(None, ())
    for one in run.rounds:
        yield from side_calls.calls.get(one.index, ())
        theirs = side_calls.retries.get(one.index, ())
        own = tuple([retry for place, retry in enumerate(one.retries) if place not in theirs])
        used = one.usage or side_calls.replies.get(one.index)
        call = _of_round(run, replace(one, retries=own, usage=used))
        yield call._replace(started_at=side_calls.ended.get(one.index, one.started_at))
        yield from side_calls.after.get(one.index, ())


class _SideCalls:
    """The calls besides those of the rounds, by round, and the usage of replies that were not kept."""

    def __init__(self, run: RunFacts) -> None:
        self.calls: dict[int | None, list[Call]] = {}
        """By round, those made before its request: compactions, and others; None: before the first round."""
        self.after: dict[int, list[Call]] = {}
        """By round, those made after its reply."""
        self.retries: dict[int, set[int]] = {}
        """By round, the places of those of its retries that belong to compaction calls."""
        self.replies: dict[int, Usage] = {}
        """By round, the usage of a reply that was not kept."""
        self.ended: dict[int, datetime | None] = {}
        """By round, when its last compaction ended, and its own model call could start."""
        self._run = run
        self._round = self._tried = 0
        self._begun_round = self._replied = False
        self._begun: CompactionStarted | None = None
        self._mine: list[Retry] = []
        self._used = Usage()
        """Usage of a compaction call that was stopped."""
        self._started_at: datetime | None = None
        self._own: dict[int, Retry] = {}
        """Retries of the round's own call, by their place."""
        for event in run.events:
            self._take(event)
        self._end()

    def _take(self, event: AnyEvent) -> None:
        if isinstance(event, RoundStarted):
            self._round, self._tried, self._started_at, self._own = event.index, 0, event.at, {}
            self._begun_round, self._replied = True, False
        elif isinstance(event, ModelReplied):
            self._replied = True
        elif isinstance(event, ModelCalled):
            self._called(event)
        elif isinstance(event, CompactionStarted):
            if event.why == OVERFLOW:
                self._refused()
            self._begun, self._mine, self._used = event, [], Usage()
        elif isinstance(event, RetryScheduled):
            self._retried(event)
        elif isinstance(event, ExtraUsage) and event.usage != NOTHING_USED:
            if self._begun is not None:
                self._used = event.usage
            else:
                self.replies[self._round] = event.usage
        elif isinstance(event, RunRecovered):
            self._end("interrupted")
        elif isinstance(event, ContextCompacted):
            self.ended[self._round] = event.at
            self._end(event.problem, event)

    def _called(self, event: ModelCalled) -> None:
        """Record a call besides the loop, which says all of itself in one event."""
        call = Call(
            self._run,
            self._round if self._begun_round else None,
            event.operation,
            None,  # its event tells when it ended
            replied=not event.error,
            failed=bool(event.error),
            retries=(),
            usage=event.usage,
            seconds=event.seconds,
            stop_reason="",
            metadata={},
            not_waited=0.0,
            problem=event.error,
            model=event.model,
        )
        if self._replied:
            self.after.setdefault(self._round, []).append(call)
        else:
            self.calls.setdefault(self._round if self._begun_round else None, []).append(call)

    def _refused(self) -> None:
        """Record the round's call that was refused as too long; the retries so far were its own."""
        call = Call(
            self._run,
            self._round,
            FINAL_ANSWER if self._run.rounds[self._round].is_final else CHAT,
            self.ended.get(self._round, self._started_at),
            replied=False,
            failed=True,
            retries=tuple(self._own.values()),
            usage=Usage(),
            seconds=None,
            stop_reason="",
            metadata={},
            not_waited=0.0,
            problem=TOO_LONG,
        )
        self.calls.setdefault(self._round, []).append(call)
        self.retries.setdefault(self._round, set()).update(self._own)
        self._own = {}

    def _retried(self, event: RetryScheduled) -> None:
        retry = Retry(event.attempt, event.seconds, event.reason, event.status, event.heard)
        if self._begun is None:
            self._own[self._tried] = retry
        else:
            self._mine.append(retry)
            self.retries.setdefault(self._round, set()).add(self._tried)
        self._tried += 1

    def _end(self, problem: str = "", done: ContextCompacted | None = None) -> None:
        """Record the end of the open compaction call, unless the summary was made without a model."""
        begun, self._begun = self._begun, None
        if begun is None or (done is not None and not problem and done.usage == NOTHING_USED):
            return
        went_well = done is not None and not problem
        call = Call(
            self._run,
            self._round,
            COMPACTION,
            begun.at,
            replied=went_well,
            failed=not went_well,
            retries=tuple(self._mine),
            usage=self._used if done is None else done.usage,
            seconds=0.0 if done is None else done.seconds,
            stop_reason="",
            metadata={},
            not_waited=0.0,
            problem=problem,
        )
        self.calls.setdefault(self._round, []).append(call)


def _of_round(run: RunFacts, one: WorkflowRound) -> Call:
    return Call(
        run,
        one.index,
        FINAL_ANSWER if one.is_final else CHAT,
        one.started_at,
        replied=one.reply is not None,
        failed=one.reply is None or one.stop_reason == BROKEN_OFF,
        retries=one.retries,
        usage=one.usage or Usage(),
        seconds=one.seconds if one.reply is None else one.model_seconds,
        stop_reason=one.stop_reason,
        metadata=one.metadata,
        not_waited=_not_waited(run, one),
        author=one.reply.author if one.reply is not None else "",
    )


def _not_waited(run: RunFacts, one: WorkflowRound) -> float:
    """Return the seconds of a stopped call's last wait that did not pass."""
    if one.reply is not None or one.status != "cancelled" or not one.retries or one.ended_at is None:
        return 0.0
    begun = next(event.at for event in reversed(run.events) if isinstance(event, RetryScheduled))
    if begun is None:
        return 0.0
    return max(0.0, one.retries[-1].seconds - (one.ended_at - begun).total_seconds())
