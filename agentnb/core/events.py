"""The events a run is made of: frozen facts in the past tense, in the order they happened.

A run log is one event a line. Everything a person sees is a fold over these; nothing else is recorded.
``TextDelta`` and ``ThinkingDelta`` are told to watchers while a reply streams and never stored: `ModelReplied` holds the whole.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal, TypeAlias

import msgspec

from agentnb.core.compaction import Compacted, WhyCompacted
from agentnb.core.display_data import Table
from agentnb.core.guidance import Guidance
from agentnb.core.messages import Message, ToolCall, ToolResult
from agentnb.core.questions import WaitingOnUser
from agentnb.core.request import ToolSpec
from agentnb.core.todos import Todo
from agentnb.core.usage import NOTHING_USED, UNKNOWN, Usage
from agentnb.errors import sentences

SCHEMA = 4
"""Version of the log's schema; a reader refuses what is newer than itself, and reads what is older.

A new kind of event is a new version: with 2 came questions, with 3 compaction and recovery, with 4 what is spent besides.
"""

Status: TypeAlias = Literal[
    "running", "waiting_on_user", "completed", "limited", "stopped", "cancelled", "interrupted", "failed"
]
RoundStatus: TypeAlias = Literal[
    "running",
    "success",
    "error",
    "cancelled",
    "natural_completion",
    "workflow_complete",
    "auto_continue_todos",
    "auto_continue_workflow",
    "todo_nudge",
    "premature_stop_nudge",
    "narration_without_tool_call",
    "duplicate_loop_broken",
    "unexpected_empty_tools",
]


class TextDelta(msgspec.Struct, frozen=True, gc=False):
    """A few more characters of the reply that is streaming. Live only."""

    text: str


class ThinkingDelta(msgspec.Struct, frozen=True, gc=False):
    """A few more characters of the model's thinking. Live only."""

    text: str


