"""A round of a run: a model call and the tool calls it made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from agentnb.core.compaction_records import Compaction
from agentnb.core.display_data import Table
from agentnb.core.guidance import Followed, Guidance
from agentnb.core.log.events import NestedStart, Progress, RoundStatus, ToolFinished
from agentnb.core.messages import Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.request import ToolRole
from agentnb.core.usage import Usage

DUPLICATE = "duplicate_call_blocked"
"""Error code of a call blocked because it repeats an earlier one."""
MAX_TOOL_CALLS, MAX_TOOL_CALLS_PER_TURN = "max_tool_calls", "max_tool_calls_per_turn"
"""Error codes of calls blocked by these limits, and the limits' stop reasons."""
TIME_LIMIT = "time_limit"
"""Error code of a call cut off by the run's time limit."""
LIMIT_REACHED = "limit_reached"
"""Error code of a call in the final answer at a limit, where no calls are allowed."""
DENIED = "denied"
"""Error code of a call denied by a gate or the person."""
INTERRUPTED = "interrupted"
"""Error code of a call during which the process died."""
NOT_RUN = frozenset(
    {
        "unknown_tool",
        "invalid_arguments",
        "cancelled",
        TIME_LIMIT,
        LIMIT_REACHED,
        INTERRUPTED,
        DENIED,
        DUPLICATE,
        MAX_TOOL_CALLS,
        MAX_TOOL_CALLS_PER_TURN,
    }
)
"""Error codes of calls whose tool did not run, or did not finish."""
LOST = "lost"
"""Error code of the placeholder for a result missing from another product's trace."""
AWAITS_APPROVAL = "waiting"
"""Error code of a call still waiting for approval when another product's trace ended."""
WITHOUT_RESULT = frozenset({LOST, AWAITS_APPROVAL})
"""Error codes of calls with an unknown outcome; these are not tool errors."""
CallState = Literal["running", "waiting", "ok", "failed", "blocked", "stopped", "interrupted"]
STATES_OF_ERRORS: dict[str, CallState] = {
    DUPLICATE: "blocked",
    MAX_TOOL_CALLS: "blocked",
    MAX_TOOL_CALLS_PER_TURN: "blocked",
    LIMIT_REACHED: "blocked",
    DENIED: "blocked",
    AWAITS_APPROVAL: "waiting",
    "cancelled": "stopped",
    TIME_LIMIT: "stopped",
    INTERRUPTED: "interrupted",
    LOST: "interrupted",
}
"""State of a call by the error code of its result; any other error is a failure."""
SERVER_SIDE = "server_side"
"""Metadata key of a call executed by the provider, with its type, as in ``{"server_side": {"type": "mcp_call"}}``."""


ASKED_FOR_TOOLS = frozenset({"tool_use", "tool_calls", "function_call"})
"""Providers' stop reasons that announce tool calls; if a reply has one of these and text but no call, the text is the
answer."""
BROKEN_OFF = "broken_off"
"""Stop reason of a partial reply."""
PLAN_EXECUTED, PLAN_DECLINED = "plan_executed", "plan_declined"
"""Reasons for a round in which the model reads the person's decision about its draft."""
UNCHECKED = "unchecked"
"""Metadata key and stop reason of a turn whose end does not show whether there was an error."""
FINAL_ANSWER = "final_answer"
"""Reason for the round, at a limit, that asks for an answer without tools."""
LEARNED_TRAITS = "learned_traits"
"""Metadata key, in a reply, for the server traits that were learned from refusals and applied to its request."""
BY_SCHEMA = "by_schema"
"""Metadata key of a reply whose text was requested with a JSON Schema."""
CONTEXT_TOKENS = "context_tokens"
"""Metadata key, in a reply made by several calls, for the token count of the conversation including the reply. The usage of
such a reply is the sum over those calls."""
TOKENS_ESTIMATED = "tokens_estimated"
"""Metadata key of a reply with incomplete token counts from the model; the missing counts are estimates."""


class CallRecord(msgspec.Struct, frozen=True, gc=False):
    """A tool call of a round with its result; ``result`` is None while the call is open."""

    call: ToolCall
    """The call as executed."""
    result: ToolResult | None = None
    """The only result of the call."""
    seconds: float | None = 0.0
    """Running time of the tool itself in seconds, or None if unknown."""
    traceback: str = ""
    """Traceback of the person's own code, if that raised an error."""
    display: Table | None = None
    """The table returned by the tool, if any, for display."""
    rule: str = ""
    """The rule of the gate that blocked the call, if any."""
    progress: Progress | None = None
    """The last progress report of the tool."""
    role: ToolRole = "work"
    """The role of the called tool."""
    inner: tuple[CallRecord, ...] = ()
    """Calls made by the tool itself, invisible to the model."""
    waits: bool = False
    """True while the call waits for the person's approval."""
    printed: str = ""
    """The tail of the tool's printed output, if a notebook stored it with the call; the model does not see it."""
    nested: tuple[NestedStart, ...] = ()
    """The runs started by the tool, in order; known only after the tool has finished."""

    def with_result(self, event: ToolFinished) -> CallRecord:
        """Return the record with the call's result."""
        details = (event.seconds, event.traceback, event.display, self.rule, event.progress, self.role, self.inner)
        return CallRecord(self.call, event.result, *details, printed=event.printed, nested=event.nested)

    @property
    def success(self) -> bool | None:
        """True if the tool reported success, or None while the call is open."""
        return None if self.result is None else not self.result.is_error

    @property
    def is_work(self) -> bool:
        """True if the called tool does work, rather than planning or managing a list."""
        return self.role == "work"

    @property
    def is_server_side(self) -> bool:
        """True if the provider executed the tool within the reply."""
        return SERVER_SIDE in (self.call.provider_metadata or ())

    @property
    def ran(self) -> bool:
        """True if the tool itself ran to the end."""
        return self.result is not None and self.result.error_code not in NOT_RUN


