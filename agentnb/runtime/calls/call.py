"""A tool call, from its proposal to its one result."""

from __future__ import annotations

import asyncio
from typing import Literal

import msgspec

from agentnb.core.messages import ToolCall
from agentnb.core.questions import WaitingOnUser
from agentnb.policies.gates import Block
from agentnb.runtime.calls.call_reports import CallReports
from agentnb.runtime.questions.elicitation import CallElicitor
from agentnb.tools.tool import Tool, ToolOutcome


class Call(msgspec.Struct, eq=False):
    """A tool call made by the model in a round, by a step, or by another call's tool."""

    made: ToolCall
    """The call as requested."""
    tool: Tool | None = None
    parent_call: str = ""
    """Id of the call whose tool makes this call."""
    step: str = ""
    """Path of the step that makes the call."""
    depth: int = 0
    """Number of enclosing tool calls."""
    state: Literal["proposed", "judged", "asked", "started", "ended"] = "proposed"
    """Its progress. Once a call has been judged, the gates are not consulted again unless the person changes its arguments."""
    question: WaitingOnUser | None = None
    """The approval question, if one was asked."""
    started: ToolCall | None = None
    """The call as logged at its start: redacted, with the arguments that the person chose. If an earlier process logged the
    start, the tool is run again without another log entry, whatever the call's state.
    """
    is_edited: bool = False
    """True if the person changed its arguments."""
    outcome: ToolOutcome | None = None
    """Its result; None if the run was stopped, or while the call waits for an absent person."""
    block: Block | None = None
    """The verdict that blocked it, if any."""
    elicitor: CallElicitor | None = None
    """Asks the questions of its tool, once the tool runs."""
    reports: CallReports | None = None
    """Reports of its tool, if any."""
    turn: asyncio.Lock | None = None
    """Lock that serializes its tool's nested calls that are not parallel-safe; None before the first such call."""
    inner_count: int = 0
    """Number of calls that its tool has made, including those made in an earlier process."""

    @property
    def waits_for_person(self) -> bool:
        """True if the person is asked before the call runs, or by its tool."""
        return self.state == "asked" or (self.tool is not None and self.tool.blocking)

    @property
    def still_runs(self) -> bool:
        """True if its plain function is still running in a worker thread although the call was abandoned."""
        worker = None if self.elicitor is None else self.elicitor.worker
        return worker is not None and worker.is_running
