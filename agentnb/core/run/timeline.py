"""The timeline of a run: its rounds, model calls, attempts, waits, compactions, tool calls, steps and pauses.

Each part has its first and last event, with their times in ``at`` (None if not in the log). Read by tables, plots and exports.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.handlers import Handlers
from agentnb.core.messages import ToolCall
from agentnb.core.run.facts import RunFacts
from agentnb.core.run.rounds import FINAL_ANSWER
from agentnb.core.usage import NOTHING_USED, Usage

CHAT, COMPACTION = "chat", "compaction"
"""Operations of model calls: in rounds, as named by OpenTelemetry, and for summaries."""
PLANNER_STREAM = "planner_stream"
"""Operation of the model calls in the rounds of a run with a profile."""
JUDGE = "judge"
"""Operation of the model calls in the rounds of a run that judges another, and name of the extension that marks it in its
log."""
CLARIFY_BLANK = "clarify_blank"
"""Operation of the canned answer to a blank message, made without a model, and the stop reason of its run."""
OVERFLOW = "overflow"
"""Reason for a compaction after a call was rejected as too long."""
TOO_LONG = "The conversation exceeded the model's context window; it was compacted and sent again"
INTERRUPTED = "interrupted"
"""Problem of a summary whose process died."""


class Part(msgspec.Struct, frozen=True, gc=False):
    """A part of a run."""

    begun: e.AnyEvent | None
    """The first event, or None if not logged."""
    ended: e.AnyEvent | None
    """The last event, or None while the part is open, or if the log ends earlier."""


def first_seq(part: Part) -> int:
    """Return the sequence number of a part's first event."""
    event = part.begun or part.ended
    return -1 if event is None else event.seq


class Round(Part, frozen=True, gc=False):
    """A round, from `RoundStarted` to `RoundFinished`."""

    begun: e.RoundStarted | None
    ended: e.RoundFinished | None


class ModelCall(Part, frozen=True, gc=False):
    """A model call with all its attempts. A call outside the rounds has only its end, `ModelCalled`."""

    round: int | None
    """Index of the round, or None before the first."""
    operation: str
    retries: tuple[e.RetryScheduled, ...] = ()
    usage: Usage | None = None
    """Usage not recorded in the event that ends the call, such as that of a discarded reply."""
    problem: str = ""
    """The reason for a failure that did not end the run."""

    @property
    def side_call(self) -> w.ModelCalled | None:
        """The event that ends the call, if the call is outside the rounds."""
        return self.ended if isinstance(self.ended, w.ModelCalled) else None

    @property
    def is_refused(self) -> bool:
        """True if the call was refused because the conversation was too long."""
        return isinstance(self.ended, e.CompactionStarted)

    @property
    def summary(self) -> e.ContextCompacted | None:
        """The event that ends the call, if the call wrote a summary."""
        return self.ended if isinstance(self.ended, e.ContextCompacted) else None


class Attempt(Part, frozen=True, gc=False):
    """An attempt at a round's model call; ``begun`` is the `RetryScheduled` before it, if any."""


class Wait(Part, frozen=True, gc=False):
    """The wait before another attempt, from `RetryScheduled` to the event that ends it."""

    begun: e.RetryScheduled


class Compaction(Part, frozen=True, gc=False):
    """A compaction of the conversation, with or without a model call."""

    begun: e.CompactionStarted | None
    ended: e.ContextCompacted | None


class Tool(Part, frozen=True, gc=False):
    """A tool call by any caller. A blocked call ends with `CallBlocked`; it has a start only if a process started it and then
    died.
    """

    begun: e.ToolStarted | None
    ended: e.CallEnd | None
    call: ToolCall | None
    """The call, or None for a result whose call is not in the log."""

    @property
    def call_id(self) -> str:
        """Id of the call."""
        return self.ended.result.call_id if self.ended is not None else "" if self.call is None else self.call.id

    @property
    def is_blocked(self) -> bool:
        """True if a gate blocked the call."""
        return isinstance(self.ended, e.CallBlocked)


class Step(Part, frozen=True, gc=False):
    """An attempt at a step; a skipped step has only its end."""

    begun: w.StepStarted | None
    ended: w.StepEnd | None

    @property
    def status(self) -> str:
        """The result of the attempt: open, completed, failed, cancelled, retried or skipped."""
        return "open" if self.ended is None else self.ended.status


class Pause(Part, frozen=True, gc=False):
    """A pause by the person."""


