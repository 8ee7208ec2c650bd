"""The services of a run for its running tools: report progress, call other tools of the run, begin nested runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias, TypeVar
from weakref import WeakMethod

from agentnb.core.log.events import NestedStart
from agentnb.core.log.stores import FileBefore
from agentnb.core.messages import encodable
from agentnb.core.request import Request
from agentnb.core.schema.json_schema import plain_data
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, ToolFailed
from agentnb.models.model import Model, Reply
from agentnb.policies.gates import Gate
from agentnb.policies.permissions.gate import PermissionGate
from agentnb.runtime.calls.call import Call
from agentnb.runtime.calls.call_reports import CallPrints, CallProgress, CallReports
from agentnb.runtime.calls.todo_sync import TodoSync
from agentnb.runtime.event_log import EventLog
from agentnb.runtime.host.host import main_thread_is_held
from agentnb.runtime.questions.current_call import current_call
from agentnb.runtime.questions.elicitation import CallElicitor, Elicitation
from agentnb.runtime.questions.model_code import ModelCode, leave_code
from agentnb.runtime.replies.side_calls import SideModels
from agentnb.runtime.threads import running_loop, wait_until_over
from agentnb.runtime.workers.main_thread import call_on_main_thread
from agentnb.runtime.workers.tool_threads import call_around, follow_threads
from agentnb.settings import permissions_kept
from agentnb.tools.tool import CallSync, Code, Schedule, Tool, ToolOutcome

T = TypeVar("T")
StartRun: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
"""Begins a nested run of an agent, workflow or orchestration with a prompt, and waits for its end."""
CallInside: TypeAlias = Callable[[str, str, Any], Coroutine[Any, Any, ToolOutcome]]
"""Runs a call: the id of the call that makes it, the name of the tool and the arguments."""


class RunSteps(Protocol):
    """The steps of a run that are nested runs."""

    @property
    def run(self) -> Callable[..., Coroutine[Any, Any, Run]]:
        """Does a step that is a nested run, and returns that run."""

    def close_open(self) -> None:
        """Log the end of the steps that are open."""


_ELSEWHERE = object()


async def cannot_start(runnable: Any, prompt: Any) -> Any:
    """Refuse to begin a nested run."""
    raise SettingsError("This run cannot begin others", "Write: await agent.run(...)")


@dataclass(frozen=True, slots=True)
class CallServices:
    """The surroundings of a run's tool calls."""

    elicitation: Elicitation
    call_sync: CallSync
    """Runs plain functions in the right thread."""
    work_dir: Path
    """The folder that tools work in."""
    gates: Sequence[Gate] = ()
    permission_gate: PermissionGate | None = None
    """That of the permissions, which is asked after all gates."""
    todos: TodoSync | None = None
    start_run: StartRun = cannot_start
    """Begins the nested runs of tools."""
    models: SideModels | None = None
    """The models that tools may ask beside the conversation."""
    steps: RunSteps | None = None
    """The steps of the run that are nested runs."""
    own_gates: Sequence[Gate] = ()
    """The gates that the person has given, which judge the calls of its steps too."""
    context_name: Callable[[str], str] = str
    """Returns the name of a context, by its name or an alias."""
    tool_seconds: float | None = None
    """Time for a call of a tool without a time limit of its own, nested runs apart; None for no limit."""
    suspends: bool = False
    """Whether a call stays open, rather than denied, if its question finds nobody to answer."""


