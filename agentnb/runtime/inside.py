"""What a running tool may do of itself: call other tools of its run, and begin nested runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeAlias, TypeVar

from agentnb.core.events import Progress
from agentnb.core.json_schema import plain_data
from agentnb.errors import SettingsError, ToolFailed
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.progress import CallProgress
from agentnb.tools.tool import ToolOutcome

T = TypeVar("T")
StartRun: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
"""Begins a nested run of an agent with a prompt, and waits for its end."""
CallInside: TypeAlias = Callable[[str, str, Any], Coroutine[Any, Any, ToolOutcome]]
"""Runs a call: the id of the call that makes it, the name of the tool and the arguments."""


_one_at_a_time = threading.Lock()
"""Held while the progress of a call is made, as threads of a tool may report at once."""


async def cannot_start(agent: Any, prompt: Any) -> Any:
    """Refuse to begin a nested run."""
    raise SettingsError("This run cannot begin others", "Write: await agent.run(...)")


class InsideCall:
    """The services of a run for one call: its progress, and the calls and runs of its tool, on the event loop of the run."""

    __slots__ = ("_call", "_call_id", "_log", "_loop", "_over", "_progress", "_start_run")

    def __init__(self, log: EventLog, call_id: str, call: CallInside, start_run: StartRun) -> None:
        self._log = log
        self._call_id = call_id
        self._call = call
        self._start_run = start_run
        self._loop = asyncio.get_running_loop()
        self._progress: CallProgress | None = None  # nearly all calls report nothing
        self._over = False

    def report(self, done: float, total: float | None, text: str) -> None:
        """Take how far the call has come, from any thread."""
        with _one_at_a_time:
            if self._over:
                return
            progress = self._progress = self._progress or CallProgress(self._log, self._call_id, self._loop)
        progress.report(done, total, text)

    def close(self) -> Progress | None:
        """Take no more reports, and return the last."""
        with _one_at_a_time:
            self._over = True
        return None if self._progress is None else self._progress.close()

    async def call(self, name: str, arguments: dict[str, Any]) -> ToolOutcome:
        """Call a tool of the run; raises `ToolFailed` if it fails or is blocked."""
        plain = plain_data(arguments, f"What is given to {name}")
        outcome = await self._on_loop(self._call(self._call_id, name, plain))
        if not outcome.ok:
            failed = ToolFailed(outcome.text or f"{name} failed")
            failed.error_code = outcome.error_code
            raise failed
        return outcome

    async def start_run(self, agent: Any, prompt: Any) -> Any:
        """Begin a nested run and wait for its end."""

        async def started() -> Any:
            return await self._start_run(agent, prompt)

        return await self._on_loop(started())

    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        if asyncio.get_running_loop() is self._loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))
