"""A round of a run: a model call and the tool calls it made."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Literal

import msgspec

from agentnb.core.compaction import Compaction
from agentnb.core.display_data import Table
from agentnb.core.guidance import Followed, Guidance
from agentnb.core.log.events import NestedStart, Progress, RoundStatus, ToolFinished
from agentnb.core.messages import Message, Text, Thinking, ToolCall, ToolResult
from agentnb.core.request import ToolRole
from agentnb.core.usage import Usage

DUPLICATE = "duplicate_call_blocked"
"""Error code of a call that was blocked because it repeats an earlier one."""
MAX_TOOL_CALLS, MAX_TOOL_CALLS_PER_TURN = "max_tool_calls", "max_tool_calls_per_turn"
"""Error codes of calls that were blocked because a limit was reached, and the stop reasons of these limits."""
TIME_LIMIT = "time_limit"
"""Error code of a call that the time limit of the run cut off."""
LIMIT_REACHED = "limit_reached"
"""Error code of a call in the final answer at a limit, which may call no tool."""
DENIED = "denied"
"""Error code of a call that a gate or the person denied."""
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
"""Error codes of calls whose tool did not run, or not to the end."""
LOST = "lost"
"""Error code of the placeholder for a result that a trace of another product lacks."""
AWAITS_APPROVAL = "waiting"
"""Error code of a call that still waited for approval when the trace of another product ended."""
WITHOUT_RESULT = frozenset({LOST, AWAITS_APPROVAL})
"""Error codes of calls whose outcome is unknown: not errors of a tool."""
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
"""Metadata key of a call that the provider ran itself, with its type, as in ``{"server_side": {"type": "mcp_call"}}``."""


ASKED_FOR_TOOLS = frozenset({"tool_use", "tool_calls", "function_call"})
"""Providers' stop reasons that announce tool calls; if there is text and no call, the text is the answer."""
BROKEN_OFF = "broken_off"
"""The stop reason of a partial reply."""
PLAN_EXECUTED, PLAN_DECLINED = "plan_executed", "plan_declined"
"""The reasons of the rounds in which the model reads what the person decided about its draft."""
FINAL_ANSWER = "final_answer"
"""The reason of the round at a limit that asks for an answer without tools."""
LEARNED_TRAITS = "learned_traits"
"""Metadata key of a reply for the traits of its server that refusals have named, whose request was made by them."""
BY_SCHEMA = "by_schema"
"""Metadata key of a reply whose text was to follow a JSON Schema."""
CONTEXT_TOKENS = "context_tokens"
"""Metadata key of a reply made by several calls: the tokens of the conversation with it. Its usage is the sum of all calls."""
TOKENS_ESTIMATED = "tokens_estimated"
"""Metadata key of a reply of which the model did not count all tokens; the missing counts are estimates."""


class CallRecord(msgspec.Struct, frozen=True, gc=False):
    """One tool call of a round with its result; ``result`` is None until there is one."""

    call: ToolCall
    """The call as it was run."""
    result: ToolResult | None = None
    """The one result of the call."""
    seconds: float | None = 0.0
    """Seconds that the tool itself took; None where that is unknown."""
    traceback: str = ""
    """Traceback of the person's own code, if it raised."""
    display: Table | None = None
    """The table that the tool returned, if it did, for display."""
    rule: str = ""
    """The rule of the gate that blocked the call, if one did."""
    progress: Progress | None = None
    """The last that the tool said about how far it had come."""
    role: ToolRole = "work"
    """What its tool is for."""
    inner: tuple[CallRecord, ...] = ()
    """The calls that the tool itself made, of which the model knows nothing."""
    waits: bool = False
    """Whether it has not begun because it waits for the person to approve it."""
    printed: str = ""
    """The end of what the tool printed, if a notebook kept it with the call; the model does not see it."""
    nested: tuple[NestedStart, ...] = ()
    """The runs that the tool began, in order; known once it has ended."""

    def ended(self, event: ToolFinished) -> CallRecord:
        """Return the record with the result of the call."""
        details = (event.seconds, event.traceback, event.display, self.rule, event.progress, self.role, self.inner)
        return CallRecord(self.call, event.result, *details, printed=event.printed, nested=event.nested)

    @property
    def success(self) -> bool | None:
        """Whether the tool reported success; None while the call is open."""
        return None if self.result is None else not self.result.is_error

    @property
    def is_work(self) -> bool:
        """Whether it calls a work tool: one that neither plans nor holds a list."""
        return self.role == "work"

    @property
    def is_server_side(self) -> bool:
        """Whether the provider ran the tool itself, within the reply."""
        return SERVER_SIDE in (self.call.provider_metadata or ())

    @property
    def ran(self) -> bool:
        """Whether the tool itself ran to the end."""
        return self.result is not None and self.result.error_code not in NOT_RUN


def is_blocked(record: CallRecord) -> bool:
    """Return whether a gate blocked the call because it repeats an earlier one."""
    return record.result is not None and record.result.error_code == DUPLICATE


