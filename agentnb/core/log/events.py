"""The events that make up a run: frozen facts in the past tense, in the order they happened.

A run log has one event per line. Everything a person sees is a fold over these; nothing else is recorded.
``TextDelta`` and ``ThinkingDelta`` go to watchers while a reply streams and are never stored: `ModelReplied` holds it whole. Of
an agent of others, `ReplyStreamed` holds batches of it before.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypeAlias

import msgspec

from agentnb.advice import PYTHON, AnyAdvice, Commands, Invocation, in_python, pieces
from agentnb.core.compaction import Compacted, WhyCompacted
from agentnb.core.display_data import Table
from agentnb.core.guidance import Guidance, GuidanceTexts
from agentnb.core.log import work_events as w
from agentnb.core.log.event import EndStatus, Noted
from agentnb.core.log.event import Event as Event  # noqa: PLC0414  # handed on: readers of events need only this module
from agentnb.core.log.event import RoundStatus as RoundStatus  # noqa: PLC0414  # likewise
from agentnb.core.log.event import Status as Status  # noqa: PLC0414  # likewise
from agentnb.core.log.outcome import Assessment
from agentnb.core.messages import Message, Text, Thinking, ToolCall, ToolResult, user
from agentnb.core.questions import Answerer, WaitingOnUser
from agentnb.core.request import ToolSpec
from agentnb.core.schema.counts import LARGEST, Count
from agentnb.core.todos import Todo
from agentnb.core.usage import NOTHING_USED, UNKNOWN, Usage

Consent: TypeAlias = Literal["", "taken", "refused"]
"""The person's decision about the approvals and answers in a log from elsewhere: ``taken``, they count; ``refused``, they are
void, and the person is asked again. Empty for a log that the person's agentnb wrote."""
Topic: TypeAlias = Literal["", "todos", "filled"]
"""The subject of a warning that views treat in their own way: ``filled``, how gaps of a foreign trace were filled."""
SCHEMA = 9
"""Version of the log's schema; a reader refuses newer logs and reads older ones.

Each new kind of event makes a new version: 2 added questions, 3 compaction and recovery, 4 extra usage, 5 steps, plans,
findings, other model calls, suspension, and what a run says of itself; 6 the tool calls of steps, grants; 7 advice as values;
8 outcomes; 9 the mode ``auto``, which was the word for none, and rules.
"""


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """The next characters of a streaming reply. Live only."""

    text: str


class ToolProgress(msgspec.Struct, frozen=True, gc=False):
    """A running tool reported how far it has come. Live only: the last of them stands in `ToolFinished`."""

    call_id: str
    progress: Progress


class ToolPrinted(msgspec.Struct, frozen=True, gc=False):
    """A running tool has printed more. Live only; ``text`` is the end of all that it printed so far."""

    call_id: str
    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, gc=False):
    """The next characters of the model's thinking. Live only."""

    text: str


