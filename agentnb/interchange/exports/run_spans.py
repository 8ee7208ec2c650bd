"""The spans of a run: the run itself, its model calls, tool calls and plans, independent of any convention's attribute names.

A span must have times. Unknown times are set a microsecond apart in the order of events; `Span.times` says which times are not
real. Ids are derived from the run's id, so that repeated exports match.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import msgspec

from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.messages import Message, ToolCall, ToolResult
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.fold import apply
from agentnb.core.run.rounds import BROKEN_OFF
from agentnb.core.run.timeline import CLARIFY_BLANK, ModelCall, Part, Tool, timeline
from agentnb.detect.run import Run
from agentnb.interchange.exports.stored_messages import drop_placeholders, is_placeholder_result

Kind: TypeAlias = Literal["agent", "model", "tool", "plan"]
AGENT = "agent"
"""Key of the run's own span."""
MAX_INPUT_BYTES = 100_000
"""Maximum bytes of input messages for a model call to repeat the whole conversation; beyond that, it has only new messages."""
ONLY_END, UNKNOWN_TIMES, ONLY_DURATION, ONLY_START = "only the end", "unknown", "only the duration", "only the start"
"""Labels for what is known about a span's times, unless both are known."""
_MICROSECOND = 1_000
MAX_SPAN_SECONDS = 1e10
"""Maximum seconds of a span; a damaged log may hold more than fit into nanoseconds."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SHOWN = frozenset(
    {
        e.RunStarted,
        e.RoundStarted,
        e.ModelReplied,
        e.ReplyStreamed,
        e.ToolStarted,
        *e.CallEnd.__args__,
        e.RoundFinished,
        e.RunFinished,
        w.ModelCalled,
    }
)
"""Events that spans represent; of a round, only its number and status."""


@dataclass(slots=True)
class SpanEvent:
    """An agentnb event for which no convention has a span."""

    event: e.AnyEvent
    at: int
    """Nanoseconds since 1970, possibly derived from the event's position."""


@dataclass(slots=True)
class Span:
    """A span and its content."""

    kind: Kind
    key: str
    """Name within the run; the span's id is derived from it."""
    parent: str
    """Key of the enclosing span; empty for the run's own."""
    name: str
    """Name of the agent, model or tool."""
    start: int
    """Nanoseconds since 1970."""
    end: int
    times: str = ""
    seq: int = 0
    """Number of the event that ended it."""
    error: e.RunError | None = None
    inputs: Sequence[Message] = ()
    offset: int = 0
    """Number of messages in earlier spans, before the inputs."""
    reply: e.ModelReplied | None = None
    called: w.ModelCalled | None = None
    """The model call outside a round that the span represents, if any."""
    call: ToolCall | None = None
    result: ToolResult | None = None
    is_compacted: bool = False
    """True if the model was sent a summary instead of earlier inputs."""
    seconds: float | None = None
    """Duration of the tool call."""
    facts: dict[str, Any] = field(default_factory=dict)
    """``agentnb.*`` attributes."""
    events: list[SpanEvent] = field(default_factory=list)