def is_empty_answer(one: WorkflowRound) -> bool:
    """Return whether the reply holds only thinking or blank text: no call, no marker, no picture."""
    if one.reply is None or one.records or one.signals:
        return False
    for part in one.reply.parts:  # noqa: SIM110  # a plain loop: two endings ask for it at each answer
        if not (isinstance(part, Thinking) or (isinstance(part, Text) and not part.text.strip())):
            return False
    return True


class TodoViolation(msgspec.Struct, frozen=True, gc=False):
    """Work or a completion that does not follow the todo list."""

    rule: str
    """work_without_todo_in_progress or completed_without_in_progress."""
    call_id: str = ""
    """Id of the call that did it."""
    todo_id: int | None = None
    """Id of the todo that was completed."""


class Retry(msgspec.Struct, frozen=True, gc=False):
    """A failed attempt to call the model, which was followed by another."""

    attempt: int
    """Counted from 1; 0: none was made, the call waited for others before the first."""
    seconds: float
    """The wait before the next attempt."""
    reason: str
    """Why it failed, in one sentence."""
    status: int | None = None
    """HTTP status, if there was one."""
    heard: str = ""
    """The part of its reply that had come."""


class WorkflowRound(msgspec.Struct, frozen=True, gc=False):
    """One round of the loop: a model call and the tool calls it made."""

    index: int
    """Counted from 0."""
    reason: str
    """Why it began: prompt, tool_results, said, or a policy's reason to continue."""
    started_at: datetime | None
    """UTC; None where that is unknown."""
    status: RoundStatus = "running"
    """How it ended."""
    reply: Message | None = None
    """The model's reply; None if none came."""
    stop_reason: str = ""
    """Why the reply ended, in the provider's words."""
    note: str = ""
    """The line that told the model where the run stands."""
    guidance: Sequence[Guidance] = ()
    """Ephemeral guidance for this round only, in order."""
    followed: tuple[Followed, ...] = ()
    """Whether the reply followed each of these, once the round is over."""
    signals: tuple[str, ...] = ()
    """Markers in the reply: complete, continue, stop."""
    completed: Sequence[int] = ()
    """Ids of the todos that the model completed."""
    blocked: Sequence[int] = ()
    """Ids of the todos that the model marked as blocked."""
    todo_violations: Sequence[TodoViolation] = ()
    """What the model did without following its todo list."""
    said_before: int | None = None
    """Index of the round whose answer this one repeats, nearly or exactly."""
    usage: Usage | None = None
    """Usage of this one model call."""
    retries: Sequence[Retry] = ()
    """The failed attempts at the model call before the last one."""
    compactions: Sequence[Compaction] = ()
    """Compactions of the conversation before its request could be sent; the last may be under way."""
    recovered: bool = False
    """Whether the process died in this round, or right before it, and another resumed the run."""
    model_seconds: float | None = 0.0
    """Seconds from the request to the whole reply; None where that is unknown."""
    metadata: dict[str, Any] = {}
    """Metadata that came with the model's reply."""
    records: tuple[CallRecord, ...] = ()
    """The tool calls with their results, in the order the model made them."""
    ended_at: datetime | None = None
    """UTC; None while the round runs, or where that is unknown."""
    seconds: float | None = 0.0
    """Seconds of the whole round; 0 while it runs, None where that is unknown."""

    @property
    def failed_attempts(self) -> int:
        """Number of attempts to call the model that failed before the last one."""
        return sum([retry.attempt > 0 for retry in self.retries]) if self.retries else 0

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls, in the order the model made them."""
        return tuple([record.call for record in self.records])

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """Their results, in the same order; a call that is still running has none yet."""
        results = []
        for record in self.records:  # a plain loop: this is read in every round
            if record.result is not None:
                results.append(record.result)  # noqa: PERF401
        return tuple(results)

    @property
    def text(self) -> str:
        """The text of the reply."""
        return self.reply.text if self.reply is not None else ""

    @property
    def is_final(self) -> bool:
        """Whether it is the final answer requested when a limit was reached."""
        return self.reason == FINAL_ANSWER

    @property
    def is_compacting(self) -> bool:
        """Whether the round is writing a summary of the conversation."""
        return bool(self.compactions) and self.compactions[-1].compacted is None

    @property
    def is_continuation(self) -> bool:
        """Whether the model was asked to continue in the person's place."""
        return self.reason not in ("prompt", "tool_results", "said")

    @property
    def is_text_only(self) -> bool:
        """Whether the reply is a text-only reply."""
        return self.reply is not None and not self.records

    @property
    def is_planning_only(self) -> bool:
        """Whether it has tool calls, all of them planning, and completed no todo."""
        return bool(self.records) and not self.completed and not any(record.is_work for record in self.records)

    @property
    def worked(self) -> bool:
        """Whether a work tool ran."""
        for record in self.records:  # runs in every round: a generator would take three times as long
            result = record.result
            if record.role == "work" and result is not None and result.error_code not in NOT_RUN:
                return True
        return False
