"""The host: what a notebook or a session offers to the runs that start in it. Empty in a library."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from agentnb.core.forks import after_fork

if TYPE_CHECKING:
    from agentnb.core.log.stores import RunStore, Watcher
    from agentnb.detect.run import Run
    from agentnb.models.transport.connections import CallLimits
    from agentnb.runtime.budget import Spending
    from agentnb.runtime.host.live import LiveRun
    from agentnb.runtime.host.run_options import RunOptions
    from agentnb.runtime.questions.answerers import AnswerQuestion, Approve
    from agentnb.runtime.questions.grants import SessionGrants
    from agentnb.runtime.servers.servers import Servers
    from agentnb.runtime.threads import LoopThread
    from agentnb.runtime.workers.foreground import Foreground
    from agentnb.tools.tool import CallSync


class Beginning(NamedTuple):
    """A run that is about to begin, as its host learns of it."""

    run: Run
    """The run, which grows: still without events."""
    run_id: str
    parent_id: str | None
    call_id: str | None
    """The tool call of the parent run that began it."""
    agent: str
    """Name of the agent."""
    awaited: bool
    """It runs on the caller's own event loop, which awaits it."""
    blocks: bool
    """The caller's thread waits for it."""
    stored: bool
    """Its log is kept in a store."""


Watch: TypeAlias = "Callable[[Beginning], Watcher | None]"
"""Returns the watcher of a run, or None if nobody watches it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """What runs take that their own options do not give. A run that a tool begins takes it from its parent run."""

    watch: Watch | None = None
    """Makes the watcher of a run without one. A watcher with a method ``nested`` makes those of the runs nested in its run."""
    begun: Callable[[LiveRun], Any] | None = None
    """Takes the handle of each run."""
    can_ask: bool = False
    """Whether a person can answer the questions of runs whose caller gets no handle."""
    approve: Approve | None = None
    answer: AnswerQuestion | None = None
    call_sync: CallSync | None = None
    """Runs plain tools on the main thread."""
    budget: Spending | None = None
    grants: SessionGrants | None = None
    """The calls that the person has allowed in all runs of the session."""
    approval_mode: Callable[[], str] | None = None
    """Returns the mode of runs that neither their options nor their agent give one; empty for none."""
    thread: Callable[[], LoopThread] | None = None
    """Returns the event loop of runs in the background."""
    store: RunStore | None = None
    notebook: str = ""
    """The notebook that runs are started from."""
    experiment: Callable[[Any], Callable[[Any], object] | None] | None = None
    """Takes the control of each experiment that runs here, and returns the watcher of its progress."""
    ask: Callable[[str], str] | None = None
    """Writes a question and returns the line that the person types, before anything runs; None if nobody is present."""
    servers: Servers | None = None
    """The MCP servers of the session, whose connections live across runs."""
    limits: CallLimits | None = None
    """The limiters of their models' calls; by default those of the process."""

    def __bool__(self) -> bool:
        return self is not _EMPTY and self != _EMPTY

    def inside(self, watcher: Watcher | None, store: RunStore | None, call_sync: CallSync | None) -> Host:
        """Return the host of the runs nested in a run with this watcher, store and thread for plain tools.

        They ask through the call that began them, spend from the budget of the run, and have the grants of the session and
        the MCP servers of the run.
        """
        nested: Watch | None = getattr(watcher, "nested", None)
        if not self and nested is None:
            return self if call_sync is None else Host(call_sync=call_sync)
        return Host(watch=nested, call_sync=call_sync, store=store, grants=self.grants, limits=self.limits)


_EMPTY = Host()
current_host: ContextVar[Callable[[], Host]] = ContextVar("current_host", default=lambda: _EMPTY)
"""Returns the host of the runs that start here: a cell makes it when its first run starts."""


def host_here() -> Host:
    """Return the host of the runs that start here."""
    return current_host.get()()


def keep_host(host: Host) -> Token[Callable[[], Host]]:
    """Let runs that start from here on have this host."""
    return current_host.set(lambda: host)


@contextmanager
def hosted(host: Host) -> Iterator[None]:
    """Let runs that start in this block have this host."""
    before = keep_host(host)
    undo_limits = None if host.limits is None else _limited(host.limits)
    try:
        yield
    finally:
        with suppress(ValueError):  # a run that was not awaited is closed from another context
            current_host.reset(before)
            if undo_limits is not None:
                undo_limits()


def _limited(limits: CallLimits) -> Callable[[], None]:
    """Let calls of models have these limiters; return what takes that back."""
    from agentnb.models.transport.connections import current_limits

    return partial(current_limits.reset, current_limits.set(limits))


def _leave_host() -> None:
    """Keep only the store in a forked process: the views, the person and the main thread are those of its parent."""
    of_parent = current_host.get()

    def host() -> Host:
        inherited = of_parent()
        return Host(store=inherited.store, notebook=inherited.notebook) if inherited else inherited

    current_host.set(host)


after_fork(_leave_host)


def completed(options: RunOptions, host: Host, *, is_resumed: bool) -> RunOptions:
    """Return the options, with what the host offers where they say nothing. A run that is resumed has its store already."""
    if not host:
        return options
    return replace(
        options,
        store=options.store or (None if is_resumed else host.store),
        can_ask=host.can_ask if options.can_ask is None else options.can_ask,
        approve=options.approve or host.approve,
        answer=options.answer or host.answer,
        budget=options.budget or host.budget,
        notebook=options.notebook or host.notebook,
    )


main_thread_is_held: ContextVar[bool] = ContextVar("main_thread_is_held", default=False)
"""Whether a plain tool waits on the main thread for the call that this code runs for: no other tool can run there."""


def on_main_thread(call_sync: CallSync) -> CallSync:
    """Wrap it for the tools of a run: a run that such a tool begins does not wait for the thread that the tool holds."""
    from agentnb.runtime.workers.worker_calls import call_in_thread

    async def call(function: Callable[[], Any], parallel_safe: bool) -> Any:
        if main_thread_is_held.get():
            return await call_in_thread(function)
        host = host_here()
        if parallel_safe or not host:
            return await call_sync(function, parallel_safe)
        return await call_sync(partial(_called, replace(host, call_sync=None), function), parallel_safe)

    return call


def _called(host: Host, function: Callable[[], Any]) -> Any:
    with hosted(host):
        return function()


def plain_tools(foreground: Foreground | None, host: Host) -> CallSync:
    """Return what runs the plain tools of a run: its own foreground, else the host's, else threads."""
    if foreground is not None:
        return on_main_thread(foreground.call)
    from agentnb.runtime.workers.worker_calls import call_in_thread

    return host.call_sync or call_in_thread
