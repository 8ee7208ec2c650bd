"""Spans of a run's parts on its timeline, in seconds; this module draws nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from itertools import dropwhile
from typing import NamedTuple

from agentnb.core.log import events as e
from agentnb.core.messages import ToolResult
from agentnb.core.run.inner_calls import with_inner
from agentnb.core.run.rounds import NOT_RUN, CallRecord
from agentnb.core.run.timeline import CLARIFY_BLANK, Attempt, Compaction, ModelCall, Part, Pause, Round, Tool, Wait, timeline
from agentnb.detect.run import Run

MODEL, RETRY, COMPACTION, SIDE_CALL, QUESTION, PAUSE = "model", "wait to retry", "compaction", "side calls", "you", "paused"
"""Lanes other than those of tools."""
OK, FAILED, SKIPPED, OPEN = "ok", "failed", "not run", "no result"
"""Possible outcomes of a call."""


class Span(NamedTuple):
    """A part of a run, from ``start`` to ``end``, in seconds, or in rounds if no times are known."""

    lane: str
    """Lane listed above, or the name of a tool."""
    start: float
    end: float
    outcome: str = OK
    is_tool: bool = False


class Spans(NamedTuple):
    """The parts of a run, and its rounds (number, start and end)."""

    spans: list[Span]
    rounds: list[tuple[int, float, float]]
    marks: list[tuple[str, float]]
    """Points in time: the person's messages, and detected repetitions."""
    timed: bool
    cuts: list[float]
    """Positions at which time without a process is left out, between a kernel's death and the recovery."""
    inferred: bool = False
    """True if start times are missing, so that a part is drawn from the end of the previous one."""


def spans_of(run: Run) -> Spans:
    """Return the run's parts by clock time or, if times are missing, in order, with rounds of equal width."""
    return _Clock(run).spans() if has_times(run) else _in_order(run)


def has_times(run: Run) -> bool:
    """True if the end times of all replies and tool calls are known, and any time passes."""
    end_times = [event.at for event in run.events if isinstance(event, e.ModelReplied | e.ToolFinished)]
    times = [event.at for event in run.events if event.at is not None]
    return None not in end_times and len(times) > 1 and max(times) > min(times)


