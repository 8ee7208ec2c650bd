"""An agent: settings, and the ways to set it to work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from agentnb import settings
from agentnb.agent.limits import check_limits, limited, limits_as_logged, limits_of
from agentnb.agent.loop import OnLimit
from agentnb.agent.start import (
    Reopened,
    Task,
    as_prompt,
    began_in,
    begin,
    board_of,
    check_budget,
    first_request,
    new_log,
    run_abandonable,
    toolbox_of,
)
from agentnb.context.history import History, as_logged, find_history
from agentnb.core.events import AnyEvent, Delta
from agentnb.core.inbox import Inbox
from agentnb.core.log import RunStore, Watcher, Writer
from agentnb.core.messages import Message, user
from agentnb.core.request import Request
from agentnb.core.run import Run
from agentnb.core.todos import TODO_TOOL
from agentnb.errors import InvalidTool, SettingsError
from agentnb.guidance import GuidanceSet, find_set
from agentnb.models.model import Model
from agentnb.models.registry import check_model, make_model
from agentnb.policies import PolicyBundle, PolicySet, find_policy, settings_of
from agentnb.runtime.budget import Budget
from agentnb.runtime.live import LiveRun
from agentnb.runtime.threads import AwakeForInterrupts, Foreground, LoopThread, call_in_thread
from agentnb.tools.read_result import READ_TOOL
from agentnb.tools.todos.board import Board, TodoBoard, is_board
from agentnb.tools.tool import CallSync
from agentnb.tools.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class Agent:
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

    model: str | Model
    tools: Iterable[Any] = ()
    system: str | None = None
    guidance: str | GuidanceSet = "matrix"
    policy: str | PolicySet = "matrix"
    max_rounds: int = field(default_factory=settings.max_iterations)
    todos: bool | Board = True
    history: str | History = "auto"
    instructions: bool = True
    max_tool_calls: int | None = None
    max_tool_calls_per_turn: int | None = None
    max_seconds: float | None = None
    max_tokens: int | None = None
    budget: float | None = None
    unpriced: bool = False
    on_limit: OnLimit = "stop"
    work_dir: str | Path | None = None
    name: str = "agent"
    sends: History = field(init=False, repr=False, compare=False)
    """What of a conversation is sent, as `history` says."""
    toolbox: Toolbox = field(init=False, repr=False, compare=False)
    rules: PolicyBundle = field(init=False, repr=False, compare=False)
    settings: dict[str, Any] = field(init=False, repr=False, compare=False)
    """What decides the course of its runs, as plain data for their logs."""

    def __post_init__(self) -> None:
        check_model(self.model)
        check_limits(self)
        if isinstance(self.tools, str) or not isinstance(self.tools, Iterable):
            raise SettingsError(f"tools={self.tools!r} is not a list", "Write tools=[my_function]")
        if self.system is not None and not isinstance(self.system, str):
            raise SettingsError(f"system={self.system!r} is not a text")
        if self.work_dir is not None and not isinstance(self.work_dir, str | Path):
            raise SettingsError(f"work_dir={self.work_dir!r} is not a folder", "Give a path, or None for the current folder")
        object.__setattr__(self, "tools", tuple(self.tools) if settings.tools_enabled() else ())
        object.__setattr__(self, "sends", find_history(self.history))
        object.__setattr__(self, "toolbox", Toolbox(self.tools))
        if not isinstance(self.todos, bool) and not is_board(self.todos):
            raise SettingsError(f"todos={self.todos!r} is no todo board", "Write todos=True, or todos=TodoBoard([...])")
        self._check_names()
        words, policy = find_set(self.guidance), find_policy(self.policy)
        repeatable = [tool.spec.name for tool in self.toolbox if getattr(tool, "repeatable", False)]
        object.__setattr__(self, "rules", limited(policy.rules(words, *limits_of(self), repeatable=repeatable), self))
        logged = {
            "max_rounds": self.max_rounds,
            "guidance": {"set": words.name, "version": words.version},
            "policy": settings_of(policy),
            "todos": self.keeps_todos,
            "history": as_logged(self.sends),
            **limits_as_logged(self),
        }
        object.__setattr__(self, "settings", logged)

    def _check_names(self) -> None:
        """Raise `InvalidTool` where a tool has the name of one of agentnb's own."""
        if self.keeps_todos and self.toolbox.get(TODO_TOOL) is not None:
            raise InvalidTool(
                f"{TODO_TOOL} is the tool of agentnb's own list", "Give yours another name, or Agent(todos=False)"
            )
        if self.sends.result_characters is not None and self.toolbox.get(READ_TOOL) is not None:
            raise InvalidTool(
                f"{READ_TOOL} is the tool with which a model reads long results",
                'Give yours another name, or Agent(history="full")',
            )

    @property
    def keeps_todos(self) -> bool:
        """Whether its runs have a todo list: it has tools to work with, or a board of its own."""
        return len(self.toolbox) > 0 if self.todos is True else self.todos is not False

    @property
    def model_name(self) -> str:
        """``provider:model``."""
        return self.model if isinstance(self.model, str) else self.model.name

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
        task = self._task(prompt, store, continue_from, watch, work_dir, parent_id)
        # A key may be in the system's keyring, which may take its time, and ask.
        model = await asyncio.to_thread(make_model, self.model) if isinstance(self.model, str) else self.model
        with AwakeForInterrupts():
            check_budget(self, model, task)
            _, running = begin(self, model, task, new_log(task), Inbox(), call_in_thread)
            return await running

    def start(
        self,
        prompt: str | Message,
        *,
        store: RunStore | None = None,
        continue_from: Run | None = None,
        watch: Watcher | None = None,
        work_dir: str | Path | None = None,
        thread: LoopThread | None = None,
        foreground: Foreground | None = None,
        board: Board | None = None,
        can_ask: bool = True,
        budget: Budget | None = None,
    ) -> LiveRun:
        """Begin a run in the background and return a handle on it at once.

        It runs on the event loop of ``thread``, by default one of its own; with ``foreground`` plain tools
        wait to be run there (see `LiveRun.foreground`), else they run in threads;
        ``board`` is the list to go on with, by default that of the conversation. With ``can_ask=False`` nobody answers what
        its tools ask the person: they are told so, instead of waiting for ``live.answer(...)``. ``budget`` is what the run is
        paid from, besides its own budget.
        """
        task = self._task(prompt, store, continue_from, watch, work_dir, board=board)
        return self._begin(replace(task, can_ask=can_ask, budget=budget), thread, foreground)

    def resume(
        self,
        run: Run,
        writer: Writer | None = None,
        *,
        watch: Watcher | None = None,
        work_dir: str | Path | None = None,
        thread: LoopThread | None = None,
        foreground: Foreground | None = None,
        can_ask: bool = True,
        budget: Budget | None = None,
    ) -> LiveRun:
        """Go on with a run whose process died, from where it was cut off, and write its log on with ``writer``.

        ``run`` is folded from its log and grows on. No call that has ended is made again. `recover` does that with the run
        of a store.
        """
        if not run.should_continue:
            raise SettingsError(f"Run {run.id} has ended ({run.status})", "Go on with its conversation: %%agent --continue")
        task = self._task(
            user(run.prompt), None, None, watch, work_dir, board=board_of(self, run) or TodoBoard(run.conversation_todos)
        )
        opened = None if writer is None else Reopened(writer)
        task = replace(task, can_ask=can_ask, budget=budget, recovered=run, parent_id=run.parent_id, store=opened)
        return self._begin(task, thread, foreground)

    def _begin(self, task: Task, thread: LoopThread | None, foreground: Foreground | None) -> LiveRun:
        """Set the task going on an event loop in a thread."""
        model = make_model(self.model)
        log, inbox = new_log(task), Inbox()
        call_sync: CallSync = call_in_thread
        if foreground is None:
            task = replace(task, detached=True)
        else:
            call_sync, task = foreground.call, replace(task, end_tool=foreground.end_tool)
        check_budget(self, model, task)
        on = thread or LoopThread()
        future = on.submit(lambda: run_abandonable(partial(begin, self, model, task, log, inbox, call_sync), log))
        if thread is None:
            future.add_done_callback(lambda _: on.close())
        kept = task.carried_board if task.board is None else task.board
        return LiveRun(log.id, log.run, inbox, future, kept, foreground)

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
        foreground = Foreground()
        return LiveRun.foreground(
            foreground,
            lambda: self.start(
                prompt,
                store=store,
                continue_from=continue_from,
                watch=watch,
                work_dir=work_dir,
                foreground=foreground,
                can_ask=False,  # nobody gets the handle
            ),
        )

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
        return first_request(self, self._task(prompt, None, continue_from, None, None, board=board))

    def _task(
        self,
        prompt: str | Message,
        store: RunStore | None,
        continue_from: Run | None,
        watch: Watcher | None,
        work_dir: str | Path | None,
        parent_id: str | None = None,
        board: Board | None = None,
    ) -> Task:
        if store is not None and not callable(getattr(store, "open", None)):
            raise SettingsError(f"store={store!r} is no store", 'Make one: Store("runs")')
        if continue_from is not None and not isinstance(continue_from, Run):
            raise SettingsError(f"continue_from={continue_from!r} is no run", "Load it first: load_trace(PATH)")
        folder = Path(work_dir) if work_dir is not None else None
        watchers = (watch,) if watch is not None else ()
        resting = board if not self.keeps_todos else None
        board = board if board is not None and self.keeps_todos else board_of(self, continue_from)
        return Task(
            as_prompt(prompt),
            continue_from,
            parent_id or began_in(),
            folder,
            store,
            watchers,
            board,
            resting,
            toolbox_of(self, board),
        )
