"""How one run is carried out, whatever its agent: what it goes on from, who keeps and watches it, who answers and pays."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from agentnb.core.log import RunStore, Watcher
from agentnb.core.run import Run
from agentnb.errors import SettingsError
from agentnb.runtime.budget import Budget
from agentnb.runtime.foreground import Foreground
from agentnb.runtime.threads import LoopThread
from agentnb.tools.todos.board import Board


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The options of one run. Raises `SettingsError` for a store or a run that is none."""

    store: RunStore | None = None
    """Keeps the log; without one it is in memory only."""
    continue_from: Run | None = None
    """The run whose conversation goes on."""
    watch: Watcher | None = None
    """Is told of every event and delta."""
    work_dir: str | Path | None = None
    """The folder tools work in, instead of the agent's own."""
    parent_id: str | None = None
    """The run that this one is nested in; by default the one whose tool starts it."""
    board: Board | None = None
    """The todo list to go on with; by default that of the conversation."""
    can_ask: bool = False
    """Whether somebody can answer what the tools ask the person."""
    budget: Budget | None = None
    """What the run is paid from, besides its agent's own budget."""
    thread: LoopThread | None = None
    """The event loop it runs on; by default one of its own."""
    foreground: Foreground | None = None
    """The thread that waits for the run and runs its plain tools; without one they run in threads."""

    def __post_init__(self) -> None:
        if self.store is not None and not callable(getattr(self.store, "open", None)):
            raise SettingsError(f"store={self.store!r} is no store", 'Make one: Store("runs")')
        if self.continue_from is not None and not isinstance(self.continue_from, Run):
            raise SettingsError(f"continue_from={self.continue_from!r} is no run", "Load it first: load_trace(PATH)")
