"""Context of a run, shared by its lifecycle, its orchestrator and its tool calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

from agentnb.advice import Advised
from agentnb.core.inbox import Inbox
from agentnb.core.log.stores import Writer
from agentnb.runtime.budget import Budget
from agentnb.runtime.calls.run_servers import RunServers
from agentnb.runtime.clock import Clock
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.host.host import Host
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.questions.elicitation import Elicitation
from agentnb.tools.tool import CallSync

OpenLog: TypeAlias = Callable[[], Awaitable[Writer]]
"""Opens the log of a run in its store."""


@dataclass(slots=True, kw_only=True, eq=False)
class RunContext:
    """Context of one run: log, time, money, person, threads, folder and servers.

    Its permissions, and the call that awaits it, are held by its elicitation.
    """

    log: EventLog
    inbox: Inbox
    clock: Clock
    budget: Budget
    elicitation: Elicitation
    call_sync: CallSync
    """Runs plain functions in the right thread."""
    work_dir: Path
    """Working folder of its tools."""
    options: RunOptions = field(default_factory=RunOptions)
    """Options from the person and the host; the folder is absolute."""
    host: Host = field(default_factory=Host)
    servers: RunServers | None = None
    """MCP servers that the run names, or None if it names none."""
    open_log: OpenLog | None = None
    """Opens the log, or None if the log is not kept."""
    warnings: Sequence[tuple[str, Advised]] = ()
    """Warnings for the person at the start, each with advice."""

    @property
    def is_kept(self) -> bool:
        """True if the log is kept, so that the run may be suspended."""
        return self.open_log is not None
