"""Events outside an agent's loop: steps, branches, plans, other model calls, findings, draws, outcomes.

Written by orchestrators, planners, detectors and experiments; `agentnb.core.log.events` defines the union of all events.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, TypeAlias

import msgspec

from agentnb.core.log.event import Event, Noted
from agentnb.core.log.outcome import Assessment
from agentnb.core.messages import Message
from agentnb.core.request import ToolSpec
from agentnb.core.schema.counts import Count
from agentnb.core.usage import UNKNOWN, Usage

Severity = Literal["notice", "nudge", "block", "stop"]


class StepStarted(Event, Noted, frozen=True, kw_only=True, tag="step_started", gc=False):
    """A step of a workflow or plan, or a further attempt at it, began. ``parent`` is the enclosing block.

    ``inputs`` are plain data. ``iteration`` counts the executions of the step, and ``attempt`` the tries within one, both from
    1.
    """

    step: str
    step_kind: str = ""
    title: str = ""
    parent: str = ""
    iteration: Count = 0
    inputs: Any = None
    nested: str = ""
    """Id of the nested run that executes the step, if any."""
    agent: str = ""
    """Name of the agent, tool or file that executes the step."""
    attempt: Count = 1


class StepAttempted(Event, Noted, frozen=True, kw_only=True, tag="step_attempted", gc=False):
    """An attempt at a step failed and is followed by another after ``wait`` seconds. ``attempt`` counts from 1."""

    step: str
    attempt: Count
    error: str = ""
    wait: float = 0.0
    status: ClassVar = "retried"


class StepSkipped(Event, Noted, frozen=True, kw_only=True, tag="step_skipped", gc=False):
    """A step was skipped; ``reason``: for example, the condition that was false."""

    step: str
    reason: str = ""
    status: ClassVar = "skipped"


class StepFinished(Event, Noted, frozen=True, kw_only=True, tag="step_finished", gc=False):
    """A step is over: completed, failed or cancelled. ``seconds`` is None if unknown."""

    step: str
    status: Literal["completed", "failed", "cancelled"] = "completed"
    output: Any = None
    error: str = ""
    attempts: Count = 1
    seconds: float | None = 0.0
    sets: dict[str, Any] = msgspec.field(default_factory=dict)
    """Variables set by a step of a task file."""
    words: tuple[str, ...] = ()
    """For a failure: the words that match it in ``retry.on``, and ``final`` if it must not be retried."""
    reason: str = ""
    """The reason for a cancellation while the run continued; empty if the run itself was cancelled."""


class BranchTaken(Event, Noted, frozen=True, kw_only=True, tag="branch_taken", gc=False):
    """A step chose a branch: ``to`` is the step or branch, ``reason`` the condition that held."""

    step: str
    to: str
    reason: str = ""
    count: Count = 0
    """For a jump to an earlier step, the number of times it has been taken in this loop, including this one; otherwise 0."""


StepEvent: TypeAlias = StepStarted | StepAttempted | StepSkipped | StepFinished | BranchTaken
"""Events about a step."""
StepEnd: TypeAlias = StepFinished | StepAttempted | StepSkipped
"""Events that end an attempt at a step."""


class ResultGiven(Event, Noted, frozen=True, kw_only=True, tag="result_given", gc=False):
    """A workflow produced its named result: plain data of the template's type.

    ``text``: the result as text, unless it is ``output`` itself or its JSON.
    """

    output: Any = None
    text: str = ""


class PlanProposed(Event, Noted, frozen=True, kw_only=True, tag="plan_proposed", gc=False):
    """A plan was made. ``plan`` is the complete plan as plain data; a new proposal with the same id replaces it."""

    plan_id: str
    plan: dict[str, Any]
    call_id: str = ""
    """The tool call that requested the plan, if any."""


class PlanEdited(Event, Noted, frozen=True, kw_only=True, tag="plan_edited", gc=False):
    """A plan was changed before it ran; ``plan`` is the complete plan after the change."""

    plan_id: str
    plan: dict[str, Any]
    by: str = "person"


class PlanApproved(Event, Noted, frozen=True, kw_only=True, tag="plan_approved", gc=False):
    """A plan may run. ``by``: person, reviewer, or model for a plan that needs no approval."""

    plan_id: str
    by: str = "person"
    call_id: str = ""
    """The tool call that runs the plan, if any."""
    words: str = ""
    """The person's words, if they approved the plan in words."""


class PlanRejected(Event, Noted, frozen=True, kw_only=True, tag="plan_rejected", gc=False):
    """A plan will not run; ``reason`` is for the planner."""

    plan_id: str
    by: str = "person"
    reason: str = ""
    words: str = ""
    """The person's words, if they declined the plan in words; the planner reads these as the person's message."""


class PlanReviewed(Event, Noted, frozen=True, kw_only=True, tag="plan_reviewed", gc=False):
    """A model reviewed a plan."""

    plan_id: str
    verdict: str
    notes: str = ""
    failed: bool = False
    """True if the review failed: the verdict is the default from the settings."""


