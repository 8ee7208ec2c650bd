"""The host: services that a notebook or session offers to runs started in it. Empty when used as a library."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from agentnb.core.forks import after_fork

if TYPE_CHECKING:
    from agentnb.core.log.stores import RunStore, Watcher
    from agentnb.detect.run import Run
    from agentnb.guidance.sets import GuidanceSet
    from agentnb.models.transport.connections import CallLimits
    from agentnb.runtime.budget import Spending
    from agentnb.runtime.host.live_run import LiveRun
    from agentnb.runtime.host.run_options import RunOptions
    from agentnb.runtime.questions.answerers import AnswerQuestion, Approve
    from agentnb.runtime.questions.grants import SessionGrants
    from agentnb.runtime.servers.servers import Servers
    from agentnb.runtime.threads import LoopThread
    from agentnb.runtime.workers.foreground import Foreground
    from agentnb.tools.tool import CallSync


class Beginning(NamedTuple):
    """A run that is about to begin, as reported to its host."""

    run: Run
    """The run; it has no events yet, and grows as they are logged."""
    run_id: str
    parent_id: str | None
    call_id: str | None
    """The tool call of the parent run that started it."""
    agent: str
    """Name of the agent."""
    awaited: bool
    """True if the caller's own event loop is running and awaits it."""
    blocks: bool
    """True if the caller's thread waits for it."""
    stored: bool
    """True if a store keeps its log."""


Watch: TypeAlias = "Callable[[Beginning], Watcher | None]"
"""Returns the watcher of a run, or None for no watcher."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """Services for runs whose own options do not set them. A run started by a tool gets them from its parent run."""

    watch: Watch | None = None
    """Creates the watcher of a run that has none. A watcher's method ``nested`` creates the watchers of the run's
    nested runs.
    """
    begun: Callable[[LiveRun], Any] | None = None
    """Called with the handle of each run."""
    can_ask: bool = False
    """True if a person can answer the questions of runs whose caller does not get a handle."""
    approve: Approve | None = None
    answer: AnswerQuestion | None = None
    call_sync: CallSync | None = None
    """Runs plain tools on the main thread."""
    budget: Spending | None = None
    grants: SessionGrants | None = None
    """Calls that the person has allowed for the whole session."""
    approval_mode: Callable[[], str] | None = None
    """Returns the mode of runs for which neither options nor agent set one; empty for none."""
    thread: Callable[[], LoopThread] | None = None
    """Returns the event loop of background runs."""
    store: RunStore | None = None
    notebook: str = ""
    """Notebook that runs are started from."""
    experiment: Callable[[Any], Callable[[Any], object] | None] | None = None
    """Called with the control of each experiment that runs here; returns a watcher for its progress."""
    ask: Callable[[str], str] | None = None
    """Prints a question before any run starts, and returns the line that the person types, or None if nobody is present."""
    servers: Servers | None = None
    """MCP servers of the session, whose connections outlive individual runs."""
    sets: Mapping[str, GuidanceSet] | None = None
    """Guidance sets written in the session, by name."""
    limits: CallLimits | None = None
    """Limiters of model calls; by default, those of the process."""

    def __bool__(self) -> bool:
        return self is not _EMPTY and self != _EMPTY

    def inside(self, watcher: Watcher | None, store: RunStore | None, call_sync: CallSync | None) -> Host:
        """Return the host of the runs nested in a run with this watcher, store and thread for plain tools.

        They ask through the call that started them, spend from the run's budget, and share the session's grants and
        the run's MCP servers.
        """
        nested: Watch | None = getattr(watcher, "nested", None)
        if not self and nested is None:
            return self if call_sync is None else Host(call_sync=call_sync)
        return Host(watch=nested, call_sync=call_sync, store=store, grants=self.grants, limits=self.limits)


_EMPTY = Host()
current_host: ContextVar[Callable[[], Host]] = ContextVar("current_host", default=lambda: _EMPTY)
"""Returns the host of runs that start in this context; a cell creates the host when its first run starts."""


def host_here() -> Host:
    """Return the host of runs that start in this context."""
    return current_host.get()()


def keep_host(host: Host) -> Token[Callable[[], Host]]:
    """Set the host of runs that start in this context from now on."""
    return current_host.set(lambda: host)


@contextmanager
def use_host(host: Host) -> Iterator[None]:
    """Set the host of runs that start in this block."""
    before = keep_host(host)
    undo_limits = None if host.limits is None else _set_limits(host.limits)
    try:
        yield
    finally:
        with suppress(ValueError):  # a run that was not awaited is closed from another context
            current_host.reset(before)
            if undo_limits is not None:
                undo_limits()


def _set_limits(limits: CallLimits) -> Callable[[], None]:
    """Set the limiters of model calls; return a function that resets them."""
    from agentnb.models.transport.connections import current_limits

    return partial(current_limits.reset, current_limits.set(limits))


def _leave_host() -> None:
    """Keep only the store in a forked process: the views, the person and the main thread belong to the parent process."""
    of_parent = current_host.get()

    def host() -> Host:
        inherited = of_parent()
        return Host(store=inherited.store, notebook=inherited.notebook) if inherited else inherited

    current_host.set(host)


after_fork(_leave_host)


def complete_options(options: RunOptions, host: Host, *, is_resumed: bool) -> RunOptions:
    """Return the options, with unset ones taken from the host. A resumed run already has its store."""
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
"""True while a plain tool on the main thread waits for a call made by this code: no other tool can run there."""


def on_main_thread(call_sync: CallSync) -> CallSync:
    """Wrap a runner of plain tools, so that a run started by such a tool does not wait for the thread that the tool holds."""
    from agentnb.runtime.workers.worker_calls import call_in_thread

    async def call(function: Callable[[], Any], parallel_safe: bool) -> Any:
        if main_thread_is_held.get():
            return await call_in_thread(function)
        host = host_here()
        if parallel_safe or not host:
            return await call_sync(function, parallel_safe)
        return await call_sync(partial(_call_hosted, replace(host, call_sync=None), function), parallel_safe)

    return call


def _call_hosted(host: Host, function: Callable[[], Any]) -> Any:
    with use_host(host):
        return function()


def plain_tools(foreground: Foreground | None, host: Host) -> CallSync:
    """Return the runner for a run's plain tools: its own foreground, or else the host's, or else threads."""
    if foreground is not None:
        return on_main_thread(foreground.call)
    from agentnb.runtime.workers.worker_calls import call_in_thread

    return host.call_sync or call_in_thread
