"""The services of a run for its running tools: report progress, call other tools of the run, begin nested runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Container, Coroutine
from typing import Any, TypeAlias, TypeVar
from weakref import WeakMethod

from agentnb.core.events import NestedStart, Progress
from agentnb.core.json_schema import plain_data
from agentnb.core.messages import encodable
from agentnb.errors import SettingsError, ToolFailed
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.host import main_thread_is_held
from agentnb.runtime.prints import CallPrints
from agentnb.runtime.progress import CallProgress
from agentnb.runtime.threads import running_loop, wait_until_over
from agentnb.tools.tool import ToolOutcome

T = TypeVar("T")
StartRun: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
"""Begins a nested run of an agent, workflow or orchestration with a prompt, and waits for its end."""
CallInside: TypeAlias = Callable[[str, str, Any], Coroutine[Any, Any, ToolOutcome]]
"""Runs a call: the id of the call that makes it, the name of the tool and the arguments."""


async def cannot_start(runnable: Any, prompt: Any) -> Any:
    """Refuse to begin a nested run."""
    raise SettingsError("This run cannot begin others", "Write: await agent.run(...)")


class InsideCalls:
    """The services of a run for all its calls, on the event loop of the run. Nearly all calls use none of them."""

    def __init__(self, log: EventLog, running: Container[str], call: CallInside, start_run: StartRun) -> None:
        """``running``: the ids of the calls that have begun and not ended; ``call``: a method."""
        self._log = log
        self._running = running
        self._call = WeakMethod(call)  # else the calls of a run would keep each other, and it, in memory after its end
        self._start_run = start_run
        self.loop: asyncio.AbstractEventLoop | None = None
        """That of the run, since its first call."""
        self._lock = threading.RLock()  # a finalizer may print meanwhile
        self._progress: dict[str, CallProgress] = {}
        """By the id of the call; of those that report."""
        self._prints: dict[str, CallPrints] = {}
        """By the id of the call; of those that print."""
        self._nested: dict[str, list[NestedStart]] = {}
        """By the id of the call; of those that begin runs."""

    def report(self, call_id: str, done: float, total: float | None, text: str) -> None:
        """Take how far this call has come, from any thread."""
        assert self.loop is not None, "a call reports while it runs"
        with self._lock:
            progress = self._progress.get(call_id)
            if progress is None:
                progress = self._progress[call_id] = CallProgress(self._log, call_id, self.loop)
            if call_id not in self._running:  # looked up last: `close` comes after its end, and finds what is there
                del self._progress[call_id]
                return
        progress.report(done, total, text)

    def close(self, call_id: str) -> Progress | None:
        """Take no more reports of this call, which has ended, and return the last."""
        if not self._progress:
            return None
        with self._lock:
            progress = self._progress.pop(call_id, None)
        return None if progress is None else progress.close()

    def printed(self, call_id: str, text: str) -> bool:
        """Take a text that this call prints, from any thread; False if the call has ended, or nobody shows it there."""
        if not self._log.shows_prints:
            return False
        assert self.loop is not None, "a call prints while it runs"
        with self._lock:
            prints = self._prints.get(call_id)
            if prints is None:
                prints = self._prints[call_id] = CallPrints(self._log, call_id, self.loop)
            if call_id not in self._running:  # looked up last, as in `report`
                del self._prints[call_id]
                return False
        prints.write(text)
        return True

    def close_prints(self, call_id: str) -> str:
        """Take no more prints of this call, which has ended, and return what is kept of them."""
        if not self._prints:
            return ""
        with self._lock:
            prints = self._prints.pop(call_id, None)
        return "" if prints is None else prints.close()

    def begun(self, call_id: str, run_id: str, agent: str) -> None:
        """Note a run that this call begins, from any thread."""
        with self._lock:
            self._nested.setdefault(call_id, []).append(NestedStart(run_id, encodable(agent)))
            if call_id not in self._running:  # looked up last, as in `report`
                del self._nested[call_id]

    def close_nested(self, call_id: str) -> tuple[NestedStart, ...]:
        """Return the runs that this call, which has ended, began."""
        if not self._nested:
            return ()
        with self._lock:
            return tuple(self._nested.pop(call_id, ()))

    async def call(self, call_id: str, name: str, arguments: dict[str, Any]) -> ToolOutcome:
        """Call a tool of the run; raises `ToolFailed` if it fails or is blocked."""
        plain, run_call = plain_data(arguments, f"What is given to {name}"), self._call()
        if run_call is None:
            raise asyncio.CancelledError("The run has ended")
        outcome = await self._on_loop(run_call(call_id, name, plain))
        if not outcome.ok:
            failed = ToolFailed(outcome.text or f"{name} failed")
            failed.error_code = outcome.error_code
            raise failed
        return outcome

    def call_sync(self, call_id: str, name: str, arguments: dict[str, Any]) -> ToolOutcome:
        """Call a tool like `call`, and block the calling thread until the call has ended."""
        assert self.loop is not None, "a call asks for services while it runs"
        if running_loop() is self.loop:
            raise SettingsError("call_sync would hold up the event loop that runs the call", "Write: await context.call(...)")
        holds_main_thread = threading.current_thread() is threading.main_thread()

        async def called() -> ToolOutcome:
            if holds_main_thread:
                main_thread_is_held.set(True)
            return await self.call(call_id, name, arguments)

        return wait_until_over(asyncio.run_coroutine_threadsafe(called(), self.loop), lambda: call_id not in self._running)

    async def start_run(self, runnable: Any, prompt: Any) -> Any:
        """Begin a nested run and wait for its end."""

        async def started() -> Any:
            return await self._start_run(runnable, prompt)

        return await self._on_loop(started())

    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        assert self.loop is not None, "a call asks for services while it runs"
        if asyncio.get_running_loop() is self.loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))
