"""Validation of a log that was read: its events must form a run. Live runs skip it, because they write only valid events.

Times may go backwards, as clocks do. The checks cover what the fold, tables, cards and requests assume: the order, pairing and
ids of events. Bounds on single fields are part of their types; for single events, only rules that types cannot express are
checked here: roles of messages, nesting, settings of extensions, years, statuses of rounds (policies may define their own).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC
from typing import TypeAlias

from agentnb.core.compaction_records import Compacted
from agentnb.core.log import events as e
from agentnb.core.log import work_events as w
from agentnb.core.log.handlers import Handlers
from agentnb.core.log.well_formed_values import Wrong, check_depth, check_extensions, check_message, check_tools
from agentnb.core.log.wire import DAMAGED
from agentnb.core.messages import Image, Text, ToolCall, ToolResult
from agentnb.errors import TraceError

YEARS = range(1900, 9000)
"""Years whose times can be displayed in every time zone."""

AnyCallEvent: TypeAlias = e.CallEvent | e.CallEnd
CheckCall: TypeAlias = Callable[[AnyCallEvent, str], None]
"""Checks that an event belongs to the call with this id."""

checks = Handlers()


def check_events(events: Sequence[e.AnyEvent], source: str) -> None:
    """Raise `TraceError` with ``source``, line and reason unless these events, one per line, form a run."""
    reading = _Reading()
    try:
        if _heads_are_sound(events):
            reading.take_sound(events)
        else:
            for event in events:
                reading.take(event)
    except Wrong as wrong:
        raise reading.error(source, wrong) from None


def _heads_are_sound(events: Sequence[e.AnyEvent]) -> bool:
    """Check the fields shared by all kinds of events, for all events at once: checking them one by one would take most of the
    time.
    """
    if not events or type(events[0]) is not e.RunStarted:
        return False
    times = [event.at for event in events if event.at is not None]
    return (
        [event.seq for event in events] == [*range(len(events))]
        and e.RunStarted not in {*map(type, events[1:])}
        and e.RunFinished not in {*map(type, events[:-1])}
        and len({event.run_id for event in events}) == len({event.parent_id for event in events}) == 1
        and {at.tzinfo for at in times} <= {UTC}
        and (not times or (min(times).year in YEARS and max(times).year in YEARS))
    )


def checker(source: str) -> Callable[[e.AnyEvent], None]:
    """Return a function that checks the events of a log one by one and raises the same errors as `check_events`."""
    reading = _Reading()

    def check(event: e.AnyEvent) -> None:
        try:
            reading.take(event)
        except Wrong as wrong:
            raise reading.error(source, wrong) from None

    return check


class _Reading:
    """Validation state: the part of the run that the next event depends on."""

    def __init__(self) -> None:
        self.seq = 0
        self.run_id = ""
        self.parent_id: str | None = None
        self.over = False
        self.rounds = 0
        self.is_open = self.replied = self.has_calls = self.suspended = False
        self.messages = self.pending = 0
        self.calls: set[str] = set()
        """Ids of all calls in the run's own rounds."""
        self.unanswered: dict[str, None] = {}
        self.begun: set[str] = set()
        """Calls that began in this process and have no result yet."""
        self.inner: set[str] = set()
        """Calls made by tools that have no result yet."""
        self.questions: set[str] = set()
        self.steps: set[str] = set()
        """Paths of the open steps."""
        self.step_calls: dict[str, str] = {}
        """The steps of calls that have no result yet, by call id."""
        self.calling: Counter[str] = Counter()
        """Number of calls that have no result yet, by step."""

    def take(self, event: e.AnyEvent) -> None:
        """Check the event against all earlier events. Raises `Wrong`."""
        if event.seq != self.seq:
            raise Wrong(f"Event {event.seq} of run {event.run_id} is out of order: {self.seq} was expected")
        if self.over:
            raise Wrong(f"{_kind(event)} comes after the end of the run")
        kind = type(event)
        if self.seq == 0:
            self.run_id, self.parent_id = event.run_id, event.parent_id
        elif event.run_id != self.run_id or event.parent_id != self.parent_id:
            raise Wrong(f"{_kind(event)} belongs to another run, {event.run_id!r}")
        if (kind is e.RunStarted) != (self.seq == 0):
            raise Wrong("a log must begin with run_started and contain it only once")
        at = event.at
        if at is not None and at.year not in YEARS:
            raise Wrong(f"the time {at.isoformat()} is out of range")
        self.take_sound((event,))

    def take_sound(self, events: Iterable[e.AnyEvent]) -> None:
        """Run the checks specific to the kinds of these events. Raises `Wrong`."""
        check_of, first = checks.get, self.seq
        for self.seq, event in enumerate(events, first):
            check = check_of(type(event))
            if check is not None:
                check(self, event)
        self.seq += 1

    def error(self, source: str, wrong: Wrong) -> TraceError:
        """Return the error for the invalid event, with its line in the log."""
        return TraceError(f"{source}, line {self.seq + 1}: {wrong}", DAMAGED)

    # Checks shared by several kinds

    def in_round(self, event: e.Event) -> None:
        """Check that a round is open."""
        if not self.is_open:
            raise Wrong(f"{_kind(event)} comes while no round is open")

    @checks
    def before_reply(self, event: e.BeforeReply | e.ReplyStreamed | e.ModelReplied) -> None:
        """Check that the open round has no reply yet."""
        if not self.is_open or self.replied:
            self.in_round(event)
            raise Wrong(f"{_kind(event)} comes after the reply of its round")

    def call_is_open(self, event: e.Event, call_id: str) -> None:
        """Check that the open round has a call with this id, but no result for it yet."""
        if not self.is_open or call_id not in self.unanswered:
            self.in_round(event)
            problem = "already has a result" if call_id in self.calls else "was never made"
            raise Wrong(f"{_kind(event)} refers to the call {call_id!r}, which {problem}")

    def calls_of(self, event: AnyCallEvent) -> tuple[CheckCall, CheckCall]:
        """Return the two checks for an event's call, that it is open and that it ends: within the event's step, or else within
        the open round.
        """
        return (self.step_call_is_open, self.step_call_ends) if event.step else (self.call_is_open, self.call_ends)

    def step_call_is_open(self, event: AnyCallEvent, call_id: str) -> None:
        """Check that the step is open and that the call has no result. Also registers a new call."""
        step = event.step
        if step not in self.steps:
            raise Wrong(f"{_kind(event)} refers to a call of the step {step!r}, which is not open")
        if call_id not in self.step_calls:
            self.step_calls[call_id] = step
            self.calling[step] += 1
        elif self.step_calls[call_id] != step:
            raise Wrong(f"the call {call_id!r} belongs to the step {self.step_calls[call_id]!r}, not to {step!r}")

    def check_compacted(self, compacted: Compacted) -> None:
        """Check that a summary replaces existing messages."""
        if not compacted.first <= compacted.kept <= self.messages:
            bounds = f"{compacted.first} to {compacted.kept} of {self.messages}"
            raise Wrong(f"the summary replaces messages that do not exist: {bounds}")

    # Checks by kind

    @checks
    def tools_offered(self, event: e.ToolsOffered) -> None:
        """Check the schemas of the tools."""
        check_tools(event.tools)

    @checks
    def run_started(self, event: e.RunStarted) -> None:
        """Check the initial state of a run."""
        if event.prompt.role != "user":
            raise Wrong(f"the prompt has the role {event.prompt.role}, not user")
        # A workflow may run without a prompt; in a context, agentnb answers a blank prompt with a question.
        nonblank = any(isinstance(part, Image) or (isinstance(part, Text) and part.text.strip()) for part in event.prompt.parts)
        if event.run_kind == "agent" and not nonblank and not event.context_type:
            raise Wrong("the prompt is blank")
        for name in ("guidance", "policy", "history"):
            if not isinstance(event.settings.get(name, {}), dict):
                raise Wrong(f"settings.{name} is not an object")
        check_extensions(event.settings.get("extensions", []))
        check_depth("settings", event.settings)
        self.tools_offered(event)
        for message in (*event.history, event.prompt):
            check_message(message)
        self.messages = len(event.history) + 1
        if event.compacted is not None:
            self.check_compacted(event.compacted)

    @checks
    def round_started(self, event: e.RoundStarted) -> None:
        """Check that the round is the next one."""
        if self.is_open:
            raise Wrong(f"round {event.index} begins before round {self.rounds - 1} has ended")
        if event.index != self.rounds:
            raise Wrong(f"round {event.index} begins, but round {self.rounds} was expected")
        if event.before == "running":
            raise Wrong("the previous round cannot be running")
        self.rounds += 1
        self.is_open, self.replied = True, False
        self.messages += self.pending + bool(event.continuation)
        self.pending = 0

    @checks
    def retry_scheduled(self, event: e.RetryScheduled) -> None:
        """Check that a round, or a step that calls a model, is open."""
        if not self.steps:
            self.in_round(event)

    @checks
    def context_compacted(self, event: e.ContextCompacted) -> None:
        """Check a compaction before the reply of the open round."""
        self.before_reply(event)
        self.check_compacted(event.compacted)

    @checks
    def reply_streamed(self, event: e.ReplyStreamed) -> None:
        """Check a part of the reply of the open round."""
        self.before_reply(event)
        check_depth("metadata", event.metadata)

    @checks
    def model_replied(self, event: e.ModelReplied) -> None:
        """Check that the open round has no earlier reply, and that the reply's calls are new."""
        if not self.is_open or self.replied:
            self.before_reply(event)
        message = event.message
        if message.role != "assistant":
            raise Wrong(f"the reply has the role {message.role}, not assistant")
        check_message(message)
        if event.metadata:
            check_depth("metadata", event.metadata)
        for part in message.parts:
            if type(part) is ToolResult:
                raise Wrong("the reply contains a tool result")
            if type(part) is ToolCall:
                if part.id in self.calls:
                    raise Wrong(f"the call id {part.id!r} is used twice")
                self.calls.add(part.id)
                self.unanswered[part.id] = None
        self.replied, self.has_calls = True, bool(self.unanswered)
        self.messages += 1

    @checks
    def tool_admitted(self, event: e.ToolAdmitted) -> None:
        """Check that the call is open."""
        if not event.parent_call:
            is_open, _ = self.calls_of(event)
            is_open(event, event.call.id)
        check_depth("its arguments", event.call.arguments)

    @checks
    def tool_started(self, event: e.ToolStarted) -> None:
        """Check that the call is open and begins only once in this process."""
        if event.parent_call:
            self.inner_begins(event.parent_call)
            self.inner.add(event.call.id)
            return
        call_id = event.call.id
        is_open, _ = self.calls_of(event)
        is_open(event, call_id)
        if call_id in self.begun:
            raise Wrong(f"the call {call_id!r} begins twice")
        check_depth("its arguments", event.call.arguments)
        self.begun.add(call_id)

    @checks
    def tool_finished(self, event: e.ToolFinished) -> None:
        """Check that the result is the only one of an open call."""
        if event.parent_call:
            if event.result.call_id not in self.inner:
                raise Wrong(f"the result {event.result.call_id!r} has no matching inner call")
            self.inner.discard(event.result.call_id)
            return
        _, ends = self.calls_of(event)
        ends(event, event.result.call_id)

    @checks
    def call_blocked(self, event: e.CallBlocked) -> None:
        """Check that the call is open and has not begun."""
        if event.parent_call:
            self.inner_begins(event.parent_call)
            return
        is_open, ends = self.calls_of(event)
        is_open(event, event.call.id)
        if event.call.id in self.begun:
            raise Wrong(f"the call {event.call.id!r} is blocked after it began")
        if event.result.call_id != event.call.id:
            raise Wrong(f"the result of the blocked call {event.call.id!r} belongs to another call, {event.result.call_id!r}")
        ends(event, event.call.id)

    def call_ends(self, event: AnyCallEvent, call_id: str) -> None:
        """Check that the open round has this call but no result for it yet."""
        self.call_is_open(event, call_id)
        del self.unanswered[call_id]

    def step_call_ends(self, event: AnyCallEvent, call_id: str) -> None:
        """Check that the step made this call and that it has no result yet."""
        if self.step_calls.pop(call_id, None) != event.step:
            raise Wrong(f"{_kind(event)} refers to the call {call_id!r}, which is not open in its step {event.step!r}")
        self.calling[event.step] -= 1
        self.begun.discard(call_id)

    def inner_begins(self, parent: str) -> None:
        """Check that the parent call is running, since its tool is making another call."""
        if parent not in self.begun and parent not in self.inner:
            raise Wrong(f"a call was made by the tool of {parent!r}, which is not running")

    @checks
    def round_finished(self, event: e.RoundFinished) -> None:
        """Check that the open round ends with a result for every call."""
        self.in_round(event)
        if event.index != self.rounds - 1:
            raise Wrong(f"round {event.index} ends while round {self.rounds - 1} is open")
        if event.status in ("running", ""):
            raise Wrong(f"a round cannot end as {event.status!r}")
        if self.unanswered:
            raise Wrong(f"the call {next(iter(self.unanswered))!r} has no result at the end of its round")
        self.messages += self.has_calls
        self.is_open = self.has_calls = False
        self.begun.clear()
        self.inner.clear()

    @checks
    def question_asked(self, event: e.QuestionAsked) -> None:
        """Check that no open question has the same id."""
        if event.question.id in self.questions:
            raise Wrong(f"the question {event.question.id!r} is asked twice")
        check_depth("the schema of its answer", event.question.schema)
        self.questions.add(event.question.id)

    @checks
    def question_answered(self, event: e.QuestionAnswered) -> None:
        """Check that the question is open."""
        if event.question_id not in self.questions:
            raise Wrong(f"the question {event.question_id!r} is not open")
        check_depth("the answer", event.answer)
        self.questions.remove(event.question_id)

    @checks
    def rounds_named(self, event: e.Found) -> None:
        """Check that the rounds are in order."""
        if event.first > event.last:
            raise Wrong(f"{_kind(event)} names rounds in the wrong order: {event.first} to {event.last}")
        check_depth("evidence", getattr(event, "evidence", None))

    @checks
    def command_received(self, event: e.CommandReceived) -> None:
        """Count the person's messages."""
        if event.message is not None:
            if event.message.role != "user":
                raise Wrong(f"the sent message has the role {event.message.role}, not user")
            check_message(event.message)
        self.pending += event.command == "say"

    @checks
    def run_suspended(self, event: e.RunSuspended) -> None:
        """Record that the open questions outlive the process."""
        self.suspended = True

    @checks
    def run_recovered(self, event: e.RunRecovered) -> None:
        """Check the version, and close the questions of a process that died; its calls may begin again."""
        if event.schema > e.SCHEMA:
            raise Wrong(f"unknown schema {event.schema}")
        if not self.suspended or event.consent == "refused":
            self.questions.clear()
        self.suspended = False
        self.begun.clear()
        self.inner.clear()

    @checks
    def run_finished(self, event: e.RunFinished) -> None:
        """Check that all rounds have ended before the run."""
        if self.is_open:
            raise Wrong(f"the run ends before round {self.rounds - 1} has ended")
        if event.last_round == "running":
            raise Wrong("the last round cannot be running at the end of the run")
        self.over = True

    @checks
    def reply_given(self, event: w.ReplyGiven) -> None:
        """Check that the message is from the assistant and has no calls."""
        check_message(event.message)
        if event.message.role != "assistant" or event.message.calls:
            raise Wrong("a reply without a model must be an assistant message without calls")

    @checks
    def plain_data(self, event: w.ResultGiven | w.PlanEvent | w.StepEvent | w.OtherEvent) -> None:
        """Check the depth of free-form data."""
        for name in event.__struct_fields__[_IN_EVERY_EVENT:]:
            check_depth(name, getattr(event, name))

    @checks
    def step_started(self, event: w.StepStarted) -> None:
        """Open the step and check its data."""
        self.plain_data(event)
        self.steps.add(event.step)

    @checks
    def step_ended(self, event: w.StepFinished | w.StepAttempted) -> None:
        """Check the data of the step, and that each of its calls has a result."""
        self.plain_data(event)
        if self.calling[event.step]:
            raise Wrong(f"the step {event.step!r} ends before its call has a result")
        self.steps.discard(event.step)


_IN_EVERY_EVENT = len(e.Event.__struct_fields__)


def _kind(event: e.Event) -> str:
    return str(event.__struct_config__.tag)
