"""A round of a run: a call of the model and the tools it asked for."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from agentnb.core.compaction import Compaction
from agentnb.core.display_data import Table
from agentnb.core.events import RoundStatus
from agentnb.core.guidance import Followed, Guidance, RoundFacts
from agentnb.core.messages import Message, ToolCall, ToolResult
from agentnb.core.todos import PLANNING_TOOLS
from agentnb.core.usage import Usage

DUPLICATE = "duplicate_call_blocked"
"""The error code of a call that was not run because it repeats itself."""
MAX_TOOL_CALLS, MAX_TOOL_CALLS_PER_TURN = "max_tool_calls", "max_tool_calls_per_turn"
"""The error codes of calls that were not run because there had been so many, and the stop reasons of these limits."""
INTERRUPTED = "interrupted"
"""The error code of a call during which the process died."""
NOT_RUN = frozenset(
    {"unknown_tool", "invalid_arguments", "cancelled", INTERRUPTED, DUPLICATE, MAX_TOOL_CALLS, MAX_TOOL_CALLS_PER_TURN}
)
"""Error codes of calls whose tool was not run, or not to an end."""


FINAL_ANSWER = "final_answer"
"""The reason of a round without tools at a limit."""
BY_SCHEMA = "by_schema"
"""The key of a reply's metadata that says that its text was to keep to a JSON Schema."""
CONTEXT_TOKENS = "context_tokens"
"""The key of a reply's metadata that says how many tokens the conversation has with it, where several calls have made it: its
usage is the sum of all."""
TOKENS_ESTIMATED = "tokens_estimated"
"""The key of a reply's metadata that says that the model did not count all tokens, and what is missing was estimated."""


class CallRecord(msgspec.Struct, frozen=True, gc=False):
    """One tool call of a round with its answer; ``result`` is None until there is one."""

    call: ToolCall
    """As it was run."""
    result: ToolResult | None = None
    """Its one answer."""
    seconds: float = 0.0
    """What the tool itself took."""
    traceback: str = ""
    """Of the person's own code, if it raised."""
    display: Table | None = None
    """What it returned as a table for the eye, where it is one."""
    rule: str = ""
    """Of the gate that did not let it run, if one did not."""

    @property
    def success(self) -> bool | None:
        """Whether the tool said that it went well; None while it is open."""
        return None if self.result is None else not self.result.is_error

    @property
    def is_work(self) -> bool:
        """Whether it is a call of a work tool; any but those that plan."""
        return self.call.name not in PLANNING_TOOLS

    @property
    def ran(self) -> bool:
        """Whether the tool itself was run to an end."""
        return self.result is not None and self.result.error_code not in NOT_RUN


def is_blocked(record: CallRecord) -> bool:
    """Whether a gate did not let it run because it repeats itself."""
    return record.result is not None and record.result.error_code == DUPLICATE


UNTRACKED_WORK = "work_without_todo_in_progress"
UNTRACKED_COMPLETION = "completed_without_in_progress"
TODO_VIOLATIONS = frozenset({UNTRACKED_WORK, UNTRACKED_COMPLETION})


class TodoViolation(msgspec.Struct, frozen=True, gc=False):
    """Something done beside the todo list."""

    rule: str
    """One of `TODO_VIOLATIONS`."""
    call_id: str = ""
    """The call that did it."""
    todo_id: int | None = None
    """The todo that was completed."""


class Retry(msgspec.Struct, frozen=True, gc=False):
    """An attempt to call the model that failed, and was followed by another."""

    attempt: int
    """Counted from 1; 0: none was made, it waited for others before the first."""
    seconds: float
    """How long was waited before the next."""
    reason: str
    """Why it failed, in one sentence."""
    status: int | None = None
    """Of HTTP, if it came to that."""
    heard: str = ""
    """What had come of its reply."""