class Origin(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Where a run was read from that another product recorded."""

    format: str
    """The name of the trace format."""
    file: str = ""
    position: str = ""
    """Its place in the file, such as the index of the run; empty if the file holds one run."""
    task: str = ""
    """Id of the task of a benchmark that the run worked on, if the trace names it."""
    trial: str = ""
    """Which attempt at its task it was, if the trace says so."""
    benchmark: str = ""
    """The benchmark that the task is part of, or its file if the trace does not name it; empty if ids of tasks are unique."""
    usage: Usage | None = None
    """Usage of the whole run, if the trace reports more than its replies do; else None."""
    has_nested_cost: bool = False
    """Whether the cost in ``usage`` includes that of nested runs."""
    stated: Usage | None = None
    """Usage of the whole run as the trace sums it up, whatever its replies report; None if it does not."""

    @property
    def file_name(self) -> str:
        """The name of the file without its folders, wherever it was read."""
        return self.file.replace("\\", "/").rpartition("/")[2]


class ForkedFrom(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The run that a fork repeats up to a round, from which on it goes its own way."""

    run_id: str
    round: Count
    """Index of the first round that the fork made itself."""


class RunStarted(Event, frozen=True, kw_only=True, tag="run_started"):
    """A run began. Holds everything it began with, so that the log alone tells the whole story."""

    schema: Annotated[int, msgspec.Meta(ge=1)]
    run_kind: str = "agent"
    """What kind of run it is: agent, workflow, plan, judge, or a word of an extension."""
    prompt: Message
    agent: str = "agent"
    model: str
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    guidance: dict[str, str] = msgspec.field(default_factory=dict)
    """The texts of its guidance set by part, as they were when it began."""
    tags: tuple[str, ...] = ()
    """Free words by which the person finds it again."""
    origin: Origin | None = None
    forked_from: ForkedFrom | None = None
    conversation: str = ""
    """Id of the first run of its conversation; empty if that is this run."""
    context_type: str = ""
    """The kind of task, if it was named: the scope that the run works in."""
    entity: str = ""
    """Id of the thing that the task is about, such as a project."""
    notebook: str = ""
    """The notebook it was started from, if that is known: relative to its kernel's folder, or a whole path."""
    invocation: Invocation | None = None
    """The options of the cell or command that started it; None if Python code did."""
    continued_from: str | None = None
    history: tuple[Message, ...] = ()
    """The conversation that the run continues."""
    todos: tuple[Todo, ...] = ()
    """The todo list that the run continues."""
    carried_todos: tuple[Todo, ...] = msgspec.field(default=(), name="resting_todos")
    """The conversation's todo list if this run keeps none: it is passed on to the next run."""
    compacted: Compacted | None = None
    """How the continued conversation is sent, if it was compacted."""


class RoundStarted(Event, frozen=True, kw_only=True, tag="round_started", gc=False):
    """A round began. ``reason``: prompt, tool_results, said, or a policy's reason to continue."""

    index: int
    reason: str
    before: RoundStatus = ""
    """The status of the round before, if the reason to continue changes it."""
    continuation: str = ""
    """The message to the model in the person's place, if nothing else asks it to continue."""
    note: str = ""
    """The line that tells the model where the run stands, for this request only."""


class GuidanceGiven(Event, Noted, frozen=True, kw_only=True, tag="guidance_given", gc=False):
    """Ephemeral guidance was given: the model gets it with the next request only."""

    guidance: Guidance


class RetryScheduled(Event, Noted, frozen=True, kw_only=True, tag="retry_scheduled", gc=False):
    """A model call failed with a transient error, and is retried after ``seconds``.

    ``attempt`` is the one that failed, counted from 1 (0: none was made yet, the call waited for others); ``reason`` says why,
    in one sentence; ``status`` is the HTTP status, if there was one; ``heard`` is the part of the reply that came before it
    broke off, which the next attempt replaces.
    """

    attempt: Count
    seconds: float
    reason: str
    status: Count | None = None
    heard: str = ""


class CompactionStarted(Event, frozen=True, kw_only=True, tag="compaction_started", gc=False):
    """The conversation is too long to be sent whole: a summary of ``messages`` messages from its middle is being written."""

    why: WhyCompacted
    messages: int


class ContextCompacted(Event, frozen=True, kw_only=True, tag="context_compacted", gc=False):
    """From here on a summary is sent in place of the conversation's middle. ``problem`` says why there is no summary, if so."""

    why: WhyCompacted
    compacted: Compacted
    usage: Usage = NOTHING_USED
    """Usage of the model call that wrote the summary; nothing if no model was called."""
    seconds: float | None = 0.0
    problem: str = ""


class ExtraUsage(Event, Noted, frozen=True, kw_only=True, tag="spent_besides", gc=False):
    """Usage outside the replies of the rounds, logged at once because the process may die.

    ``usage``: the approximate usage of a model call of which nothing is kept, such as a summary that was stopped, or a reply
    that broke off in its thinking. ``nested_run`` and ``nested``: a run nested in this one, at any depth, and the usage of its
    own model calls since the last such event; ``inside``: US dollars of those with a known price. Earlier versions logged
    ``inside`` alone.
    """

    inside: float = 0.0
    usage: Usage = NOTHING_USED
    nested_run: str = ""
    nested: Usage = NOTHING_USED


class ModelReplied(Event, frozen=True, kw_only=True, tag="model_replied", gc=False):
    """The model's whole reply; ``stop_reason`` in the provider's words, ``broken_off`` if the stream was cut.

    ``signals`` are the markers that were removed from its text: complete, continue, stop.
    """

    message: Message
    usage: Usage = UNKNOWN
    stop_reason: str = ""
    seconds: float | None = 0.0
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    signals: tuple[str, ...] = ()


class ReplyStreamed(Event, frozen=True, kw_only=True, tag="reply_streamed", gc=False):
    """The next part of a reply that is not whole yet, logged because no request can bring it again.

    `ModelReplied` replaces all of them; if the process dies before that, they are the reply, which was broken off.
    """

    parts: tuple[Text | Thinking, ...]
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    """Metadata of the reply, as far as it is known."""


class ToolAdmitted(Event, frozen=True, kw_only=True, tag="tool_admitted", gc=False):
    """A tool call was judged and waits for the person to approve it; ``reason`` is the rule of the gate that asks.

    It is written only for a call that does not start at once: `ToolStarted` follows when it does, or `CallBlocked`.
    """

    call: ToolCall
    reason: str = ""
    parent_call: str = ""
    """Id of the call whose tool made this one; empty if the model or a step made it."""
    step: str = ""
    """Path of the step that made the call; empty if the model or a tool made it."""


class ToolStarted(Event, frozen=True, kw_only=True, tag="tool_started", gc=False):
    """A tool call began. ``call`` is the form in which it runs; ``edited``: the person changed its arguments."""

    call: ToolCall
    edited: bool = False
    parent_call: str = ""
    step: str = ""


class Progress(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How far a tool has come: ``done`` of ``total`` steps (None: unknown), and what it is doing."""

    done: float
    total: float | None = None
    text: str = ""


class NestedStart(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A run that a tool began: its id, and the name of its agent."""

    run_id: str
    agent: str = ""


class ToolFinished(Event, frozen=True, kw_only=True, tag="tool_finished", gc=False):
    """A tool call has its result. ``seconds`` is the time the tool itself took; ``traceback`` is of the user's code.

    ``display`` is the table that the tool returned, if it did, for display; the model gets the text of ``result``.
    ``progress`` is the last that the tool reported; ``printed``: the end of what it printed in a notebook; ``nested``: the runs
    that it began, in order.
    """

    result: ToolResult
    seconds: float | None = 0.0
    traceback: str = ""
    display: Table | None = None
    progress: Progress | None = None
    parent_call: str = ""
    printed: str = ""
    step: str = ""
    nested: tuple[NestedStart, ...] = ()


class CallBlocked(Event, frozen=True, kw_only=True, tag="call_blocked", gc=False):
    """A gate blocked a tool call. ``result`` is the call's one result, ``rule`` says why."""

    call: ToolCall
    result: ToolResult
    rule: str
    parent_call: str = ""
    step: str = ""


class TodosChanged(Event, Noted, frozen=True, kw_only=True, tag="todos_changed", gc=False):
    """The todo list changed. ``by``: the model (``call_id`` says with which call), or outside, such as the person."""

    todos: tuple[Todo, ...]
    by: Literal["model", "outside"]
    call_id: str = ""


class QuestionAsked(Event, frozen=True, kw_only=True, tag="question_asked"):
    """The person was asked a question, and the run waits for the answer."""

    question: WaitingOnUser


class QuestionAnswered(Event, frozen=True, kw_only=True, tag="question_answered"):
    """A question was closed: the person answered it, ``declined`` to, or it was ``withdrawn``.

    ``cancelled``: it was declined by closing it without a decision. Versions that do not know the field read it as declined.

    It is withdrawn when the answer is no longer needed: the tool call that asked has ended, or was stopped.
    """

    question_id: str
    answer: Any = None
    declined: bool = False
    withdrawn: bool = False
    by: Answerer = "person"
    cancelled: bool = False


class LoopDetected(Event, Noted, frozen=True, kw_only=True, tag="loop_detected", gc=False):
    """The run repeats itself in the rounds ``first`` to ``last``. ``sentence`` says how."""

    rule: str
    first: Count
    last: Count
    sentence: str
    severity: Literal["notice", "nudge", "block", "stop"] = "stop"


class RoundFinished(Event, frozen=True, kw_only=True, tag="round_finished", gc=False):
    """The round is over: each of its tool calls has a result.

    ``spent_inside``: US dollars spent by its nested runs, in logs of earlier versions; now they are in `ExtraUsage`.
    """

    index: int
    status: RoundStatus
    seconds: float | None = 0.0
    spent_inside: float = 0.0


class LimitReached(Event, Noted, frozen=True, kw_only=True, tag="limit_reached", gc=False):
    """A limit of the agent ended the run; ``limit`` is its name and the stop reason, ``value`` what it was set to."""

    limit: str
    value: float


class CommandReceived(Event, frozen=True, kw_only=True, tag="command_received", gc=False):
    """The person, or in traces the environment, sent a message or a command during the run."""

    command: Literal["stop", "pause", "resume", "suspend", "say"]
    text: str = ""
    message: Message | None = None
    """The whole message, where it is more than its text: with pictures, or an author."""
    by_person: bool = True
    """False for a message of the environment, such as a notice that a background task has ended."""

    @property
    def user_message(self) -> Message | None:  # type: ignore[override]  # other kinds have none
        """The message, if the command is one."""
        return (self.message or user(self.text)) if self.command == "say" else None

    @property
    def person_message(self) -> Message | None:  # type: ignore[override]
        """The message, if it is one of the person."""
        return self.user_message if self.by_person else None


class RunSuspended(Event, frozen=True, kw_only=True, tag="run_suspended", gc=False):
    """The run waits for the person without a process: its log is closed, and an answer resumes it."""

    why: str = ""
    """nobody_here, or asked: the person put it aside."""


class RunRecovered(Event, frozen=True, kw_only=True, tag="run_recovered", gc=False):
    """The process of the run had died, or the run was suspended, and another process resumes it.

    ``schema``: the version that writes from here on; ``approve``: the approval mode, ``permissions``: the rules, ``guidance``:
    the guidance set from here on, if another was given.
    """

    schema: Annotated[int, msgspec.Meta(ge=1)]
    approve: str = ""
    permissions: list[dict[str, Any]] | None = None
    consent: Consent = ""
    guidance: GuidanceTexts | None = None


class Warned(Event, Noted, frozen=True, kw_only=True, tag="warned", gc=False):
    """A warning to the person; it stops nothing."""

    message: str
    advice: tuple[AnyAdvice, ...] = ()
    topic: Topic = ""

    def __str__(self) -> str:
        return self.worded(PYTHON)

    def worded(self, commands: Commands) -> str:
        """Return the warning and what to do, in the words of a surface."""
        return "".join(pieces(self.message, self.advice, commands))


class RunError(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Why a run failed: the class of the error, what is wrong, and what to do next; ``traceback`` of the person's own model."""

    type: str
    message: str
    advice: tuple[AnyAdvice, ...] = ()
    traceback: str = ""
    logged_hint: str = msgspec.field(default="", name="hint")
    """The advice as a sentence, in logs up to schema 6; `older_logs` lifts it to values."""

    @property
    def hint(self) -> str:
        """What to do next, in words for Python."""
        return in_python(self.advice)

    def __str__(self) -> str:
        return "".join(pieces(self.message, self.advice, PYTHON))


class ErrorRaised(Event, Noted, frozen=True, kw_only=True, tag="error_raised", gc=False):
    """An error ended the run. ``where``: model, store, reply or agentnb."""

    error: RunError
    where: str
    component: str = ""
    """The part that failed: loop, workflow, store or mcp; empty if unknown."""
    stage: str = ""
    """Its stage: start, model_call, compaction, tool_call or reply; planning, plan_execution or step; empty where the
    log does not say it."""
    tool: str = ""
    """The name of the tool that ran, if one did."""


class Totals(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What the events before the end of a stored run add up to, for a list of runs: it then reads no line between.

    They hold as long as the log is as it was written, ``size`` bytes before its last line; nothing else is made of them.
    """

    size: Count
    rounds: Count
    usage: Usage
    """Of its own model calls."""
    recovered: Count = 0
    steps: Count = 0
    """Those of a workflow; 0 also in logs of earlier versions."""
    inside: Annotated[float, msgspec.Meta(ge=0, le=LARGEST)] = 0.0
    """US dollars that nested runs have spent; in logs of earlier versions, those of a workflow."""
    nested: Usage | None = None
    """Usage of all nested runs; None if no model was called in one, and in logs of earlier versions."""
    assessment: Assessment | None = None
    """The assessment that decides the outcome; None without any."""
    limit_value: float | None = None
    """Value of the limit that ended the run."""
    todos_open: bool | None = None
    """True if todos of its list are not completed; None in logs of earlier versions."""
    failed_calls: Count | None = None
    """Calls of the model and of steps that failed; None in logs of earlier versions."""
    blocked_calls: Count = 0
    """Such calls that a gate, a limit or the person refused."""
    plan_rejected: bool = False
    """True if its last plan was rejected."""


class RunFinished(Event, frozen=True, kw_only=True, tag="run_finished", gc=False):
    """The last event of a run. ``last_round``: the status of its last round, if the reason to stop changes it."""

    status: EndStatus
    stop_reason: str
    last_round: RoundStatus = ""
    seconds: float | None = 0.0
    totals: Totals | None = None
    """None if no store kept the run, and in logs of earlier versions."""


StreamEnd: TypeAlias = ModelReplied | RetryScheduled
"""The events that end what streams of a reply: it is whole, or the next attempt replaces it."""
BeforeReply: TypeAlias = GuidanceGiven | RetryScheduled | CompactionStarted | ContextCompacted
"""The events of a round that prepare its reply."""
CallEvent: TypeAlias = ToolAdmitted | ToolStarted | CallBlocked
"""The events that hold a tool call."""
CallEnd: TypeAlias = ToolFinished | CallBlocked
"""The events that hold the result of a tool call."""
Found: TypeAlias = LoopDetected | w.FindingMade
"""The events that say what was found in some rounds."""
ScopeSet: TypeAlias = RunStarted | w.ContextShifted
"""The events that hold the context type and the entity from there on."""
RunEnd: TypeAlias = RunFinished | RunSuspended
"""The events that close the log of a run."""
ToolsOffered: TypeAlias = RunStarted | w.ToolsChanged
"""The events that hold the tools as the model sees them from there on."""
AnyEvent: TypeAlias = (
    RunStarted
    | RoundStarted
    | BeforeReply
    | ExtraUsage
    | ModelReplied
    | ReplyStreamed
    | ToolAdmitted
    | ToolStarted
    | CallEnd
    | TodosChanged
    | QuestionAsked
    | QuestionAnswered
    | RoundFinished
    | LoopDetected
    | LimitReached
    | CommandReceived
    | RunSuspended
    | RunRecovered
    | Warned
    | ErrorRaised
    | RunFinished
    | w.WorkEvent
)
ReplyDelta: TypeAlias = TextDelta | ThinkingDelta
"""The next part of a reply that streams."""
Delta: TypeAlias = ReplyDelta | ToolProgress | ToolPrinted
"""What watchers get live and no log keeps."""
KINDS: tuple[type[Event], ...] = AnyEvent.__args__
"""All kinds of events, in the order above."""
