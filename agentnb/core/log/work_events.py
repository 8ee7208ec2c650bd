"""Events of what an agent's loop does not do itself: steps, branches, plans, other model calls, findings, draws, outcomes.

An orchestrator, a planner, a detector or an experiment writes them; `agentnb.core.log.events` has them all in one union.
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
    """A step of a workflow or a plan, or a further attempt at it, began. ``parent`` is the block around it.

    ``inputs`` are plain data. ``iteration`` counts the executions of the step, and ``attempt`` the tries of one, from 1.
    """

    step: str
    step_kind: str = ""
    title: str = ""
    parent: str = ""
    iteration: Count = 0
    inputs: Any = None
    nested: str = ""
    """Id of the nested run that does its work, if one does."""
    agent: str = ""
    """Name of the agent, the tool or the file that does its work."""
    attempt: Count = 1


class StepAttempted(Event, Noted, frozen=True, kw_only=True, tag="step_attempted", gc=False):
    """An attempt at a step failed, and another follows after ``wait`` seconds. ``attempt`` counts from 1."""

    step: str
    attempt: Count
    error: str = ""
    wait: float = 0.0
    status: ClassVar = "retried"


class StepSkipped(Event, Noted, frozen=True, kw_only=True, tag="step_skipped", gc=False):
    """A step was not run; ``reason`` says why, such as the condition that was false."""

    step: str
    reason: str = ""
    status: ClassVar = "skipped"


class StepFinished(Event, Noted, frozen=True, kw_only=True, tag="step_finished", gc=False):
    """A step is over: completed, failed or cancelled. ``seconds`` is None where that is unknown."""

    step: str
    status: Literal["completed", "failed", "cancelled"] = "completed"
    output: Any = None
    error: str = ""
    attempts: Count = 1
    seconds: float | None = 0.0
    sets: dict[str, Any] = msgspec.field(default_factory=dict)
    """The variables that it set, in a task file."""
    words: tuple[str, ...] = ()
    """Of a failure: the words that it has for ``retry.on``, and ``final`` if no other attempt is to be made."""
    reason: str = ""
    """Why it was cancelled although its run went on; empty if with its run."""


class BranchTaken(Event, Noted, frozen=True, kw_only=True, tag="branch_taken", gc=False):
    """A step chose where to continue: ``to`` is the step or branch, ``reason`` the condition that held."""

    step: str
    to: str
    reason: str = ""
    count: Count = 0
    """Of a way back to an earlier step: how often it was taken in this loop, this time included; else 0."""


StepEvent: TypeAlias = StepStarted | StepAttempted | StepSkipped | StepFinished | BranchTaken
"""The events that are about a step."""
StepEnd: TypeAlias = StepFinished | StepAttempted | StepSkipped
"""The events with which an attempt at a step ends."""


class ResultGiven(Event, Noted, frozen=True, kw_only=True, tag="result_given", gc=False):
    """A workflow that names its result has one: plain data, of the type that a template has.

    ``text`` is the same as a text, where that is not ``output`` itself or its JSON.
    """

    output: Any = None
    text: str = ""


class PlanProposed(Event, Noted, frozen=True, kw_only=True, tag="plan_proposed", gc=False):
    """A plan was made. ``plan`` is the whole plan as plain data; a new proposal with the same id replaces it."""

    plan_id: str
    plan: dict[str, Any]
    call_id: str = ""
    """The tool call that asked for it, if one did."""


class PlanEdited(Event, Noted, frozen=True, kw_only=True, tag="plan_edited", gc=False):
    """A plan was changed before it ran; ``plan`` is the whole plan as it is now."""

    plan_id: str
    plan: dict[str, Any]
    by: str = "person"


class PlanApproved(Event, Noted, frozen=True, kw_only=True, tag="plan_approved", gc=False):
    """A plan may run. ``by``: person, reviewer, or model for one that nobody has to approve."""

    plan_id: str
    by: str = "person"
    call_id: str = ""
    """The tool call that runs it, if one does."""
    words: str = ""
    """The words of the person that approved it, if words did."""


class PlanRejected(Event, Noted, frozen=True, kw_only=True, tag="plan_rejected", gc=False):
    """A plan will not run; ``reason`` is what the planner is told."""

    plan_id: str
    by: str = "person"
    reason: str = ""
    words: str = ""
    """The words of the person that declined it, if words did; the planner reads them as their message."""


class PlanReviewed(Event, Noted, frozen=True, kw_only=True, tag="plan_reviewed", gc=False):
    """A model reviewed a plan."""

    plan_id: str
    verdict: str
    notes: str = ""
    failed: bool = False
    """Whether no review came: the verdict is that of the settings."""


PlanEvent: TypeAlias = PlanProposed | PlanEdited | PlanApproved | PlanRejected | PlanReviewed
"""The events of a plan before it runs."""


class ModelCalled(Event, Noted, frozen=True, kw_only=True, tag="model_called", gc=False):
    """A model was called besides the loop. ``operation``: summary, planner, review, judge, detector, or a word of one's own."""

    operation: str
    model: str = ""
    profile: str = ""
    execution_mode: str = ""
    call_id: str = ""
    """The tool call for which it was made, if any."""
    usage: Usage = UNKNOWN
    seconds: float | None = 0.0
    error: str = ""