class WorkflowRound(msgspec.Struct, frozen=True, gc=False):
    """One turn of the loop: a call of the model and the tools it asked for."""

    index: int
    """Counted from 0."""
    reason: str
    """Why it was begun: prompt, tool_results, said, or a policy's reason to go on."""
    started_at: datetime
    """UTC."""
    status: RoundStatus = "running"
    """How it ended."""
    reply: Message | None = None
    """What the model said and asked for; None if no reply came."""
    stop_reason: str = ""
    """Why the reply ended, in the provider's words."""
    note: str = ""
    """What the model was told of where it stands."""
    guidance: tuple[Guidance, ...] = ()
    """What was said to the model for this round only, in order."""
    followed: tuple[Followed, ...] = ()
    """Whether the reply did what each of these asked, once the round is over."""
    signals: tuple[str, ...] = ()
    """Markers in the reply: complete, continue, stop."""
    completed: tuple[int, ...] = ()
    """Ids of the todos that the model completed."""
    blocked: tuple[int, ...] = ()
    """Ids of the todos that it marked as blocked."""
    todo_violations: tuple[TodoViolation, ...] = ()
    """What it did beside its list."""
    said_before: int | None = None
    """The round whose answer this one repeats, nearly or to the letter."""
    usage: Usage | None = None
    """Of this one model call."""
    retries: tuple[Retry, ...] = ()
    """The attempts at it that failed before the last one."""
    compactions: tuple[Compaction, ...] = ()
    """The times that the conversation was compacted before its request could be sent; the last may be under way."""
    recovered: bool = False
    """Whether the process died in this round, or right before it, and another went on."""
    model_seconds: float = 0.0
    """From the request to the whole reply."""
    metadata: dict[str, Any] = {}
    """What the model had kept with its reply."""
    records: tuple[CallRecord, ...] = ()
    """The calls with their answers, in the order the model made them."""
    ended_at: datetime | None = None
    """UTC; None while it goes on."""
    seconds: float = 0.0
    """Of the whole round; 0 while it goes on."""

    @property
    def failed_attempts(self) -> int:
        """How often calling the model failed before the last attempt."""
        return sum(retry.attempt > 0 for retry in self.retries)

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls, in the order the model made them."""
        return tuple([record.call for record in self.records])

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """Their results, in the same order; a call that is still running has none yet."""
        return tuple([record.result for record in self.records if record.result is not None])

    @property
    def text(self) -> str:
        """What the model said."""
        return self.reply.text if self.reply is not None else ""

    @property
    def is_final(self) -> bool:
        """Whether it is the answer that was asked for when a limit was reached."""
        return self.reason == FINAL_ANSWER

    @property
    def is_continuation(self) -> bool:
        """Whether the model was told to go on in the person's place."""
        return self.reason not in ("prompt", "tool_results", "said")

    @property
    def is_text_only(self) -> bool:
        """Whether the reply is words alone."""
        return self.reply is not None and not self.records

    @property
    def is_planning_only(self) -> bool:
        """Whether it has calls, all of them planning, and completed no todo."""
        return bool(self.records) and not self.completed and not any(record.is_work for record in self.records)

    @property
    def worked(self) -> bool:
        """Whether a work tool ran."""
        for record in self.records:  # noqa: SIM110  # asked in every round: a generator would take three times as long
            if record.is_work and record.ran:
                return True
        return False

    @property
    def facts(self) -> RoundFacts:
        """What it did, as far as guidance is concerned."""
        called = bool(self.records)
        return RoundFacts(
            replied=self.reply is not None and self.stop_reason != "broken_off",
            called=called,
            answered=not called and bool(self.text.strip()),
            worked=called and self.worked,
            completed=bool(self.completed),
            blocked=bool(self.blocked),
            complete="complete" in self.signals,
            repeats=self.said_before is not None,
            undisciplined=bool(self.todo_violations)
            and any(violation.rule == UNTRACKED_WORK for violation in self.todo_violations),
        )