class TraceIds:
    """Groups runs into traces. Nested runs, at any depth, share the trace of their outermost run."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self._parents = {run.id: run.parent_id for run in runs} if isinstance(runs, Sequence) else {}

    def trace_id(self, run: Run) -> str:
        """Return the trace id of a run: 32 hexadecimal digits."""
        self._parents[run.id] = run.parent_id
        root, seen = run.id, {run.id}
        while (parent := self._parents.get(root)) is not None and parent not in seen:
            root = parent
            seen.add(root)
        return hashlib.sha256(root.encode()).hexdigest()[:32]


def span_id(run_id: str, key: str) -> str:
    """Return the id of a span: 16 hexadecimal digits."""
    return hashlib.sha256(f"{run_id}/{key}".encode()).hexdigest()[:16]


def parent_span_id(run: Run, span: Span) -> str:
    """Return the id of the enclosing span; empty if the run is not nested."""
    if span.parent:
        return span_id(run.id, span.parent)
    return span_id(run.parent_id, AGENT) if run.parent_id else ""


def spans_of(run: Run) -> list[Span]:
    """Return the spans of a run: first its own, then the others in the order in which they ended."""
    return _Spans(run).all()


def event_data(event: e.AnyEvent) -> dict[str, Any]:
    """Return the fields of an event as plain data, excluding those that all events have."""
    fields: dict[str, Any] = msgspec.to_builtins(event)
    return {name: value for name, value in fields.items() if name not in ("kind", "seq", "at", "run_id", "parent_id")}


class _Spans:
    """Folds a run a second time, creating a span for each call."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._facts = RunFacts()
        self._at = _nanoseconds(run.events)
        self._conversation: list[Message] = []
        """The conversation so far, excluding filled gaps."""
        self._length, self._taken, self._since = 0, 0, 0
        self._round: e.RoundStarted | None = None
        self._ended: dict[int, list[Part]] = {}
        """Parts of the run, by the number of the event that ended them."""
        self._keys: dict[str, str] = {}
        """Span keys of calls that have started, by call id."""
        for part in timeline(run, ModelCall, Tool):
            if part.ended is not None:
                self._ended.setdefault(part.ended.seq, []).append(part)
            if isinstance(part, Tool) and part.begun is not None and part.call is not None:
                self._keys[part.call.id] = f"tool-{part.begun.seq}"
        self._waiting: list[SpanEvent] = []
        self._planners: list[Span] = []
        self._plan = AGENT
        self._spans = [self._of_run()]
        self._last_model: Span | None = None

    def all(self) -> list[Span]:
        for event in self._run.events:
            self._take(event)
            apply(self._facts, event)
        if (streamed := self._run.streamed_reply) is not None:
            self._add_interrupted_call(*streamed)
        own = self._spans[0]
        own.events = sorted([*own.events, *self._waiting], key=lambda one: one.event.seq)
        return self._spans

    def _take(self, event: e.AnyEvent) -> None:
        if isinstance(event, e.RoundStarted):
            self._round = event
        for part in self._ended.get(event.seq, ()):
            if isinstance(part, ModelCall):
                self._add_model_call(part)
            elif isinstance(part, Tool):
                self._add_tool_call(part)
        if isinstance(event, e.RoundFinished):
            self._note_status(event)
        if type(event) not in _SHOWN:
            self._add_event(event)

    def _add_event(self, event: e.AnyEvent) -> None:
        if isinstance(event, e.Warned) and event.topic == "filled":
            return
        if isinstance(event, w.PlanProposed):
            self._add_plan(event)
        noted = SpanEvent(event, self._at[event.seq])
        (self._waiting if isinstance(event, e.BeforeReply) else self._spans[0].events).append(noted)

    # The run

    def _of_run(self) -> Span:
        run, last = self._run, self._run.events[-1]
        first = run.events[0]
        names = {(True, True): "", (True, False): ONLY_START, (False, True): ONLY_END, (False, False): UNKNOWN_TIMES}
        times = names[first.at is not None, last.at is not None]
        end = max(self._at[0], self._at[-1])
        span = Span("agent", AGENT, "", run.agent, self._at[0], end, times, last.seq, run.error)
        span.inputs = [*drop_placeholders(run.messages[: run.inherited + 1])]
        return span

    # Model calls

    def _add_model_call(self, part: ModelCall) -> None:
        if isinstance(part.ended, e.ModelReplied):
            self._add_reply(part.ended)
        elif isinstance(part.ended, w.ModelCalled) and part.operation != CLARIFY_BLANK:
            self._add_side_call(part.ended)

    def _add_reply(self, event: e.ModelReplied) -> None:
        index = self._round.index if self._round is not None else 0
        self._read_conversation()
        span = self._add("model", f"round-{index}", self._run.model, event, event.seconds)
        span.reply = event
        self._put_inputs(span)
        self._put_round(span)

    def _add_interrupted_call(self, message: Message, metadata: dict[str, Any]) -> None:
        """Add the model call whose reply was streaming when the process died."""
        last = self._run.events[-1]
        how: Any = {"stop_reason": BROKEN_OFF, "metadata": metadata, "seconds": None}
        self._add_reply(e.ModelReplied(last.seq, last.at, last.run_id, last.parent_id, message=message, **how))

    def _put_inputs(self, span: Span) -> None:
        span.is_compacted = self._facts.compacted is not None
        span.offset = 0 if self._length <= MAX_INPUT_BYTES else self._since
        span.inputs = self._conversation[span.offset :]
        self._since = len(self._conversation)

    def _put_round(self, span: Span) -> None:
        if self._round is not None:
            span.facts = {"round": self._round.index + 1, "round.reason": self._round.reason}
        span.events, self._waiting = self._waiting, []
        self._last_model = span

    def _read_conversation(self) -> None:
        """Add the messages since the previous model call."""
        messages = self._facts.messages
        for message in drop_placeholders(messages[self._taken :]):
            self._conversation.append(message)
            self._length += len(msgspec.json.encode(message))
        self._taken = len(messages)

    def _note_status(self, event: e.RoundFinished) -> None:
        """Record the status of a round. If it has no reply, add it as a failed model call."""
        if self._round is None:
            return
        last = self._last_model
        if last is None or last.key != f"round-{event.index}":
            self._add_failed_call(event)
        elif event.status != "success":
            last.facts["round.status"] = event.status

    def _add_failed_call(self, event: e.RoundFinished) -> None:
        assert self._round is not None
        self._read_conversation()
        times = "" if self._round.at is not None and event.at is not None else UNKNOWN_TIMES
        ends = self._at[self._round.seq], self._at[event.seq]
        span = Span("model", f"round-{event.index}", AGENT, self._run.model, min(ends), max(ends), times, event.seq)
        span.error = self._run.error or e.RunError(event.status, "There was no reply")
        self._spans.append(span)
        self._put_inputs(span)
        self._put_round(span)
        span.facts["round.status"] = event.status

    def _add_side_call(self, event: w.ModelCalled) -> None:
        span = self._add("model", f"model-{event.seq}", event.model or self._run.model, event, event.seconds)
        span.called = event
        span.error = e.RunError("ModelError", event.error) if event.error else None
        if event.operation == "planner":
            span.parent = self._plan
            self._planners.append(span)

    def _add_plan(self, event: w.PlanProposed) -> None:
        """Add the span of a plan, around its planner's model calls."""
        at = self._at[event.seq]
        start = min([at, *[planner.start for planner in self._planners]])
        times = UNKNOWN_TIMES if event.at is None else "" if self._planners else ONLY_END
        span = Span("plan", f"plan-{event.seq}", AGENT, self._run.agent, start, at, times, event.seq)
        span.facts = {"plan.id": event.plan_id}
        self._spans.append(span)
        for planner in self._planners:
            planner.parent = span.key
        self._plan, self._planners = span.key, []

    # Tool calls

    def _add_tool_call(self, part: Tool) -> None:
        event, call = part.ended, part.call
        if isinstance(event, e.ToolFinished):
            if call is None or is_placeholder_result(event.result):
                return
            begun = event if part.begun is None else part.begun  # a call stopped before it began also has a result
            span = self._add("tool", f"tool-{begun.seq}", call.name, event, event.seconds)
            span.call, span.seconds = call, event.seconds
            if event.traceback:
                span.facts["traceback"] = event.traceback
        elif event is not None:
            span = self._add("tool", f"tool-{event.seq}", event.call.name, event, None)
            span.call, span.seconds, span.facts = event.call, 0.0, {"rule": event.rule}
        else:
            return
        span.parent, span.result = self._keys.get(event.parent_call, AGENT), event.result
        if span.result.is_error:
            span.error = e.RunError(span.result.error_code or "tool_error", span.result.text)

    def _add(self, kind: Kind, key: str, name: str, event: e.AnyEvent, seconds: float | None) -> Span:
        """Add the span that this event ends, with its duration if known."""
        at = self._at[event.seq]
        length = 0 if seconds is None else round(min(seconds, MAX_SPAN_SECONDS) * 1e9)
        if event.at is not None:
            start, end, times = at - length, at, ONLY_END if seconds is None else ""
        else:
            start, end, times = at, at + length, UNKNOWN_TIMES if seconds is None else ONLY_DURATION
        span = Span(kind, key, AGENT, name, start, end, times, event.seq)
        self._spans.append(span)
        return span


def _nanoseconds(events: Sequence[e.AnyEvent]) -> list[int]:
    """Return the time of each event in nanoseconds since 1970; unknown times are derived from the last known one."""
    first_known = next(((event.seq, _nanoseconds_of(event.at)) for event in events if event.at is not None), (0, 0))
    seq, at = first_known
    times = []
    for event in events:
        if event.at is not None:
            seq, at = event.seq, _nanoseconds_of(event.at)
        times.append(at + (event.seq - seq) * _MICROSECOND)
    return times


def _nanoseconds_of(at: datetime) -> int:
    passed = at - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * 1_000_000_000 + passed.microseconds * _MICROSECOND
