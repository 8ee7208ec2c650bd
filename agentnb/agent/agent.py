"""An agent: its settings, and the ways to run it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from agentnb.agent.settings import AgentSettings
from agentnb.agent.start import PendingRun
from agentnb.core.events import AnyEvent, Delta
from agentnb.core.log import RunStore, Watcher, Writer
from agentnb.core.messages import Message
from agentnb.core.request import Request
from agentnb.core.run import Run
from agentnb.runtime.foreground import Foreground
from agentnb.runtime.live import LiveRun
from agentnb.runtime.run_options import RunOptions
from agentnb.tools.todos.board import Board


@dataclass(frozen=True, slots=True)
class Agent(AgentSettings):
    """Settings of an agent; it has no state, so one agent may do many runs at once.

    ``model``: a name, ``provider:model``, or a model object. ``tools``: functions, or what `tool` made of them.
    ``system``: the system prompt instead of the built-in one. ``guidance``: the words it is guided with, the name of a set
    (``matrix``, ``off``) or a `GuidanceSet`. ``policy``: how it is kept to its work, ``matrix`` or ``minimal``, or one of
    these with settings, such as ``Matrix(workflow_mode=True)``. ``todos``: whether it keeps a list when it has tools, or
    the board to keep it on. ``history``: how much of a conversation is sent: ``auto``, ``documented``, ``full`` or a `History`.
    ``instructions``: whether it heeds the ``CLAUDE.md``, ``AGENT.md`` or ``AGENTS.md`` of the repository it works in.
    ``work_dir``: the folder tools work in; by default the current one when the run starts.

    Limits of a run, None for no such limit: ``max_rounds``: model calls, 1 to 1,000. ``max_tool_calls``, and
    ``max_tool_calls_per_turn`` since the person last spoke. ``max_seconds``, without those in which the person is waited for.
    ``max_tokens``: sent and received, of all its model calls. ``budget``: US dollars; runs that its tools begin
    spend of it too. With ``unpriced`` a budget may be given although nobody knows what the model costs. ``on_limit``: ``stop``;
    ``final_answer``: the model answers once more, without tools; ``raise``: `RunLimited`.
    Raises a `SettingsError` for what cannot work; a `MissingKey` only when it is set to work.
    """

    async def run(
        self,
        prompt: str | Message,
        *,
        store: RunStore | None = None,
        continue_from: Run | None = None,
        watch: Watcher | None = None,
        work_dir: str | Path | None = None,
        parent_id: str | None = None,
    ) -> Run:
        """Work on the prompt until the run ends, on the running event loop; plain tools run in threads.

        ``store`` keeps the log (without one it is in memory only); ``continue_from`` goes on with a run's conversation;
        ``watch`` is told of every event and delta. A failure of the first round raises a `ModelError`; after a later
        one the run is returned with status ``failed`` and ``run.error``.
        """
        options = RunOptions(store=store, continue_from=continue_from, watch=watch, work_dir=work_dir, parent_id=parent_id)
        return await PendingRun.of_prompt(self, prompt, options).run_here()

    def start(
        self,
        prompt: str | Message,
        options: RunOptions | None = None,
        *,
        store: RunStore | None = None,
        continue_from: Run | None = None,
        watch: Watcher | None = None,
        work_dir: str | Path | None = None,
    ) -> LiveRun:
        """Start a run in the background and return a handle on it at once.

        It runs on an event loop of its own, its plain tools in threads, and its questions wait for ``live.answer(...)``;
        ``options``, given instead of the keywords, can say otherwise.
        """
        if options is None:
            options = RunOptions(store=store, continue_from=continue_from, watch=watch, work_dir=work_dir, can_ask=True)
        return PendingRun.of_prompt(self, prompt, options).start()

    def resume(self, run: Run, writer: Writer | None = None, options: RunOptions | None = None) -> LiveRun:
        """Resume a run whose process died, from where it was cut off, and write its log on with ``writer``.

        ``run`` is folded from its log and grows on. No call that has ended is made again. `recover` does that with the run
        of a store.
        """
        return PendingRun.of_recovered(self, run, writer, options or RunOptions(can_ask=True)).start()

    def run_sync(
        self,
        prompt: str | Message,
        *,
        store: RunStore | None = None,
        continue_from: Run | None = None,
        watch: Watcher | None = None,
        work_dir: str | Path | None = None,
    ) -> Run:
        """As `run`, for scripts and for code that cannot await, inside a running event loop too.

        The calling thread waits and meanwhile runs the plain tools. An interrupt ends the run, closes its log
        and raises KeyboardInterrupt.
        """
        foreground = Foreground()  # and nobody can answer its questions: nobody gets the handle
        options = RunOptions(store=store, continue_from=continue_from, watch=watch, work_dir=work_dir, foreground=foreground)
        return LiveRun.foreground(foreground, lambda: self.start(prompt, options))

    async def stream(
        self, prompt: str | Message, *, store: RunStore | None = None, continue_from: Run | None = None
    ) -> AsyncIterator[AnyEvent | Delta]:
        """The events and deltas of a run, as they come; leaving the loop early cancels the run."""
        items: asyncio.Queue[AnyEvent | Delta | None] = asyncio.Queue()
        run = asyncio.ensure_future(self.run(prompt, store=store, continue_from=continue_from, watch=items.put_nowait))
        run.add_done_callback(lambda _: items.put_nowait(None))
        try:
            while (item := await items.get()) is not None:
                yield item
            await run
        finally:
            if not run.done():
                run.cancel()
                await asyncio.wait([run])
            if not run.cancelled():
                run.exception()  # looked at, so that it is not reported as forgotten

    def first_request(self, prompt: str | Message, *, continue_from: Run | None = None, board: Board | None = None) -> Request:
        """The request a run would begin with. Sends nothing."""
        return PendingRun.of_prompt(self, prompt, RunOptions(continue_from=continue_from, board=board)).first_request()