class _Clock:
    """Places the parts of a run whose times are known by the clock, in seconds since its first event."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._zero = min(event.at for event in run.events if event.at is not None)
        self._now: list[float] = []
        """Time of each event; for an event that has none, the last known time."""
        self._latest: list[float] = []
        """Latest time up to and including each event."""
        last = 0.0
        for event in run.events:
            self._now.append(last if event.at is None else self._seconds(event.at))
            last = max(last, self._now[-1])
            self._latest.append(last)
        self._last = last
        self._after_waits: dict[int, float | None] = {}
        """Start of each retry's attempt, by its ``seq``, or None if the wait was cut short and there was no attempt."""
        self._found: list[Span] = []
        self._rounds: list[tuple[int, float, float]] = []
        self._inferred = False

    def spans(self) -> Spans:
        for part in timeline(self._run):
            self._take(part)
        self._found += self._questions()
        marks = self._messages() + [(lane, self._end_of(last)) for lane, last in _repetitions(self._run)]
        all_spans = Spans(self._found, self._rounds, marks, True, [], self._inferred)
        events = enumerate(self._run.events)
        gaps = [(self._latest[seq - 1], self._now[seq]) for seq, event in events if isinstance(event, e.RunRecovered)]
        return _without_gaps(all_spans, gaps)

    def _seconds(self, at: datetime) -> float:
        return max(0.0, (at - self._zero).total_seconds())

    def _at(self, event: e.AnyEvent | None) -> float:
        return self._last if event is None else self._now[event.seq]

    def _take(self, part: Part) -> None:
        begun, ended = part.begun, part.ended
        if isinstance(part, Wait):
            self._add_wait(part)
        elif isinstance(part, Attempt):
            self._add_attempt(part)
        elif isinstance(part, Tool):
            self._add_tool(part)
        elif isinstance(part, Compaction) and (finished := part.ended) is not None:
            start = self._at(finished) - (finished.seconds or 0.0) if begun is None else self._at(begun)
            self._add(COMPACTION, start, self._at(finished), FAILED if finished.problem else OK)
        elif isinstance(part, ModelCall):
            if (call := part.side_call) is not None and part.operation != CLARIFY_BLANK:
                at = self._at(call)
                self._add(SIDE_CALL, at - (call.seconds or 0.0), at, FAILED if call.error else OK)
        elif isinstance(part, Compaction | Pause):
            lane = PAUSE if isinstance(part, Pause) else COMPACTION
            self._add(lane, self._at(begun), self._at(ended), OK if ended is not None else OPEN)
        elif isinstance(part, Round) and part.begun is not None:
            start = self._at(begun)
            has_end = ended is not None and ended.at is not None
            end = self._latest[ended.seq] if ended is not None and has_end else max(start, self._last)
            self._rounds.append((part.begun.index + 1, start, end))

    def _add_wait(self, wait: Wait) -> None:
        """Add the wait up to its end or interruption. An interrupted wait led to no attempt, unless a reply came."""
        retry = wait.begun
        start = self._at(retry)
        planned = start + retry.seconds
        end = min(planned, max(self._at(wait.ended), start))
        self._found.append(Span(RETRY, start, end))
        if end < planned:
            self._after_waits.setdefault(retry.seq, end if isinstance(wait.ended, e.ModelReplied) else None)
        else:
            self._after_waits.setdefault(retry.seq, planned)

    def _add_attempt(self, attempt: Attempt) -> None:
        begun, ended = attempt.begun, attempt.ended
        start = None if begun is None else self._after_waits.get(begun.seq, self._at(begun))
        end = self._at(ended)
        if isinstance(ended, e.ModelReplied):
            is_inferred = isinstance(begun, e.RoundStarted) and begun.at is None
            self._add(MODEL, self._start(start, ended.seconds, end, inferred=is_inferred), end)
        elif isinstance(ended, e.BeforeReply):
            if start is None:
                self._after_waits[ended.seq] = None
            else:
                self._add(MODEL, start, end, FAILED)
        elif start is not None:
            self._add(MODEL, start, max(end, start), OPEN)

    def _add_tool(self, tool: Tool) -> None:
        begun, ended = tool.begun, tool.ended
        end = self._at(ended)
        if tool.is_blocked and tool.call is not None:
            self._add(tool.call.name, end, end, SKIPPED, is_tool=True)
        elif isinstance(ended, e.ToolFinished):
            name = ended.result.name if begun is None or tool.call is None else tool.call.name
            start = end if begun is None else self._at(begun)
            start = self._start(start, ended.seconds, end, inferred=begun is None or begun.at is None)
            self._add(name, start, end, _outcome(ended.result), is_tool=True)
        elif tool.call is not None:
            self._add(tool.call.name, self._at(begun), end, OPEN, is_tool=True)

    def _start(self, start: float | None, seconds: float | None, end: float, *, inferred: bool) -> float:
        """Return the start of a part that ends at ``end``: as recorded, or from its duration, or else the end of the
        previous part.
        """
        if start is None or (inferred and seconds is not None):
            return end - (seconds or 0.0)
        self._inferred |= inferred
        return start

    def _add(self, lane: str, start: float, end: float, outcome: str = OK, *, is_tool: bool = False) -> None:
        self._found.append(Span(lane, max(0.0, min(start, end)), end, outcome, is_tool))

    def _messages(self) -> list[tuple[str, float]]:
        """Return marks for the person's messages since the first round."""
        events = dropwhile(lambda event: not isinstance(event, e.RoundStarted), self._run.events)
        return [("message from you", self._at(event)) for event in events if event.person_message is not None]

    def _questions(self) -> Iterator[Span]:
        for question in self._run.questions:
            if question.asked_at is not None:
                start = self._seconds(question.asked_at)
                end = self._last if question.closed_at is None else self._seconds(question.closed_at)
                yield Span(QUESTION, start, max(start, end), OPEN if question.closed_at is None else OK)

    def _end_of(self, index: int) -> float:
        """Return the end of the round with this index."""
        return self._rounds[index][2] if 0 <= index < len(self._rounds) else self._last


def _without_gaps(whole: Spans, gaps: list[tuple[float, float]]) -> Spans:
    """Leave out the time in which no process was working on the run."""
    if not gaps:
        return whole

    def move(at: float) -> float:
        return at - sum(min(at, end) - start for start, end in gaps if at > start)

    return whole._replace(
        spans=[span._replace(start=move(span.start), end=move(span.end)) for span in whole.spans],
        rounds=[(number, move(start), move(end)) for number, start, end in whole.rounds],
        marks=[(lane, move(at)) for lane, at in whole.marks],
        cuts=[move(start) for start, _ in gaps],
    )


def _in_order(run: Run) -> Spans:
    """Return the parts in order: each round spans ``n - 0.5`` to ``n + 0.5``, with parts of equal width."""
    spans: list[Span] = []
    rounds = []
    for number, run_round in enumerate(run.rounds, 1):
        parts = [Span(COMPACTION, 0, 0, FAILED if compaction.problem else OK) for compaction in run_round.compactions]
        parts += [Span(RETRY, 0, 0) for _ in run_round.retries]
        parts.append(Span(MODEL, 0, 0, OK if run_round.reply is not None else OPEN))
        parts += [_of_record(record) for _, record in with_inner(run_round.records)]
        width = 0.9 / len(parts)
        start = number - 0.45
        spans += [part._replace(start=start + at * width, end=start + (at + 1) * width) for at, part in enumerate(parts)]
        rounds.append((number, number - 0.5, number + 0.5))
    marks = [(lane, last + 1.5) for lane, last in _repetitions(run)]
    return Spans(spans, rounds, marks, False, [])


def _of_record(record: CallRecord) -> Span:
    return Span(record.call.name, 0, 0, OPEN if record.result is None else _outcome(record.result), is_tool=True)


def _outcome(result: ToolResult) -> str:
    if result.error_code in NOT_RUN:
        return SKIPPED
    return FAILED if result.is_error else OK


def _repetitions(run: Run) -> Iterable[tuple[str, int]]:
    """Yield the mark and the last round of each of a run's findings."""
    for loop in run.loops:
        yield "loop found", loop.last
    for finding in run.findings:
        yield "finding", finding.last