class ContextServices:
    """The services of a run for all its calls, on the event loop of the run. Nearly all calls use none of them."""

    def __init__(
        self,
        log: EventLog,
        services: CallServices,
        calls: Mapping[str, Call],
        call: CallInside,
        tools: Callable[[], tuple[Tool, ...]],
    ) -> None:
        """``calls``: those that have begun and not ended, by id; ``call``: a method; ``tools``: those on offer."""
        self._services = services
        self.own_gates = services.own_gates
        self.held = services.elicitation.held
        """Holds the clock of the run."""
        self._log = log
        self._tools = tools
        self._calls = calls
        self._call = WeakMethod(call)  # else the calls of a run would keep each other, and it, in memory after its end
        self.loop: asyncio.AbstractEventLoop | None = None
        """That of the run, since its first call."""
        self.lock = threading.RLock()  # a finalizer may print meanwhile
        """Held while a call gets its first report, or ends."""

    def report(self, call_id: str, done: float, total: float | None, text: str) -> None:
        """Take how far this call has come, from any thread."""
        with self.lock:
            reports = self._reports_of(call_id)
            if reports is None:
                return
            progress = reports.progress = reports.progress or CallProgress(self._log, call_id, self._running_loop)
        progress.report(done, total, text)

    def printed(self, call_id: str, text: str) -> bool:
        """Take a text that this call prints, from any thread; False if the call has ended, or nobody shows it there."""
        if not self._log.shows_prints:
            return False
        with self.lock:
            reports = self._reports_of(call_id)
            if reports is None:
                return False
            prints = reports.prints = reports.prints or CallPrints(self._log, call_id, self._running_loop)
        prints.write(text)
        return True

    def begun(self, call_id: str, run_id: str, agent: str) -> None:
        """Note a run that this call begins, from any thread."""
        with self.lock:
            reports = self._reports_of(call_id)
            if reports is not None:
                reports.nested.append(NestedStart(run_id, encodable(agent)))

    def keep_before(self, call_id: str, path: Path, before: bytes | None, after: bytes) -> None:
        """Keep a file as it is before this call changes it, from any thread. Raises if it must not be changed."""
        if call_id not in self._calls:  # it was given up: its result says so
            raise asyncio.CancelledError("The call has ended")
        self._log.keep_before(FileBefore(call_id, self._services.work_dir, path, before, after))

    def _reports_of(self, call_id: str) -> CallReports | None:
        """Return the reports of a call, to add to while the lock is held; None if the call has ended."""
        call = self._calls.get(call_id)
        if call is not None and call.reports is None:
            call.reports = CallReports()
        return None if call is None else call.reports

    @property
    def _running_loop(self) -> asyncio.AbstractEventLoop:
        assert self.loop is not None, "a call asks for services while it runs"
        return self.loop

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
        if running_loop() is self._running_loop:
            raise SettingsError("call_sync would hold up the event loop that runs the call", "Write: await context.call(...)")
        holds_main_thread = threading.current_thread() is threading.main_thread()

        async def called() -> ToolOutcome:
            leave_code()  # a tool is the person's
            if holds_main_thread:
                main_thread_is_held.set(True)
            return await self.call(call_id, name, arguments)

        return wait_until_over(
            asyncio.run_coroutine_threadsafe(called(), self._running_loop), lambda: call_id not in self._calls
        )

    async def run_code(self, call_id: str, code: Code, schedule: Schedule) -> ToolOutcome:
        """Run code of a model on the main thread, where what only the person decides is refused."""
        if main_thread_is_held.get():
            raise ToolFailed("The code of another call runs, and waits for this one", "Call it by itself, not from code")
        call = current_call.get()
        assert call is not None, "a call runs"
        follow_threads()
        work = partial(self._as_code, RunningCode(self, call_id, call), code)

        def here() -> Any:
            return work() if threading.current_thread() is threading.main_thread() else _ELSEWHERE

        outcome = await self._services.call_sync(here, False)
        if outcome is _ELSEWHERE:
            outcome = await call_on_main_thread(work, schedule)
        return outcome  # type: ignore[no-any-return]  # what `code` returns

    def _as_code(self, scope: RunningCode, code: Code) -> ToolOutcome:
        with permissions_kept(), scope.code.running():
            return code(scope)

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the run offers now."""
        return self._tools()

    @property
    def run(self) -> Run:
        """The run so far."""
        return self._log.run

    @property
    def model(self) -> Model | None:
        """The model of the run, which tools may ask."""
        models = self._services.models
        return None if models is None else models.model

    async def ask_model(self, request: Request, operation: str, model: Model | None = None, **about: str) -> Reply:
        """Return what a model replies beside the conversation, by default that of the run."""
        if (models := self._services.models) is None:
            raise SettingsError("The tools of this run cannot ask a model", "Give the tool one of its own")
        return await self._on_loop(models.ask(request, operation, model, **about))

    def record(self, kind: Any, **fields: Any) -> None:
        """Log an event of the work that a call does, on the event loop of the run."""
        self._log.emit(kind, **fields)

    @property
    def holds_loop(self) -> bool:
        """Whether this thread is that of the run's event loop."""
        return running_loop() is self._running_loop

    async def start_run(self, runnable: Any, prompt: Any) -> Any:
        """Begin a nested run and wait for its end."""

        async def started() -> Any:
            return await self._services.start_run(runnable, prompt)

        return await self._on_loop(started())

    async def start_step(self, path: str, runnable: Any, output: Callable[[Run], Any], **about: Any) -> Any:
        """Begin a nested run as a step of the run, or resume the one that a dead process had begun, and wait for its end."""
        if (steps := self._services.steps) is None:
            raise SettingsError("This run has no steps", "Write: await context.start_run(...)")
        return await steps.run(path, runnable, output, **about)

    async def _on_loop(self, work: Coroutine[Any, Any, T]) -> T:
        if asyncio.get_running_loop() is self._running_loop:
            return await work
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._running_loop))


class RunningCode:
    """Code of a model while its call runs it: the surroundings that its tool gives it."""

    def __init__(self, services: ContextServices, call_id: str, call: CallElicitor) -> None:
        self._services = services
        self._call_id = call_id
        self._call = call
        self.code: ModelCode = call.begin_code()
        self.filename = self.code.filename
        self.tools = services.tools

    def is_inside(self) -> bool:
        """Return whether this code calls, in whatever thread; not a tool that it calls, nor a run that it begins."""
        return self.code.is_running and call_around() is self._call

    def call(self, name: str, arguments: dict[str, Any]) -> ToolOutcome:
        """Call a tool of the run. Raises `ToolFailed` if it fails, is blocked, or cannot be called from here."""
        if not self.code.is_running:
            raise ToolFailed(f"{name} can be called no more: the code that had it has ended", "Call it in new code")
        if self._services.holds_loop:
            what = f"{name} cannot be called from code in this run, whose event loop waits for the code"
            raise ToolFailed(what, "Call it by itself")
        return self._services.call_sync(self._call_id, name, arguments)
