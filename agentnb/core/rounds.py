"""A round of a run: a call of the model and the tools it asked for."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from agentnb.core.events import RoundStatus
from agentnb.core.messages import Message, ToolCall, ToolResult
from agentnb.core.usage import Usage


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

    @property
    def success(self) -> bool | None:
        """Whether the tool said that it went well; None while it is open."""
        return None if self.result is None else not self.result.is_error


class WorkflowRound(msgspec.Struct, frozen=True):
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
    usage: Usage | None = None
    """Of this one model call."""
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
    def calls(self) -> tuple[ToolCall, ...]:
        """The calls, in the order the model made them."""
        return tuple(record.call for record in self.records)

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """Their results, in the same order; a call that is still running has none yet."""
        return tuple(record.result for record in self.records if record.result is not None)

    @property
    def text(self) -> str:
        """What the model said."""
        return self.reply.text if self.reply is not None else ""

    @property
    def is_continuation(self) -> bool:
        """Whether the model was told to go on in the person's place."""
        return self.reason not in ("prompt", "tool_results", "said")
