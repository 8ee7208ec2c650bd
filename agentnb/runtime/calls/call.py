"""One tool call, from its proposal to its one result."""

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
    """A tool call of the model in a round, of a step, or of the tool of another call."""

    made: ToolCall
    """The call as its maker made it."""
    tool: Tool | None = None
    parent_call: str = ""
    """Id of the call whose tool makes this one."""
    step: str = ""
    """Path of the step that makes the call."""
    depth: int = 0
    """Calls of tools, one within the other, that led to this one."""
    state: Literal["proposed", "judged", "asked", "started", "ended"] = "proposed"
    """The last that happened to it. Once it is judged, the gates are not asked again, unless the person changes it."""
    question: WaitingOnUser | None = None
    """The question whether it may run, if that was asked."""
    started: ToolCall | None = None
    """The call as logged at its start: redacted, with the arguments that the person chose. An earlier process may have begun
    it: its tool is run again without another start, in whatever state the call is."""
    is_edited: bool = False
    """Whether the person changed its arguments."""
    outcome: ToolOutcome | None = None
    """Its end; None if the run was stopped, or if it waits for a person who is not here."""
    block: Block | None = None
    """The verdict that kept it from running, if one did."""
    elicitor: CallElicitor | None = None
    """The questions of its tool, once that runs."""
    reports: CallReports | None = None
    """What its tool reports, if it does."""
    turn: asyncio.Lock | None = None
    """Lets the calls of its tool that are not parallel-safe run one by one; None until it makes any."""
    inner_count: int = 0
    """The calls that its tool has made, also in an earlier process."""

    @property
    def waits_for_person(self) -> bool:
        """Whether the person is asked before it runs, or by its tool."""
        return self.state == "asked" or (self.tool is not None and self.tool.blocking)

    @property
    def still_runs(self) -> bool:
        """Whether its plain function runs in a worker thread, although the call was given up."""
        worker = None if self.elicitor is None else self.elicitor.worker
        return worker is not None and worker.is_running
