"""Services that a run offers to its running tools: reporting progress, calling other tools, starting nested runs."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeVar
from weakref import ref

from agentnb.core.log.events import NestedStart
from agentnb.core.log.stores import FileBefore
from agentnb.core.messages import JsonObject, encodable
from agentnb.core.request import Request
from agentnb.core.schema.json_schema import plain_data
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, ToolFailed
from agentnb.models.model import Model, Reply
from agentnb.policies.gates import Gate
from agentnb.runtime.calls.call import Call
from agentnb.runtime.calls.call_reports import CallPrints, CallProgress, CallReports
from agentnb.runtime.calls.run_context import RunContext
from agentnb.runtime.calls.run_tools import RunTools
from agentnb.runtime.host.host import main_thread_is_held
from agentnb.runtime.host.run_options import RunOptions
from agentnb.runtime.questions.current_call import current_call
from agentnb.runtime.questions.elicitation import CallElicitor
from agentnb.runtime.questions.model_code import ModelCode, leave_code
from agentnb.runtime.replies.side_calls import SideModels
from agentnb.runtime.threads import running_loop, wait_until_over
from agentnb.runtime.workers.main_thread import call_on_main_thread
from agentnb.runtime.workers.tool_threads import call_around, follow_threads
from agentnb.settings import permissions_kept
from agentnb.tools.tool import Code, Schedule, Tool, ToolOutcome

T = TypeVar("T")


class InnerCalls(Protocol):
    """Runs the calls made by tools."""

    async def call_inside(self, parent: str, name: str, arguments: Any) -> ToolOutcome:
        """Run a call made by the tool of the ``parent`` call."""


class RunSteps(Protocol):
    """Steps of a run that are nested runs."""

    @property
    def run(self) -> Callable[..., Coroutine[Any, Any, Run]]:
        """Runs a nested run as a step, and returns it."""

    def close_open(self) -> None:
        """Log the end of all open steps."""


_ELSEWHERE = object()


class ContextServices:
    """Services that a run offers all its calls, on the run's event loop. Most calls use none of them."""

    def __init__(
        self,
        context: RunContext,
        inner_calls: InnerCalls,
        tools: RunTools,
        calls: Mapping[str, Call],
        *,
        own_gates: Sequence[Gate] = (),
        models: SideModels | None = None,
        steps: RunSteps | None = None,
    ) -> None:
        """``calls``: running calls, by id; ``own_gates``, ``models``, ``steps``: as for `ToolCalls`."""
        self._context = context
        self.own_gates = own_gates
        self._models = models
        self._steps = steps
        self._log = context.log
        self._tools = tools
        self._calls = calls
        self._inner_calls = ref(inner_calls)  # a strong reference would be a cycle that keeps the run in memory after its end
        self.loop: asyncio.AbstractEventLoop | None = None
        """Event loop of the run, set by its first call."""
        self.lock = threading.RLock()  # a finalizer may print at the same time
        """Held while a call gets its first report, or while it ends."""

    def held(self) -> AbstractContextManager[None]:
        """Pause the clock of the run."""
        return self._context.elicitation.held()

    def report(self, call_id: str, done: float, total: float | None, text: str) -> None:
        """Report the progress of a call, from any thread."""
        with self.lock:
            reports = self._reports_of(call_id)
            if reports is None:
                return
            progress = reports.progress = reports.progress or CallProgress(self._log, call_id, self._running_loop)
        progress.report(done, total, text)

    def note_print(self, call_id: str, text: str) -> bool:
        """Record text printed by this call, from any thread. Returns False if the call has ended, or if no watcher
        shows output.
        """
        if not self._log.shows_prints:
            return False
        with self.lock:
            reports = self._reports_of(call_id)
            if reports is None:
                return False
            prints = reports.prints = reports.prints or CallPrints(self._log, call_id, self._running_loop)
        prints.write(text)
        return True

    def note_start(self, call_id: str, run_id: str, agent: str) -> None:
        """Record a nested run started by this call, from any thread."""
        with self.lock:
            reports = self._reports_of(call_id)
            if reports is not None:
                reports.nested.append(NestedStart(run_id, encodable(agent)))

    def keep_before(self, call_id: str, path: Path, before: bytes | None, after: bytes) -> None:
        """Back up a file before this call changes it, from any thread. Raises an error if the file must not be changed."""
        if call_id not in self._calls:  # it was given up, as its result says
            raise asyncio.CancelledError("The call has ended")
        self._log.keep_before(FileBefore(call_id, self._context.work_dir, path, before, after))

    def _reports_of(self, call_id: str) -> CallReports | None:
        """Return the reports of a call, or None if the call has ended. The caller may extend them while it holds the lock."""
        call = self._calls.get(call_id)
        if call is not None and call.reports is None:
            call.reports = CallReports()
        return None if call is None else call.reports

    @property
    def _running_loop(self) -> asyncio.AbstractEventLoop:
        assert self.loop is not None, "a call asks for services while it runs"
        return self.loop

    async def call(self, call_id: str, name: str, arguments: JsonObject) -> ToolOutcome:
        """Call a tool of the run; raises `ToolFailed` if it fails or is blocked."""
        plain, inner_calls = plain_data(arguments, f"The value for {name}"), self._inner_calls()
        if inner_calls is None:
            raise asyncio.CancelledError("The run has ended")
        outcome = await self._on_loop(inner_calls.call_inside(call_id, name, plain))
        if not outcome.ok:
            failed = ToolFailed(outcome.text or f"{name} failed")
            failed.error_code = outcome.error_code
            raise failed
        return outcome

    def call_sync(self, call_id: str, name: str, arguments: JsonObject) -> ToolOutcome:
        """Call a tool as `call` does, blocking the calling thread until the call has ended."""
        if running_loop() is self._running_loop:
            raise SettingsError("call_sync would block the event loop that runs the call", "Use await context.call(...)")
        holds_main_thread = threading.current_thread() is threading.main_thread()

        async def called() -> ToolOutcome:
            leave_code()  # a tool is the person's code
            if holds_main_thread:
                main_thread_is_held.set(True)
            return await self.call(call_id, name, arguments)

        return wait_until_over(
            asyncio.run_coroutine_threadsafe(called(), self._running_loop), lambda: call_id not in self._calls
        )

    async def run_code(self, call_id: str, code: Code, schedule: Schedule) -> ToolOutcome:
        """Run a model's code on the main thread. The code may not make decisions that are reserved for the person."""
        if main_thread_is_held.get():
            raise ToolFailed("The code of another call is waiting for this one", "Call it directly, not from code")
        call = current_call.get()
        assert call is not None, "a call runs"
        follow_threads()
        work = partial(self._as_code, RunningCode(self, call_id, call), code)

        def on_this_thread() -> Any:
            return work() if threading.current_thread() is threading.main_thread() else _ELSEWHERE

        outcome = await self._context.call_sync(on_this_thread, False)
        if outcome is _ELSEWHERE:
            outcome = await call_on_main_thread(work, schedule)
        return outcome  # type: ignore[no-any-return]  # what `code` returns

    def _as_code(self, scope: RunningCode, code: Code) -> ToolOutcome:
        with permissions_kept(), scope.code.running():
            return code(scope)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Tools that the run currently offers."""
        return self._tools.offered_tools()

    @property
    def run(self) -> Run:
        """The run so far."""
        return self._log.run

    @property
    def model(self) -> Model | None:
        """Model of the run, for side requests made by tools."""
        return None if self._models is None else self._models.model

    async def ask_model(self, request: Request, operation: str, model: Model | None = None, **about: str) -> Reply:
        """Return a model's reply to a side request. The default is the run's model."""
        if self._models is None:
            raise SettingsError("The tools of this run have no model to ask", "Give the tool its own model")
        return await self._on_loop(self._models.ask(request, operation, model, **about))

    def record(self, kind: Any, **fields: Any) -> None:
        """Log an event about the work of a call, on the event loop of the run."""
        self._log.emit(kind, **fields)

    @property
    def holds_loop(self) -> bool:
        """True on the thread of the run's event loop."""
        return running_loop() is self._running_loop

    async def start_run(self, runnable: Any, prompt: Any) -> Any:
        """Run a nested run to its end."""
        if not inspect.iscoroutinefunction(getattr(runnable, "run", None)):
            problem = f"{runnable!r} is not an Agent, a Workflow or an Orchestration"
            raise SettingsError(problem, "Use await context.start_run(Agent(...), PROMPT)")
        return await self._on_loop(runnable.run(prompt, RunOptions(parent=self._log)))

    async def start_step(self, path: str, runnable: Any, output: Callable[[Run], Any], **about: Any) -> Any:
        """Run a nested run to its end as a step, or resume the one started by a process that died."""
        if self._steps is None:
            raise SettingsError("This run has no steps", "Use await context.start_run(...)")
        return await self._steps.run(path, runnable, output, **about)

    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        if asyncio.get_running_loop() is self._running_loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._running_loop))


class RunningCode:
    """A model's running code, and the environment that its tool provides."""

    def __init__(self, services: ContextServices, call_id: str, call: CallElicitor) -> None:
        self._services = services
        self._call_id = call_id
        self._call = call
        self.code: ModelCode = call.begin_code()
        self.filename = self.code.filename
        self.tools = services.tools

    def is_inside(self) -> bool:
        """Return whether the caller is this code itself (in any thread), rather than a tool or run that it started."""
        return self.code.is_running and call_around() is self._call

    def call(self, name: str, arguments: JsonObject) -> ToolOutcome:
        """Call a tool of the run. Raises `ToolFailed` if the tool fails, is blocked, or cannot be called from this code."""
        if not self.code.is_running:
            raise ToolFailed(f"{name} can no longer be called: the code that received it has ended", "Call it from new code")
        if self._services.holds_loop:
            problem = f"{name} cannot be called from code in this run, whose event loop waits for the code"
            raise ToolFailed(problem, "Call it directly")
        return self._services.call_sync(self._call_id, name, arguments)