class ReplyGiven(Event, frozen=True, kw_only=True, tag="reply_given", gc=False):
    """agentnb replied by itself, without a model: to a blank message."""

    message: Message


class ToolsChanged(Event, frozen=True, kw_only=True, tag="tools_changed"):
    """From the next round on the model sees these tools."""

    tools: tuple[ToolSpec, ...]
    reason: str = ""


class ServerStarted(Event, frozen=True, kw_only=True, tag="server_started", gc=False):
    """The run starts or reaches an MCP server, which was not connected."""

    server: str
    target: str
    """Its command with arguments, or its address, as configured."""


class ServerChanged(Event, frozen=True, kw_only=True, tag="server_changed", gc=False):
    """An MCP server, or tools of it, are other than when first seen: what was allowed before does not count for them."""

    server: str
    target: str
    """Its command with arguments, or its address, as configured now."""
    is_other: bool = False
    """Whether command, arguments or address have changed."""
    target_before: str = ""
    """What they were, if they have changed and that is known."""
    tools: tuple[str, ...] = ()
    """The tools whose description or schema has changed, as the model sees them."""


class FindingMade(Event, Noted, frozen=True, kw_only=True, tag="finding_made", gc=False):
    """A detector found something in the rounds ``first`` to ``last``. ``sentence`` says what, ``evidence`` is plain data."""

    rule: str
    family: str
    first: Count
    last: Count
    severity: Severity = "notice"
    sentence: str = ""
    evidence: Any = None


class GuidanceDrawn(Event, Noted, frozen=True, kw_only=True, tag="guidance_drawn", gc=False):
    """A guidance set was drawn at random, and is in force from here on.

    ``propensity`` is the probability with which this one was drawn, above 0 to 1.
    """

    set: str
    propensity: float
    version: str = ""
    among: dict[str, float] = msgspec.field(default_factory=dict)
    """The probability of each set that could have been drawn."""
    texts: dict[str, str] | None = None
    """The texts of the set by part; None in logs of earlier versions, in which the set of the start stays in force."""
    round: Count | None = None
    """Index of the round for whose guidance it was drawn; None in logs of earlier versions."""


class GrantGiven(Event, frozen=True, kw_only=True, tag="grant_given", gc=False):
    """Calls of a tool are allowed without a question from here on. ``by``: person, program, policy, or code between cells."""

    grant_id: str
    tool: str
    rule: str = ""
    """The calls: a pattern such as ``bash(git status *)``, or ``mcp:NAME`` for all tools of a server; empty for all calls of
    the tool."""
    reach: Literal["run", "session"] = "run"
    """run: the run in which it was given and the runs nested in that; session: all runs of the session."""
    by: str = "person"
    question_id: str = ""
    """Id of the question whose answer gave it, if one did."""
    given_in: str = ""
    """Id of the run around this one in which it was given; empty if that is this one, or for the session."""
    server_identity: str = ""
    """The digest of the MCP server as configured, to which it belongs; empty if it was given for no server's tool."""
    tool_identity: str = ""
    """The digest of the server's tool that was asked about, as the server described it."""
    arguments: str = ""
    """The arguments of the one call that is allowed, as JSON with sorted keys: of a step of the plan that runs right within the
    run; empty for calls with any."""


BY_PLAN = "plan"
"""Who takes back the grants of single calls: the plan that has them, with its end."""


class GrantWithdrawn(Event, frozen=True, kw_only=True, tag="grant_withdrawn", gc=False):
    """A grant was taken back: calls of its tool are asked about again."""

    grant_id: str
    by: str = "person"


class ContextShifted(Event, Noted, frozen=True, kw_only=True, tag="context_shifted", gc=False):
    """The scope of the run changed: from here on it works in this context, on this entity."""

    context_type: str
    entity: str = ""
    call_id: str = ""
    reason: str = ""


class OutcomeGiven(Event, frozen=True, kw_only=True, tag="outcome_given", gc=False):
    """A source says whether the run did what it should, or gives it a score. Labels by hand are kept beside the log."""

    assessment: Assessment


class OtherEvent(Event, frozen=True, kw_only=True, tag="other", gc=False):
    """An event of a kind that this version does not know: kept as it came, and shown by its name."""

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
