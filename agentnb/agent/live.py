"""A handle on a run that is going on."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from typing import Any

from agentnb.agent.threads import AwakeForInterrupts, Foreground
from agentnb.core.inbox import Inbox
from agentnb.core.run import Run
from agentnb.errors import SettingsError


class LiveRun:
    """A run in the background: look at ``run`` while it grows, steer it, ``await`` it for its end.

    All methods return at once and may be called from any thread and any cell.
    """

    def __init__(self, run_id: str, run: Run, inbox: Inbox, future: Future[Run], board: Any = None) -> None:
        self.run_id = run_id
        self.run = run
        self.board = board
        """The todo list, which you may change too: `TodoBoard`, or the agent's own; None if there is none."""
        self._inbox = inbox
        self._future = future

    @property
    def done(self) -> bool:
        """Whether it has ended and its log is closed."""
        return self._future.done()

    def stop(self, why: str = "") -> None:
        """End it now: open calls are answered as cancelled, what it has is kept. One that has ended stays as it is."""
        if not self.done:
            self._inbox.put("stop", why)

    def pause(self) -> None:
        """Hold it before the next round."""
        self._put("pause")

    def resume(self) -> None:
        """Let it go on."""
        self._put("resume")

    def say(self, text: str) -> None:
        """Tell the model something; it reads it in the next round."""
        if not text.strip():
            raise SettingsError("There is nothing to say", "Give some words: live.say(TEXT)")
        self._put("say", text)

    def result(self, timeout: float | None = None) -> Run:
        """Block until it has ended and return the run; TimeoutError after ``timeout`` seconds."""
        return self._future.result(timeout)

    @staticmethod
    def foreground(foreground: Foreground, start: Callable[[], LiveRun]) -> Run:
        """Start a run and wait for it, while the calling thread runs the tools that are handed to ``foreground``.

        An interrupt stops the run and, when its log is closed, raises `RunInterrupted`, a KeyboardInterrupt.
        """

        def begin() -> tuple[Future[Run], Callable[[], None]]:
            live = start()
            return live._future, lambda: live._inbox.put("stop", "interrupted")

        return foreground.wait(begin)

    def __await__(self) -> Generator[Any, None, Run]:
        return self._wait().__await__()

    async def _wait(self) -> Run:
        with AwakeForInterrupts():
            return await asyncio.shield(asyncio.wrap_future(self._future))

    def __repr__(self) -> str:
        return f"<LiveRun {self.run_id} {self.run.status}>"

    def _put(self, name: Any, text: str = "") -> None:
        if self.done:
            raise SettingsError(f"Run {self.run_id} has ended ({self.run.stop_reason})", "Go on with %%agent --continue")
        self._inbox.put(name, text)
