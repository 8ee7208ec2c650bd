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
    result: ToolResult | None = None
    seconds: float = 0.0
    traceback: str = ""


class WorkflowRound(msgspec.Struct, frozen=True):
    """One turn of the loop: a call of the model and the tools it asked for."""

    index: int
    reason: str
    started_at: datetime
    status: RoundStatus = "running"
    reply: Message | None = None
    stop_reason: str = ""
    usage: Usage | None = None
    model_seconds: float = 0.0
    metadata: dict[str, Any] = {}
    records: tuple[CallRecord, ...] = ()
    ended_at: datetime | None = None
    seconds: float = 0.0

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