of_rounds, of_tools, of_steps, of_pauses = Handlers(), Handlers(), Handlers(), Handlers()
"""Handlers of the events that begin or end parts."""
_TAKES: dict[type[Part], Handlers] = {Tool: of_tools, Step: of_steps, Pause: of_pauses}
"""Handlers by kind of part; all other kinds use `of_rounds`."""


def timeline(run: RunFacts, *kinds: type[Part]) -> list[Part]:
    """Return the parts of a run, optionally only of these kinds, in the order of their ends, followed by the open ones."""
    fold, handler_for = _Timeline(run.profile), _takes(kinds).get
    for event in run.events:
        handler = handler_for(type(event))
        if handler is not None:
            handler(fold, event)
    fold.close()
    return [part for part in fold.parts if type(part) in kinds] if kinds else fold.parts


def pending_retry(run: RunFacts) -> e.RetryScheduled | None:
    """Return the retry for which the run waits, if any."""
    last = run.events[-1] if run.events else None
    return last if isinstance(last, e.RetryScheduled) else None


class _Timeline:
    """The open and the finished parts of a run."""

    def __init__(self, profile: str = "") -> None:
        self.parts: list[Part] = []
        self._in_rounds = PLANNER_STREAM if profile else CHAT
        self._round: e.RoundStarted | None = None
        self._is_round_open = self._has_chat = False
        self._round_end: e.RoundFinished | None = None
        self._sent: e.AnyEvent | None = None
        """The event after which the request of the round could be sent."""
        self._attempt: e.AnyEvent | None = None
        self._wait: e.RetryScheduled | None = None
        self._retries: list[e.RetryScheduled] = []
        """Retries of the round's own call."""
        self._unkept: Usage | None = None
        """Usage of a discarded reply of the round."""
        self._compaction: e.CompactionStarted | None = None
        self._summary: e.CompactionStarted | None = None
        self._summary_retries: list[e.RetryScheduled] = []
        self._summary_usage: Usage | None = None
        """Usage of a stopped summary."""
        self._reply: e.ModelReplied | None = None
        self._tools: dict[str, e.ToolStarted] = {}
        self._steps: dict[str, w.StepStarted] = {}
        self._pause: e.CommandReceived | None = None

    # Rounds and their model calls

    @of_rounds
    def round_started(self, event: e.RoundStarted) -> None:
        """Begin a round and its first attempt."""
        self._end_chat()
        if self._round is not None:
            self._unkept = None
        self._round = self._sent = self._attempt = event
        self._is_round_open = self._has_chat = True
        self._round_end, self._retries = None, []

    @of_rounds
    @of_tools
    def model_replied(self, event: e.ModelReplied) -> None:
        """End the model call of the round."""
        self._end_wait(event)
        self.parts.append(Attempt(self._attempt, event))
        self._attempt = None
        self._reply = event
        self._end_chat(event)

    @of_rounds
    def round_finished(self, event: e.RoundFinished) -> None:
        """End the round, and an attempt without a reply."""
        self._end_wait(event)
        self._end_attempt(event)
        self._is_round_open, self._round_end = False, event
        self.parts.append(Round(self._round, event))

    @of_rounds
    def retry_scheduled(self, event: e.RetryScheduled) -> None:
        """End a failed attempt, and begin the wait before the next."""
        self._end_wait(event)
        self._wait = event
        if self._attempt is not None:
            if event.attempt > 0:
                self.parts.append(Attempt(self._attempt, event))
            self._attempt = event
        (self._retries if self._summary is None else self._summary_retries).append(event)

    @of_rounds
    def compaction_started(self, event: e.CompactionStarted) -> None:
        """Begin a compaction, ending a call that was refused as too long."""
        self._end_wait(event)
        if event.why == OVERFLOW:
            self._add_call(self._sent, event, self._chat(), self._retries, problem=TOO_LONG)
            self._retries = []
        self._compaction = self._summary = event
        self._summary_retries, self._summary_usage, self._attempt = [], None, None

    @of_rounds
    def context_compacted(self, event: e.ContextCompacted) -> None:
        """End a compaction: the request can be sent now."""
        self._end_wait(event)
        self.parts.append(Compaction(self._compaction, event))
        self._compaction, self._attempt, self._sent = None, event, event
        by_model = bool(event.problem) or event.usage != NOTHING_USED
        self._end_summary(event, event.problem, by_model=by_model)

    @of_rounds
    def extra_usage(self, event: e.ExtraUsage) -> None:
        """Record the usage of a discarded reply or summary."""
        if event.usage == NOTHING_USED:
            return
        if self._summary is None:
            self._unkept = event.usage
        else:
            self._summary_usage = event.usage

    @of_rounds
    def run_recovered(self, event: e.RunRecovered) -> None:
        """End a summary whose process died."""
        self._end_wait(event)
        self._end_summary(event, INTERRUPTED)

    @of_rounds
    def model_called(self, event: w.ModelCalled) -> None:
        """Add a call outside the rounds."""
        self._add_call(None, event, event.operation, (), problem=event.error)

    @of_rounds
    def run_finished(self, event: e.RunFinished) -> None:
        """End a wait cut short by the end of the run."""
        self._end_wait(event)

    # Tools, steps and pauses

    @of_tools
    def tool_started(self, event: e.ToolStarted) -> None:
        """Begin a tool call."""
        self._tools[event.call.id] = event

    @of_tools
    def tool_finished(self, event: e.ToolFinished) -> None:
        """End a tool call."""
        call_id = event.result.call_id
        begun = self._tools.pop(call_id, None)
        self.parts.append(Tool(begun, event, self._replied_call(call_id) if begun is None else begun.call))

    def _replied_call(self, call_id: str) -> ToolCall | None:
        """Return the call with this id in the last reply."""
        calls = () if self._reply is None else self._reply.message.calls
        return next((call for call in calls if call.id == call_id), None)

    @of_tools
    def call_blocked(self, event: e.CallBlocked) -> None:
        """Add a blocked call."""
        self.parts.append(Tool(self._tools.pop(event.call.id, None), event, event.call))

    @of_steps
    def step_started(self, event: w.StepStarted) -> None:
        """Begin an attempt at a step."""
        self._steps[event.step] = event

    @of_steps
    def step_ended(self, event: w.StepEnd) -> None:
        """End an attempt at a step."""
        self.parts.append(Step(self._steps.pop(event.step, None), event))

    @of_pauses
    def command_received(self, event: e.CommandReceived) -> None:
        """Begin or end a pause."""
        if event.command == "pause" and self._pause is None:
            self._pause = event
        elif self._pause is not None and event.command != "say":
            self.parts.append(Pause(self._pause, event))
            self._pause = None

    # Ends

    def close(self) -> None:
        """Add the parts that are still open at the end of the log."""
        self._end_wait(None)
        self._end_summary(None)
        self._end_attempt(None)
        self._end_chat()
        if self._is_round_open:
            self.parts.append(Round(self._round, None))
        self.parts += [Tool(begun, None, begun.call) for begun in self._tools.values()]
        self.parts += [Step(begun, None) for begun in self._steps.values()]
        if self._compaction is not None:
            self.parts.append(Compaction(self._compaction, None))
        if self._pause is not None:
            self.parts.append(Pause(self._pause, None))

    def _end_wait(self, event: e.AnyEvent | None) -> None:
        if self._wait is not None:
            self.parts.append(Wait(self._wait, event))
            self._wait = None

    def _end_attempt(self, event: e.AnyEvent | None) -> None:
        if self._attempt is not None:
            self.parts.append(Attempt(self._attempt, event))
            self._attempt = None

    def _end_chat(self, reply: e.ModelReplied | None = None) -> None:
        """Add the model call of the round, once; if there is no reply, it ends with the round."""
        if self._has_chat:
            self._has_chat = False
            self._add_call(self._sent, reply or self._round_end, self._chat(), self._retries, self._unkept)

    def _end_summary(self, event: e.AnyEvent | None, problem: str = "", *, by_model: bool = True) -> None:
        begun, self._summary = self._summary, None
        if begun is not None and by_model:
            self._add_call(begun, event, COMPACTION, self._summary_retries, self._summary_usage, problem)

    def _add_call(
        self,
        begun: e.AnyEvent | None,
        ended: e.AnyEvent | None,
        operation: str,
        retries: Any,
        usage: Usage | None = None,
        problem: str = "",
    ) -> None:
        index = None if self._round is None else self._round.index
        self.parts.append(ModelCall(begun, ended, index, operation, tuple(retries), usage, problem))

    def _chat(self) -> str:
        assert self._round is not None, "only a round has one"
        return FINAL_ANSWER if self._round.reason == FINAL_ANSWER else self._in_rounds


@cache
def _takes(kinds: tuple[type[Part], ...]) -> Handlers:
    """Return the handlers for parts of these kinds, or for all kinds if none are named."""
    tables = [_TAKES.get(kind, of_rounds) for kind in kinds] if kinds else [of_rounds, *_TAKES.values()]
    return Handlers({kind: take for table in tables for kind, take in table.items()})