def is_blocked(record: CallRecord) -> bool:
    """True if a gate blocked the call because it repeats an earlier one."""
    return record.result is not None and record.result.error_code == DUPLICATE


def is_empty_answer(one: WorkflowRound) -> bool:
    """True if the reply holds only thinking or blank text: no call, marker or picture."""
    if one.reply is None or one.records or one.signals:
        return False
    for part in one.reply.parts:  # noqa: SIM110  # a plain loop: called twice at each answer
        if not (isinstance(part, Thinking) or (isinstance(part, Text) and not part.text.strip())):
            return False
    return True


class TodoViolation(msgspec.Struct, frozen=True, gc=False):
    """A work call or a completion that does not follow the todo list."""

    rule: str
    """The violated rule: work_without_todo_in_progress or completed_without_in_progress."""
    call_id: str = ""
    """Id of the violating call."""
    todo_id: int | None = None
    """Id of the completed todo."""


class Retry(msgspec.Struct, frozen=True, gc=False):
    """A failed attempt to call the model that was followed by another."""

    attempt: int
    """Number of the attempt, from 1; 0 if the call was waiting for other calls before its first attempt."""
    seconds: float
    """The wait before the next attempt."""
    reason: str
    """The reason for the failure, in one sentence."""
    status: int | None = None
    """HTTP status, if any."""
    heard: str = ""
    """The partial reply received."""


class WorkflowRound(msgspec.Struct, frozen=True, gc=False):
    """A round of the loop: a model call and its tool calls."""

    index: int
    """Index of the round, from 0."""
    reason: str
    """The reason why the round started: prompt, tool_results, said, or a policy's reason to continue."""
    started_at: datetime | None
    """Time (UTC) at which the round started, or None if unknown."""
    status: RoundStatus = "running"
    """Status of the round at its end."""
    reply: Message | None = None
    """The model's reply, or None if there is none."""
    stop_reason: str = ""
    """The reason why the reply ended, as named by the provider."""
    note: str = ""
    """The status line sent to the model."""
    guidance: Sequence[Guidance] = ()
    """Ephemeral guidance for this round only, in order."""
    followed: tuple[Followed, ...] = ()
    """Compliance of the reply with each piece of guidance, once the round is over."""
    signals: tuple[str, ...] = ()
    """Markers in the reply: complete, continue, stop."""
    completed: Sequence[int] = ()
    """Ids of the todos completed by the model."""
    blocked: Sequence[int] = ()
    """Ids of the todos that the model marked as blocked."""
    todo_violations: Sequence[TodoViolation] = ()
    """The model's deviations from its todo list."""
    said_before: int | None = None
    """Index of the round whose answer this round repeats exactly or nearly."""
    usage: Usage | None = None
    """Usage of this model call."""
    retries: Sequence[Retry] = ()
    """Failed attempts at the model call before the last one."""
    compactions: Sequence[Compaction] = ()
    """Compactions of the conversation before its request was sent; the last may be in progress."""
    recovered: bool = False
    """True if the process died in this round, or right before it, and another process resumed the run."""
    model_seconds: float | None = 0.0
    """Seconds from the request to the complete reply, or None if unknown."""
    metadata: dict[str, Any] = {}
    """Metadata of the model's reply."""
    records: tuple[CallRecord, ...] = ()
    """The tool calls with their results, in the model's order."""
    ended_at: datetime | None = None
    """Time (UTC) at which the round ended, or None while it runs or if the time is unknown."""
    seconds: float | None = 0.0
    """Duration of the round in seconds; 0 while it runs, None if unknown."""

    @property
    def failed_attempts(self) -> int:
        """Number of failed attempts to call the model before the last one."""
        return sum([retry.attempt > 0 for retry in self.retries]) if self.retries else 0

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in the model's order."""
        return tuple([record.call for record in self.records])

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results of the finished calls, in the same order."""
        results = []
        for record in self.records:  # a plain loop: used in every round
            if record.result is not None:
                results.append(record.result)  # noqa: PERF401
        return tuple(results)

    @property
    def text(self) -> str:
        """The text of the reply."""
        return self.reply.text if self.reply is not None else ""

    @property
    def is_final(self) -> bool:
        """True for the final answer requested at a limit."""
        return self.reason == FINAL_ANSWER

    @property
    def is_compacting(self) -> bool:
        """True while a summary of the conversation is being written."""
        return bool(self.compactions) and self.compactions[-1].compacted is None

    @property
    def is_continuation(self) -> bool:
        """True if the model was asked to continue on the person's behalf."""
        return self.reason not in ("prompt", "tool_results", "said")

    @property
    def is_text_only(self) -> bool:
        """True if the reply has no tool calls."""
        return self.reply is not None and not self.records

    @property
    def is_planning_only(self) -> bool:
        """True if the round has tool calls but none of them is work, and it completed no todo."""
        return bool(self.records) and not self.completed and not any(record.is_work for record in self.records)

    @property
    def worked(self) -> bool:
        """True if a work tool ran."""
        for record in self.records:  # used in every round: a generator would take three times as long
            result = record.result
            if record.role == "work" and result is not None and result.error_code not in NOT_RUN:
                return True
        return False