class Event(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """What all events carry. ``seq`` counts from 0 without a gap; ``at`` is UTC."""

    seq: int
    at: datetime
    run_id: str
    parent_id: str | None = None


class RunStarted(Event, frozen=True, kw_only=True, tag="run_started"):
    """A run began. With what, so that the log alone tells the whole story."""

    schema: int
    prompt: Message
    agent: str = "agent"
    model: str
    system: str = ""
    tools: tuple[ToolSpec, ...] = ()
    settings: dict[str, Any] = {}
    continued_from: str | None = None
    history: tuple[Message, ...] = ()
    """The conversation it goes on with."""
    todos: tuple[Todo, ...] = ()
    """The list it goes on with."""
    carried_todos: tuple[Todo, ...] = msgspec.field(default=(), name="resting_todos")
    """The conversation's list, where this run keeps none: handed on to the next."""
    compacted: Compacted | None = None
    """How the conversation it goes on with is sent, if that was compacted."""


class RoundStarted(Event, frozen=True, kw_only=True, tag="round_started", gc=False):
    """The next turn of the loop began. ``reason``: prompt, tool_results, said, or a policy's reason to go on."""

    index: int
    reason: str
    continuation: str = ""
    """What was said to the model in the person's place, where nothing else asks it to go on."""
    note: str = ""
    """What the model is told of where it stands, for this request only."""


class GuidanceGiven(Event, frozen=True, kw_only=True, tag="guidance_given", gc=False):
    """Something is said to the model with the next request, and only with that."""

    guidance: Guidance


class RetryScheduled(Event, frozen=True, kw_only=True, tag="retry_scheduled", gc=False):
    """A call of the model failed in a way that may pass, and is made again after ``seconds``.

    ``attempt`` is the one that failed, counted from 1 (0: none was made yet, the call waited for others); ``reason`` says why,
    in one sentence; ``status`` is that of HTTP, if it came to that; ``heard`` is what had come of the reply before it broke
    off, which the next attempt replaces.
    """

    attempt: int
    seconds: float
    reason: str
    status: int | None = None
    heard: str = ""


class CompactionStarted(Event, frozen=True, kw_only=True, tag="compaction_started", gc=False):
    """The conversation has become too long to be sent whole: a summary of its middle, so many messages, is being written."""

    why: WhyCompacted
    messages: int


class ContextCompacted(Event, frozen=True, kw_only=True, tag="context_compacted", gc=False):
    """From here on a summary is sent in the place of the conversation's middle. ``problem`` says why there is none, if so."""

    why: WhyCompacted
    compacted: Compacted
    usage: Usage = NOTHING_USED
    """Of the call that wrote it; nothing where no model was asked."""
    seconds: float = 0.0
    problem: str = ""


class ExtraUsage(Event, frozen=True, kw_only=True, tag="spent_besides", gc=False):
    """Something was spent besides the replies of the rounds, and is written at once, for the process may die.

    ``inside``: US dollars, by runs that a tool began; ``usage``: about what a call of the model used of which nothing is kept,
    for a summary that was stopped, or of a reply that broke off among its thoughts.
    """

    inside: float = 0.0
    usage: Usage = NOTHING_USED


class ModelReplied(Event, frozen=True, kw_only=True, tag="model_replied", gc=False):
    """The model's whole reply; ``stop_reason`` in the provider's words, ``broken_off`` if the stream was cut.

    ``signals`` are the markers that were taken out of its text: complete, continue, stop.
    """

    message: Message
    usage: Usage = UNKNOWN
    stop_reason: str = ""
    seconds: float = 0.0
    metadata: dict[str, Any] = {}
    signals: tuple[str, ...] = ()


class ToolStarted(Event, frozen=True, kw_only=True, tag="tool_started", gc=False):
    """A call was admitted, as it will be run."""

    call: ToolCall


class ToolFinished(Event, frozen=True, kw_only=True, tag="tool_finished", gc=False):
    """A call was answered. ``seconds`` is the time the tool itself took; ``traceback`` is of the user's code.

    ``display`` is what the tool returned as a table for the eye, where it is one; the model gets the words of ``result``.
    """

    result: ToolResult
    seconds: float = 0.0
    traceback: str = ""
    display: Table | None = None


class CallBlocked(Event, frozen=True, kw_only=True, tag="call_blocked", gc=False):
    """A gate did not admit a call. ``result`` is its one answer, ``rule`` says why."""

    call: ToolCall
    result: ToolResult
    rule: str


class TodosChanged(Event, frozen=True, kw_only=True, tag="todos_changed", gc=False):
    """The todo list is another now. ``by``: the model (``call_id`` says with which call), or outside, as the person."""

    todos: tuple[Todo, ...]
    by: Literal["model", "outside"]
    call_id: str = ""


class QuestionAsked(Event, frozen=True, kw_only=True, tag="question_asked"):
    """The person was asked something, and the run waits for the answer."""

    question: WaitingOnUser


class QuestionAnswered(Event, frozen=True, kw_only=True, tag="question_answered"):
    """A question is not open any more: the person answered it, ``declined`` to, or it was ``withdrawn``.

    It is withdrawn when nobody waits for its answer any longer: the call that asked has ended, or was stopped.
    """

    question_id: str
    answer: Any = None
    declined: bool = False
    withdrawn: bool = False


class LoopDetected(Event, frozen=True, kw_only=True, tag="loop_detected", gc=False):
    """The run repeats itself in the rounds ``first`` to ``last``. ``sentence`` says how."""

    rule: str
    first: int
    last: int
    sentence: str
    severity: Literal["notice", "nudge", "block", "stop"] = "stop"


class RoundFinished(Event, frozen=True, kw_only=True, tag="round_finished", gc=False):
    """The turn is over: every call of it has its result. ``spent_inside``: US dollars that runs its tools began have spent."""

    index: int
    status: RoundStatus
    seconds: float = 0.0
    spent_inside: float = 0.0


class LimitReached(Event, frozen=True, kw_only=True, tag="limit_reached", gc=False):
    """A limit of the agent ended the run; ``limit`` is its name and the stop reason, ``value`` what it was set to."""

    limit: str
    value: float


class CommandReceived(Event, frozen=True, kw_only=True, tag="command_received", gc=False):
    """The person said or wanted something while the run was on."""

    command: Literal["stop", "pause", "resume", "say"]
    text: str = ""


class RunRecovered(Event, frozen=True, kw_only=True, tag="run_recovered", gc=False):
    """The process that made the run had died, and another goes on with it. ``schema``: the version that writes from here on."""

    schema: int


class Warned(Event, frozen=True, kw_only=True, tag="warned", gc=False):
    """Something the person should know that stops nothing."""

    message: str


class RunError(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Why a run failed: the class of the error, what is wrong, and what to do next."""

    type: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return sentences(self.message, self.hint)


class ErrorRaised(Event, frozen=True, kw_only=True, tag="error_raised", gc=False):
    """The run cannot go on. ``where``: model, store, reply or agentnb."""

    error: RunError
    where: str


class RunFinished(Event, frozen=True, kw_only=True, tag="run_finished", gc=False):
    """The last event of a run."""

    status: Status
    stop_reason: str
    seconds: float = 0.0


AnyEvent: TypeAlias = (
    RunStarted
    | RoundStarted
    | GuidanceGiven
    | RetryScheduled
    | CompactionStarted
    | ContextCompacted
    | ExtraUsage
    | ModelReplied
    | ToolStarted
    | ToolFinished
    | CallBlocked
    | TodosChanged
    | QuestionAsked
    | QuestionAnswered
    | RoundFinished
    | LoopDetected
    | LimitReached
    | CommandReceived
    | RunRecovered
    | Warned
    | ErrorRaised
    | RunFinished
)
Delta: TypeAlias = TextDelta | ThinkingDelta
KINDS: tuple[type[Event], ...] = AnyEvent.__args__
"""All kinds, in the order above."""
