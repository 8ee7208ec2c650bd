"""What every run starts with, whatever its orchestrator: its id, its log, its budget, and a handle on it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any

from agentnb.core.inbox import Inbox
from agentnb.core.log import Watcher, Writer
from agentnb.detect.run import Run
from agentnb.errors import SettingsError
from agentnb.runtime.approval import answering
from agentnb.runtime.budget import OWN, Budget, current_budget, nested_levels
from agentnb.runtime.clock import Clock
from agentnb.runtime.elicitation import Elicitation, current_call
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.host import Beginning, Host, current_host, hosted, on_main_thread
from agentnb.runtime.live import LiveRun
from agentnb.runtime.run_options import RunOptions
from agentnb.runtime.terminal_line import progress_watcher
from agentnb.runtime.threads import LoopThread
from agentnb.tools.todos.board import Board

MAX_LEVELS = 20
"""Runs that tools begin, one within the other."""


def new_run_id() -> str:
    """Return a new run id: the time (UTC) to the millisecond, so that ids sort by age, and eight random hex digits."""
    seconds, milliseconds = divmod(time.time_ns() // 1_000_000, 1000)
    return time.strftime("%Y%m%d-%H%M%S-", time.gmtime(seconds)) + f"{milliseconds:03d}{secrets.token_hex(4)}"


def parent_of(options: RunOptions) -> str | None:
    """Return the id of the parent run: that of the options, else the run whose tool is running; None for a top-level run."""
    if options.parent is not None:
        return options.parent.id
    around = current_budget.get()
    return options.parent_id or (None if around is None else around.run_id)


def log_of(options: RunOptions, *, parent_id: str | None = None, recovered: Run | None = None) -> EventLog:
    """Return the log of a new run, or of the ``recovered`` one."""
    if nested_levels.get() >= MAX_LEVELS:
        what = f"Runs are nested {MAX_LEVELS} levels deep: a tool of each began the next"
        raise SettingsError(what, "Give the innermost agent other tools, or no tool that begins runs")
    watchers: tuple[Watcher, ...] = () if options.watch is None else (options.watch,)
    if recovered is not None:
        return EventLog(recovered.id, parent_id=recovered.parent_id, watchers=watchers, run=recovered, store=options.store)
    if options.parent is not None:
        return options.parent.child(options.run_id or new_run_id(), watchers=watchers)
    return EventLog(options.run_id or new_run_id(), parent_id=parent_id, watchers=watchers, store=options.store)


async def opened(writer: Writer) -> Writer:
    """Return the writer of a log that is open."""
    return writer


def check_resumable(run: Run, options: RunOptions) -> None:
    """Raise `SettingsError` if the run has ended, or for options that only a new run can have."""
    if not run.should_continue:
        raise SettingsError(f"Run {run.id} has ended ({run.status})", "Go on with its conversation: %%agent --continue")
    for name in ("continue_from", "board", "parent_id", "parent", "run_id"):
        if getattr(options, name) is not None:
            raise SettingsError(f"{name} has no meaning for a run that is resumed", "Leave it out: the run's own log goes on")


def budget_of(limit: float | None, options: RunOptions, log: EventLog, recovered: Run | None = None) -> Budget:
    """Return the budget of a run with its own limit, within that of the parent run or of the options (the session's)."""
    within = current_budget.get() or options.budget
    if recovered is None:
        budget = Budget(limit, within=within)
    else:
        budget = Budget(limit, within=within, spent=recovered.spent, inside=recovered.counters.spent_inside)
    budget.run_id = log.id
    return budget


def elicitation_of(options: RunOptions, log: EventLog, clock: Clock, *, can_ask: bool) -> Elicitation:
    """Return what brings the questions of a run to the person, or to what answers in their place."""
    return Elicitation(
        log,
        can_ask=can_ask,
        clock=clock,
        answer=None if options.answer is None else answering(options.answer),
        approve=options.approve,
        parent=current_call.get(),
    )


def check_left(budget: Budget, *, recovered: bool = False) -> None:
    """Raise `SettingsError` if nothing is left to spend; a recovered run ends at its own limit by itself."""
    spent = budget.exhausted()
    if spent is not None and not (recovered and spent.name == OWN):
        more = "budget=" if spent.name == OWN else f"%agent defaults session-budget={2 * (spent.limit or 1):g}"
        raise SettingsError(
            f"Nothing is left of the {spent.name.replace('_', ' ')} of ${spent.limit:g}: ${spent.spent:.4f} were spent",
            f"Raise it: {more}",
        )


async def here(
    life: Callable[[], Coroutine[Any, Any, Run]],
    log: EventLog,
    inbox: Inbox,
    options: RunOptions,
    board: Board | None = None,
    *,
    name: str,
    is_kept: bool = False,
) -> Run:
    """Await the coroutine of a run on the running event loop; its host gets a handle on it."""
    host = current_host.get()
    if not host:
        _show_in_terminal(log, options)
        return await life()
    inside, ended = _watched(host, log, options, name, awaited=True), Future[Run]()
    before = len(log.run.events)
    _handed_over(host, LiveRun(log.id, log.run, inbox, ended, board, options.foreground, before, is_kept=is_kept))
    try:
        with hosted(inside):
            run = await life()
    except BaseException as error:
        ended.set_exception(error)
        raise
    ended.set_result(run)
    return run


def in_background(
    life: Callable[[], Coroutine[Any, Any, Run]],
    log: EventLog,
    inbox: Inbox,
    options: RunOptions,
    board: Board | None = None,
    *,
    name: str,
    is_kept: bool = False,
) -> LiveRun:
    """Start the coroutine of a run on an event loop in a thread, and return a handle at once, which its host gets too.

    ``is_kept``: its log is kept, so that the person may suspend it.
    """
    host, before = current_host.get(), len(log.run.events)
    inside = _watched(host, log, options, name, awaited=False)
    shared = options.thread or (host.thread() if host.thread is not None and options.foreground is None else None)
    thread = shared or LoopThread()

    async def work() -> Run:
        with hosted(inside):
            return await life()

    future = thread.submit(work)
    if shared is None:
        future.add_done_callback(lambda _: thread.close())
    live = LiveRun(log.id, log.run, inbox, future, board, options.foreground, before, is_kept=is_kept)
    return _handed_over(host, live)


def _watched(host: Host, log: EventLog, options: RunOptions, name: str, *, awaited: bool) -> Host:
    """Have the host watch the run unless its options name a watcher; return the host of its nested runs."""
    watcher = options.watch
    if host.watch is None:
        _show_in_terminal(log, options)
    elif watcher is None and options.show:
        call = current_call.get() if log.parent_id is not None else None
        watcher = host.watch(
            Beginning(
                run=log.run,
                run_id=log.id,
                parent_id=log.parent_id,
                call_id=None if call is None else call.call_id,
                agent=name,
                awaited=awaited,
                blocks=awaited or options.foreground is not None,
                stored=options.store is not None,
            )
        )
        if watcher is not None:
            log.watch(watcher)
    foreground, store = options.foreground, options.store or host.store
    return host.inside(watcher, store, host.call_sync if foreground is None else on_main_thread(foreground.call))


def _show_in_terminal(log: EventLog, options: RunOptions) -> None:
    """Have a top-level run without a watcher shown on standard error, if that is a terminal."""
    if options.watch is None and options.show and log.parent_id is None and (line := progress_watcher(log.run, log.id)):
        log.watch(line)


def _handed_over(host: Host, live: LiveRun) -> LiveRun:
    """Give the host the handle of a run."""
    if host.begun is not None:
        host.begun(live)
    return live