PlanEvent: TypeAlias = PlanProposed | PlanEdited | PlanApproved | PlanRejected | PlanReviewed
"""Events of a plan before it runs."""


class ModelCalled(Event, Noted, frozen=True, kw_only=True, tag="model_called", gc=False):
    """A model was called outside the loop. ``operation``: summary, planner, review, judge, detector, or a custom word."""

    operation: str
    model: str = ""
    profile: str = ""
    execution_mode: str = ""
    call_id: str = ""
    """The tool call that needed the model call, if any."""
    usage: Usage = UNKNOWN
    seconds: float | None = 0.0
    error: str = ""


class ReplyGiven(Event, frozen=True, kw_only=True, tag="reply_given", gc=False):
    """agentnb replied to a blank message itself, without a model."""

    message: Message


class ToolsChanged(Event, frozen=True, kw_only=True, tag="tools_changed"):
    """The model sees these tools from the next round onwards."""

    tools: tuple[ToolSpec, ...]
    reason: str = ""


class ServerStarted(Event, frozen=True, kw_only=True, tag="server_started", gc=False):
    """The run starts or connects to an MCP server."""

    server: str
    target: str
    """The server's command line or address, as configured."""


class ServerChanged(Event, frozen=True, kw_only=True, tag="server_changed", gc=False):
    """An MCP server, or some of its tools, has changed since first seen: earlier grants do not apply to them."""

    server: str
    target: str
    """The server's command line or address, as now configured."""
    is_other: bool = False
    """True if the server's command line or address changed."""
    target_before: str = ""
    """The previous command line or address, if changed and known."""
    tools: tuple[str, ...] = ()
    """Tools whose description or schema changed, by their names for the model."""


class FindingMade(Event, Noted, frozen=True, kw_only=True, tag="finding_made", gc=False):
    """A detector reported a finding for rounds ``first`` to ``last``: ``sentence``, with ``evidence`` as plain data."""

    rule: str
    family: str
    first: Count
    last: Count
    severity: Severity = "notice"
    sentence: str = ""
    evidence: Any = None


class GuidanceDrawn(Event, Noted, frozen=True, kw_only=True, tag="guidance_drawn", gc=False):
    """A guidance set was drawn at random and is in force from here on.

    ``propensity`` is its probability, greater than 0 and at most 1.
    """

    set: str
    propensity: float
    version: str = ""
    among: dict[str, float] = msgspec.field(default_factory=dict)
    """Probabilities of all candidate sets."""
    texts: dict[str, str] | None = None
    """Text of the set by part, or None in logs of earlier versions, where the initial set stays in force."""
    round: Count | None = None
    """Index of the round it was drawn for, or None in logs of earlier versions."""


class GrantGiven(Event, frozen=True, kw_only=True, tag="grant_given", gc=False):
    """From here on, calls to a tool are allowed without asking. ``by``: person, program, policy, or code between cells."""

    grant_id: str
    tool: str
    rule: str = ""
    """The calls: a pattern such as ``bash(git status *)``, or ``mcp:NAME`` for all tools of a server; empty for all calls of
    the tool."""
    reach: Literal["run", "session"] = "run"
    """run: the run that got the grant, and its nested runs; session: all runs of the session."""
    by: str = "person"
    question_id: str = ""
    """Id of the answered question, if any."""
    given_in: str = ""
    """Id of the enclosing run that got the grant; empty for this run or the session."""
    server_identity: str = ""
    """Digest of the MCP server's configuration; empty unless the tool belongs to a server."""
    tool_identity: str = ""
    """Digest of the server's description of the approved tool."""
    arguments: str = ""
    """Arguments of the only allowed call, as JSON with sorted keys; set for a step of a plan that runs inside the run. Empty if
    any arguments are allowed."""


BY_PLAN = "plan"
"""The value of ``by`` when a plan ends and withdraws its grants for single calls."""


class GrantWithdrawn(Event, frozen=True, kw_only=True, tag="grant_withdrawn", gc=False):
    """A grant was withdrawn: calls to its tool need approval again."""

    grant_id: str
    by: str = "person"


class ContextShifted(Event, Noted, frozen=True, kw_only=True, tag="context_shifted", gc=False):
    """The scope of the run changed to this context type and entity."""

    context_type: str
    entity: str = ""
    call_id: str = ""
    reason: str = ""


class OutcomeGiven(Event, frozen=True, kw_only=True, tag="outcome_given", gc=False):
    """A source assessed the success of the run. Manual labels are stored beside the log."""

    assessment: Assessment


class OtherEvent(Event, frozen=True, kw_only=True, tag="other", gc=False):
    """An event of a kind unknown to this version: kept unchanged, and displayed by name."""

    name: str
    data: dict[str, Any] = msgspec.field(default_factory=dict)


WorkEvent: TypeAlias = (
    StepEvent
    | ResultGiven
    | PlanEvent
    | ModelCalled
    | ReplyGiven
    | ToolsChanged
    | ServerStarted
    | ServerChanged
    | FindingMade
    | GuidanceDrawn
    | GrantGiven
    | GrantWithdrawn
    | ContextShifted
    | OutcomeGiven
    | OtherEvent
)
