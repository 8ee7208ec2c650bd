"""When each part of a run took place: the fold over its events that the timeline draws. It draws nothing itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import NamedTuple

from agentnb.core import events as e
from agentnb.core import work_events as w
from agentnb.core.inner_calls import with_inner
from agentnb.core.messages import ToolResult
from agentnb.core.rounds import NOT_RUN, CallRecord
from agentnb.detect.run import Run

MODEL, RETRY, COMPACTION, SIDE_CALL, QUESTION, PAUSE = "model", "wait to retry", "compaction", "side calls", "you", "paused"
"""The lanes besides those of the tools."""
OK, FAILED, SKIPPED, OPEN = "ok", "failed", "not run", "no result"
"""How a call ended."""


_AFTER_A_WAIT = (
    e.RetryScheduled,
    e.ModelReplied,
    e.CompactionStarted,
    e.ContextCompacted,
    e.RoundFinished,
    e.RunRecovered,
    e.RunFinished,
)
"""Events of which each shows that the wait for another attempt is over."""


class Span(NamedTuple):
    """A part of a run, from ``start`` to ``end``: seconds, or rounds where no times are known."""

    lane: str
    """One of those above, or the name of a tool."""
    start: float
    end: float
    outcome: str = OK
    is_tool: bool = False


class Spans(NamedTuple):
    """The parts of a run, and the rounds (number, start and end) they belong to."""

    spans: list[Span]
    rounds: list[tuple[int, float, float]]
    marks: list[tuple[str, float]]
    """What has no duration: messages of the person, and repetitions that were found."""
    timed: bool
    cuts: list[float]
    """Where time without a process, between a kernel's death and the recovery, is left out."""
    inferred: bool = False
    """Whether starts are missing, so that a part begins where the one before it ended."""


def spans_of(run: Run) -> Spans:
    """Return the parts of the run on the clock; without times, in order, each round equally wide."""
    return _Clock(run).spans() if has_times(run) else _in_order(run)


def has_times(run: Run) -> bool:
    """Return whether the end of every reply and tool call is known, and time passes at all."""
    ends = [event.at for event in run.events if isinstance(event, e.ModelReplied | e.ToolFinished)]
    known = [event.at for event in run.events if event.at is not None]
    return None not in ends and len(known) > 1 and max(known) > min(known)


