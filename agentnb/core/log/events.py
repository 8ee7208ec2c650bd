"""The events of a run: immutable, named in the past tense, in order of occurrence.

A run log has one event per line. All views are folds over these events; nothing else is recorded. ``TextDelta`` and
``ThinkingDelta`` go to watchers while a reply streams and are not stored: `ModelReplied` holds the complete reply. For an
external agent, `ReplyStreamed` stores batches of the reply before that.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal, TypeAlias

import msgspec

from agentnb.advice import PYTHON, AnyAdvice, Commands, Invocation, in_python, pieces
from agentnb.core.compaction_records import Compacted, WhyCompacted
from agentnb.core.display_data import Table
from agentnb.core.guidance import Guidance, GuidanceTexts
from agentnb.core.log import work_events as w
from agentnb.core.log.event import EndStatus, Noted
from agentnb.core.log.event import Event as Event  # noqa: PLC0414  # re-exported: readers of events need only this module
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
"""The person's decision about approvals and answers in an imported log: ``taken`` accepts them; ``refused`` voids them, and the
person is asked again. Empty for a log written by the person's own agentnb."""
Topic: TypeAlias = Literal["", "todos", "filled"]
"""The subject of a warning that views treat specially; ``filled`` is for gaps filled in another product's trace."""
SCHEMA = 9
"""Version of the log schema. Readers reject newer logs and accept older ones.

Each new kind of event increments the version: 2 added questions; 3 compaction and recovery; 4 extra usage; 5 steps, plans,
findings, other model calls, suspension, and the run's own assessments; 6 tool calls of steps, and grants; 7 advice as values; 8
outcomes; 9 rules, and ``auto`` as a separate mode (previously, it meant no mode)."""


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """The next piece of text in a streaming reply. Live only."""

    text: str


class ToolProgress(msgspec.Struct, frozen=True, gc=False):
    """Progress of a running tool. Live only: `ToolFinished` keeps the last report."""

    call_id: str
    progress: Progress


class ToolPrinted(msgspec.Struct, frozen=True, gc=False):
    """A running tool printed more output. Live only; ``text`` is the tail of its output so far."""

    call_id: str
    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, gc=False):
    """The next piece of the model's thinking. Live only."""

    text: str