class _Clock:
    """The fold of a run whose times are known."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._zero = min(event.at for event in run.events if event.at is not None)
        self._last = 0.0
        self._model: float | None = None
        """When the open call of the model began."""
        self._compaction: float | None = None
        self._paused: float | None = None
        self._model_inferred = False
        self._calls: dict[str, tuple[str, float, bool]] = {}
        """The open calls: tool, start, and whether the start is inferred."""
        self._rounds: list[tuple[int, float, float]] = []
        self._found: list[Span] = []
        self._marks: list[tuple[str, float]] = []
        self._gaps: list[tuple[float, float]] = []
        self._inferred = False
        self._retry: Span | None = None
        """The wait whose end is not known yet: a stop may have cut it short."""

    def spans(self) -> Spans:
        for event in self._run.events:
            self._take(event)
            self._last = max(self._last, self._seconds(event.at))
        self._close()
        self._found += self._questions()
        marks = self._marks + [(lane, self._end_of(last)) for lane, last in _repetitions(self._run)]
        whole = Spans(self._found, self._rounds, marks, True, [], self._inferred)
        return _without_gaps(whole, self._gaps)

    def _seconds(self, at: datetime | None) -> float:
        return self._last if at is None else max(0.0, (at - self._zero).total_seconds())

    def _take(self, event: e.AnyEvent) -> None:
        now = self._seconds(event.at)
        if self._retry is not None and isinstance(event, _AFTER_A_WAIT):
            self._end_wait(now, replied=isinstance(event, e.ModelReplied))
        if isinstance(event, e.RoundStarted):
            self._model, self._model_inferred = now, event.at is None
            self._rounds.append((event.index + 1, now, now))
        elif isinstance(event, e.ModelReplied):
            self._add(MODEL, self._start(self._model, event.seconds, now, inferred=self._model_inferred), now)
            self._model = None
        elif isinstance(event, e.ToolStarted | e.ToolFinished | e.CallBlocked):
            self._take_call(event, now)
        elif isinstance(event, e.RetryScheduled | e.CompactionStarted | e.ContextCompacted):
            self._take_preparation(event, now)
        else:
            self._take_other(event, now)

    def _start(self, start: float | None, seconds: float | None, now: float, *, inferred: bool) -> float:
        """Return when a part began that ends now: as recorded, else by its seconds, else where the part before it ended."""
        if start is None or (inferred and seconds is not None):
            return now - (seconds or 0.0)
        self._inferred |= inferred
        return start

    def _end_wait(self, now: float, *, replied: bool = False) -> None:
        """End the open wait: when it was over, or now if it was cut short; then no other attempt was made."""
        wait, self._retry = self._retry, None
        if wait is not None:
            end = min(wait.end, max(now, wait.start))
            self._found.append(wait._replace(end=end))
            if self._model is not None and end < wait.end:
                self._model = end if replied else None

    def _take_call(self, event: e.ToolStarted | e.ToolFinished | e.CallBlocked, now: float) -> None:
        if isinstance(event, e.ToolStarted):
            self._calls[event.call.id] = (event.call.name, now, event.at is None)
        elif isinstance(event, e.CallBlocked):
            self._add(event.call.name, now, now, SKIPPED, is_tool=True)
        else:
            name, start, inferred = self._calls.pop(event.result.call_id, (event.result.name, now, True))
            start = self._start(start, event.seconds, now, inferred=inferred)
            self._add(name, start, now, _outcome(event.result), is_tool=True)

    def _take_preparation(self, event: e.RetryScheduled | e.CompactionStarted | e.ContextCompacted, now: float) -> None:
        if isinstance(event, e.CompactionStarted):
            self._compaction, self._model = now, None
        elif isinstance(event, e.ContextCompacted):
            start = now - (event.seconds or 0.0) if self._compaction is None else self._compaction
            self._add(COMPACTION, start, now, FAILED if event.problem else OK)
            self._compaction, self._model = None, now
        else:
            if self._model is not None and event.attempt > 0:
                self._add(MODEL, self._model, now, FAILED)
            self._retry = Span(RETRY, now, now + event.seconds)
            if self._model is not None:
                self._model = now + event.seconds

    def _take_other(self, event: e.AnyEvent, now: float) -> None:
        if isinstance(event, w.ModelCalled):
            self._add(SIDE_CALL, now - (event.seconds or 0.0), now, FAILED if event.error else OK)
        elif isinstance(event, e.RunRecovered):
            self._gaps.append((self._last, now))
        elif isinstance(event, e.RoundFinished) and self._rounds:
            number, start, _ = self._rounds[-1]
            self._close_model(now)
            self._rounds[-1] = (number, start, max(now, self._last))
        elif isinstance(event, e.CommandReceived):
            if event.command == "say" and self._rounds:
                self._marks.append(("message from you", now))
            elif event.command == "pause" and self._paused is None:
                self._paused = now
            elif self._paused is not None and event.command != "say":
                self._add(PAUSE, self._paused, now)
                self._paused = None

    def _add(self, lane: str, start: float, end: float, outcome: str = OK, *, is_tool: bool = False) -> None:
        self._found.append(Span(lane, max(0.0, min(start, end)), end, outcome, is_tool))

    def _close_model(self, now: float) -> None:
        if self._model is not None:
            self._add(MODEL, self._model, max(now, self._model), OPEN)
            self._model = None

    def _close(self) -> None:
        """End what is still open where the log ends."""
        self._end_wait(self._last)
        if self._run.rounds and self._run.rounds[-1].ended_at is None and self._rounds:
            self._close_model(self._last)
            number, start, _ = self._rounds[-1]
            self._rounds[-1] = (number, start, max(start, self._last))
        for name, start, _ in self._calls.values():
            self._add(name, start, self._last, OPEN, is_tool=True)
        for lane, begun in ((COMPACTION, self._compaction), (PAUSE, self._paused)):
            if begun is not None:
                self._add(lane, begun, self._last, OPEN)

    def _questions(self) -> Iterator[Span]:
        for asked in self._run.questions:
            if asked.asked_at is not None:
                start = self._seconds(asked.asked_at)
                end = self._last if asked.closed_at is None else self._seconds(asked.closed_at)
                yield Span(QUESTION, start, max(start, end), OPEN if asked.closed_at is None else OK)

    def _end_of(self, index: int) -> float:
        """Return when the round with this index ended."""
        return self._rounds[index][2] if 0 <= index < len(self._rounds) else self._last


def _without_gaps(whole: Spans, gaps: list[tuple[float, float]]) -> Spans:
    """Leave out the time in which no process worked on the run."""
    if not gaps:
        return whole

    def moved(at: float) -> float:
        return at - sum(min(at, end) - start for start, end in gaps if at > start)

    return whole._replace(
        spans=[span._replace(start=moved(span.start), end=moved(span.end)) for span in whole.spans],
        rounds=[(number, moved(start), moved(end)) for number, start, end in whole.rounds],
        marks=[(lane, moved(at)) for lane, at in whole.marks],
        cuts=[moved(start) for start, _ in gaps],
    )


def _in_order(run: Run) -> Spans:
    """Return the parts in their order: of a round from ``n - 0.5`` to ``n + 0.5``, all equally wide."""
    found: list[Span] = []
    rounds = []
    for number, one in enumerate(run.rounds, 1):
        parts = [Span(COMPACTION, 0, 0, FAILED if each.problem else OK) for each in one.compactions]
        parts += [Span(RETRY, 0, 0) for _ in one.retries]
        parts.append(Span(MODEL, 0, 0, OK if one.reply is not None else OPEN))
        parts += [_of_record(record) for _, record in with_inner(one.records)]
        width = 0.9 / len(parts)
        start = number - 0.45
        found += [part._replace(start=start + at * width, end=start + (at + 1) * width) for at, part in enumerate(parts)]
        rounds.append((number, number - 0.5, number + 0.5))
    marks = [(lane, last + 1.5) for lane, last in _repetitions(run)]
    return Spans(found, rounds, marks, False, [])


def _of_record(record: CallRecord) -> Span:
    return Span(record.call.name, 0, 0, OPEN if record.result is None else _outcome(record.result), is_tool=True)


def _outcome(result: ToolResult) -> str:
    if result.error_code in NOT_RUN:
        return SKIPPED
    return FAILED if result.is_error else OK


def _repetitions(run: Run) -> Iterable[tuple[str, int]]:
    """Yield for each finding of the run its mark and its last round."""
    for loop in run.loops:
        yield "loop found", loop.last
    for finding in run.findings:
        yield "finding", finding.last