class Origin(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The source of a run that was read from another product's trace."""

    format: str
    """The name of the trace format."""
    file: str = ""
    position: str = ""
    """Position in the file, such as the index of the run; empty if the file holds a single run."""
    task: str = ""
    """Id of the benchmark task, if the trace names it."""
    trial: str = ""
    """The attempt at the task, if the trace names it."""
    benchmark: str = ""
    """The benchmark of the task, or the file if the trace does not name it; empty if task ids are unique."""
    usage: Usage | None = None
    """Usage of the entire run if the trace reports more than its replies do, or None."""
    has_nested_cost: bool = False
    """True if the cost in ``usage`` includes nested runs."""
    stated: Usage | None = None
    """Total usage as stated by the trace, regardless of its replies, or None."""

    @property
    def file_name(self) -> str:
        """The file name without its folders, regardless of the operating system that wrote it."""
        return self.file.replace("\\", "/").rpartition("/")[2]


class ForkedFrom(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The original of a forked run. The fork repeats it up to a round."""

    run_id: str
    round: Count
    """Index of the fork's own first round."""


class RunStarted(Event, frozen=True, kw_only=True, tag="run_started"):
    """A run began. Holds the complete initial state, so that the log is self-contained."""

    schema: Annotated[int, msgspec.Meta(ge=1)]
    run_kind: str = "agent"
    """Kind of run: agent, workflow, plan, judge, or an extension's own."""
    prompt: Message
    agent: str = "agent"
    model: str
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    settings: dict[str, Any] = msgspec.field(default_factory=dict)
    guidance: dict[str, str] = msgspec.field(default_factory=dict)
    """Text of the initial guidance set, by part."""
    tags: tuple[str, ...] = ()
    """Free-form labels for finding the run."""
    origin: Origin | None = None
    forked_from: ForkedFrom | None = None
    conversation: str = ""
    """Id of the first run of its conversation; empty if that is this run."""
    context_type: str = ""
    """The context type, if any: the scope of the run."""
    entity: str = ""
    """Id of the task's entity, such as a project."""
    notebook: str = ""
    """Path of the notebook that started the run, if known: relative to the kernel's folder, or absolute."""
    invocation: Invocation | None = None
    """Options of the cell or command that started the run, or None if started from Python."""
    continued_from: str | None = None
    history: tuple[Message, ...] = ()
    """The conversation continued by the run."""
    todos: tuple[Todo, ...] = ()
    """The todo list continued by the run."""
    carried_todos: tuple[Todo, ...] = msgspec.field(default=(), name="resting_todos")
    """The conversation's todo list if this run does not have one itself; passed on to the next run."""
    compacted: Compacted | None = None
    """The compaction of the continued conversation, if any."""


class RoundStarted(Event, frozen=True, kw_only=True, tag="round_started", gc=False):
    """A round began. ``reason``: prompt, tool_results, said, or a policy's reason to continue."""

    is_followed: ClassVar = True
    index: int
    reason: str
    before: RoundStatus = ""
    """New status of the previous round, if the reason to continue changes it."""
    continuation: str = ""
    """The message sent to the model on the person's behalf, if nothing else asks it to continue."""
    note: str = ""
    """The status line for the model, for this request only."""


class GuidanceGiven(Event, Noted, frozen=True, kw_only=True, tag="guidance_given", gc=False):
    """Ephemeral guidance was added: the model sees it in the next request only."""

    is_followed: ClassVar = True
    guidance: Guidance


class RetryScheduled(Event, Noted, frozen=True, kw_only=True, tag="retry_scheduled", gc=False):
    """A model call failed with a transient error and is retried after ``seconds``.

    ``attempt``: the failed attempt, from 1 (0 if the call was only waiting for others); ``reason``: a sentence; ``status``: the
    HTTP status, if any; ``heard``: the partial reply, to be replaced by the next attempt.
    """

    attempt: Count
    seconds: float
    reason: str
    status: Count | None = None
    heard: str = ""


class CompactionStarted(Event, frozen=True, kw_only=True, tag="compaction_started", gc=False):
    """The conversation exceeds the limit: a summary of ``messages`` messages from its middle is being written."""

    why: WhyCompacted
    messages: int


class ContextCompacted(Event, frozen=True, kw_only=True, tag="context_compacted", gc=False):
    """From now on, a summary replaces the middle of the conversation. ``problem``: the reason why there is no summary."""

    why: WhyCompacted
    compacted: Compacted
    usage: Usage = NOTHING_USED
    """Usage of the model call for the summary; `NOTHING_USED` if no model was called."""
    seconds: float | None = 0.0
    problem: str = ""


class ExtraUsage(Event, Noted, frozen=True, kw_only=True, tag="spent_besides", gc=False):
    """Usage outside the replies of the rounds, logged immediately because the process may die.

    ``usage``: approximate usage of a model call whose result is lost, such as a stopped summary or a reply that broke off while
    thinking. ``nested_run``, ``nested``: a nested run at any depth and the usage of its own model calls since the last such
    event; ``inside``: the priced part of that usage, in US dollars. Earlier versions logged only ``inside``.
    """

    inside: float = 0.0
    usage: Usage = NOTHING_USED
    nested_run: str = ""
    nested: Usage = NOTHING_USED


class ModelReplied(Event, frozen=True, kw_only=True, tag="model_replied", gc=False):
    """The model's complete reply. ``stop_reason`` is the provider's, or ``broken_off`` if the stream was cut.

    ``signals``: markers removed from the text: complete, continue, stop.
    """

    is_followed: ClassVar = True
    message: Message
    usage: Usage = UNKNOWN
    stop_reason: str = ""
    seconds: float | None = 0.0
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    signals: tuple[str, ...] = ()


class ReplyStreamed(Event, frozen=True, kw_only=True, tag="reply_streamed", gc=False):
    """The next part of an incomplete reply, logged because it cannot be requested again.

    `ModelReplied` replaces all these parts. If the process dies first, together they form the broken-off reply.
    """

    parts: tuple[Text | Thinking, ...]
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    """Metadata of the reply, as far as known."""


class ToolAdmitted(Event, frozen=True, kw_only=True, tag="tool_admitted", gc=False):
    """A tool call waits for the person's approval; ``reason`` is the rule of the gate that asks.

    Written only for a call that does not start at once; `ToolStarted` or `CallBlocked` follows.
    """

    call: ToolCall
    reason: str = ""
    parent_call: str = ""
    """Id of the call whose tool made this call; empty for calls of the model or a step."""
    step: str = ""
    """Path of the step that made the call; empty for calls of the model or a tool."""


class ToolStarted(Event, frozen=True, kw_only=True, tag="tool_started", gc=False):
    """A tool call began. ``call`` is the call as executed; ``edited``: the person changed its arguments."""

    call: ToolCall
    edited: bool = False
    parent_call: str = ""
    step: str = ""


class Progress(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Progress of a tool: ``done`` of ``total`` steps (None: unknown), and its current activity."""

    done: float
    total: float | None = None
    text: str = ""


class NestedStart(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Id and agent name of a run started by a tool."""

    run_id: str
    agent: str = ""


class ToolFinished(Event, frozen=True, kw_only=True, tag="tool_finished", gc=False):
    """A tool call has its result. ``seconds``: the tool's own running time; ``traceback``: that of the user's code.

    ``display``: the table returned by the tool, for display; the model gets the text of ``result``. ``progress``: the last
    report; ``printed``: the tail of its output in a notebook; ``nested``: the runs it started, in order.
    """

    is_followed: ClassVar = True
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
    """A gate blocked a tool call. ``result`` is the call's one result, ``rule`` the reason."""

    call: ToolCall
    result: ToolResult
    rule: str
    parent_call: str = ""
    step: str = ""


class TodosChanged(Event, Noted, frozen=True, kw_only=True, tag="todos_changed", gc=False):
    """The todo list changed. ``by``: the model (in the call ``call_id``), or someone outside the loop, such as the person."""

    todos: tuple[Todo, ...]
    by: Literal["model", "outside"]
    call_id: str = ""


class QuestionAsked(Event, frozen=True, kw_only=True, tag="question_asked"):
    """The person was asked a question, and the run waits for the answer."""

    question: WaitingOnUser


class QuestionAnswered(Event, frozen=True, kw_only=True, tag="question_answered"):
    """A question was closed: answered, ``declined`` or ``withdrawn``.

    ``cancelled``: declined by closing the question without a decision. Versions without this field treat it as declined.

    A question is withdrawn when its answer is no longer needed: the tool call that asked has ended or was stopped.
    """

    question_id: str
    answer: Any = None
    declined: bool = False
    withdrawn: bool = False
    by: Answerer = "person"
    cancelled: bool = False


class LoopDetected(Event, Noted, frozen=True, kw_only=True, tag="loop_detected", gc=False):
    """The run repeats itself in rounds ``first`` to ``last``. ``sentence`` describes the repetition."""

    rule: str
    first: Count
    last: Count
    sentence: str
    severity: Literal["notice", "nudge", "block", "stop"] = "stop"


class RoundFinished(Event, frozen=True, kw_only=True, tag="round_finished", gc=False):
    """The round is over: each of its tool calls has a result.

    ``spent_inside``: US dollars spent by nested runs, in logs of earlier versions; replaced by `ExtraUsage`.
    """

    index: int
    status: RoundStatus
    seconds: float | None = 0.0
    spent_inside: float = 0.0


class LimitReached(Event, Noted, frozen=True, kw_only=True, tag="limit_reached", gc=False):
    """A limit of the agent ended the run; ``limit`` is its name and the stop reason, ``value`` its setting."""

    limit: str
    value: float


class CommandReceived(Event, frozen=True, kw_only=True, tag="command_received", gc=False):
    """The person (or, in traces, the environment) sent a message or a command during the run."""

    command: Literal["stop", "pause", "resume", "suspend", "say"]
    text: str = ""
    message: Message | None = None
    """The complete message if it has more than text, such as pictures or an author."""
    by_person: bool = True
    """False for a message from the environment, such as a notice that a background task ended."""

    @property
    def user_message(self) -> Message | None:  # type: ignore[override]  # other kinds have none
        """The message, if the command is one."""
        return (self.message or user(self.text)) if self.command == "say" else None

    @property
    def person_message(self) -> Message | None:  # type: ignore[override]
        """The message, if it is from the person."""
        return self.user_message if self.by_person else None


NO_STORE = "no_store"
"""Why a run was suspended without a log: it cannot be resumed."""


class RunSuspended(Event, frozen=True, kw_only=True, tag="run_suspended", gc=False):
    """The run waits for the person without a process: its log is closed; an answer resumes it, unless it has no store."""

    why: str = ""
    """``nobody_here``, ``asked`` if the person suspended the run, or ``no_store``: it cannot be resumed."""


class RunRecovered(Event, frozen=True, kw_only=True, tag="run_recovered", gc=False):
    """Another process resumes the run, because the first one died or the run was suspended.

    From here on, these apply: ``schema``, the writer's version; ``approve``, the mode; ``permissions``, the rules;
    ``guidance``, the guidance set, if changed.
    """

    schema: Annotated[int, msgspec.Meta(ge=1)]
    approve: str = ""
    permissions: list[dict[str, Any]] | None = None
    consent: Consent = ""
    guidance: GuidanceTexts | None = None


class Warned(Event, Noted, frozen=True, kw_only=True, tag="warned", gc=False):
    """A warning to the person. The run continues."""

    message: str
    advice: tuple[AnyAdvice, ...] = ()
    topic: Topic = ""

    def __str__(self) -> str:
        return self.text_for(PYTHON)

    def text_for(self, commands: Commands) -> str:
        """Return the warning and its advice, worded for a surface."""
        return "".join(pieces(self.message, self.advice, commands))


class RunError(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The error of a failed run: its class, message and advice; ``traceback`` is for errors in the person's own model."""

    type: str
    message: str
    advice: tuple[AnyAdvice, ...] = ()
    traceback: str = ""
    logged_hint: str = msgspec.field(default="", name="hint")
    """The advice as a sentence, in logs up to schema 6; converted to values by `older_logs`."""

    @property
    def hint(self) -> str:
        """The advice, worded for Python."""
        return in_python(self.advice)

    def __str__(self) -> str:
        return "".join(pieces(self.message, self.advice, PYTHON))


class ErrorRaised(Event, Noted, frozen=True, kw_only=True, tag="error_raised", gc=False):
    """An error ended the run. ``where``: model, store, reply or agentnb."""

    error: RunError
    where: str
    component: str = ""
    """The failed part: loop, workflow, store or mcp; empty if unknown."""
    stage: str = ""
    """Stage of the failed part: start, model_call, compaction, tool_call or reply; planning, plan_execution or step; empty if
    not logged."""
    tool: str = ""
    """Name of the tool that ran, if any."""


class Totals(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Totals over the events of a stored run: with these, listing runs requires only the first and last line of each log.

    Valid while the log is unchanged: ``size`` is its length in bytes before the last line. Used only for lists.
    """

    size: Count
    rounds: Count
    usage: Usage
    """Usage of the run's own model calls."""
    recovered: Count = 0
    steps: Count = 0
    """Number of steps in a workflow; also 0 in logs of earlier versions."""
    inside: Annotated[float, msgspec.Meta(ge=0, le=LARGEST)] = 0.0
    """US dollars spent by nested runs; in logs of earlier versions, only by a workflow's."""
    nested: Usage | None = None
    """Usage of all nested runs, or None if they called no model or the log is from an earlier version."""
    assessment: Assessment | None = None
    """The assessment that decides the outcome, or None."""
    limit_value: float | None = None
    """Value of the limit that ended the run."""
    todos_open: bool | None = None
    """True if any todos are open, or None if the log is from an earlier version."""
    failed_calls: Count | None = None
    """Number of tool calls, by the model and by steps, that failed, or None if the log is from an earlier version."""
    blocked_calls: Count = 0
    """Calls refused by a gate, a limit or the person."""
    plan_rejected: bool = False
    """True if the last plan was rejected."""
    substitutes: Count | None = None
    """Number of steps that failed and used a substitute, or None if the log is from an earlier version."""


class RunFinished(Event, frozen=True, kw_only=True, tag="run_finished", gc=False):
    """The last event of a run. ``last_round``: new status of the last round, if the stop reason changes it."""

    status: EndStatus
    stop_reason: str
    last_round: RoundStatus = ""
    seconds: float | None = 0.0
    totals: Totals | None = None
    """Totals for lists of runs, or None if there is no store or the log is from an earlier version."""


StreamEnd: TypeAlias = ModelReplied | RetryScheduled
"""Events that end a reply's stream: the reply is complete, or the next attempt replaces it."""
BeforeReply: TypeAlias = GuidanceGiven | RetryScheduled | CompactionStarted | ContextCompacted
"""Events of a round before its reply."""
CallEvent: TypeAlias = ToolAdmitted | ToolStarted | CallBlocked
"""Events with a tool call."""
CallEnd: TypeAlias = ToolFinished | CallBlocked
"""Events with the result of a tool call."""
Found: TypeAlias = LoopDetected | w.FindingMade
"""Events that report findings in a range of rounds."""
ScopeSet: TypeAlias = RunStarted | w.ContextShifted
"""Events that set the context type and entity."""
RunEnd: TypeAlias = RunFinished | RunSuspended
"""Events that close the log of a run."""
ToolsOffered: TypeAlias = RunStarted | w.ToolsChanged
"""Events that set the tools visible to the model."""
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
"""The next part of a streaming reply."""
Delta: TypeAlias = ReplyDelta | ToolProgress | ToolPrinted
"""Live data for watchers, not logged."""
KINDS: tuple[type[Event], ...] = AnyEvent.__args__
"""All kinds of events, in the order above."""
