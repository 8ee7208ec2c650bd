"""The tool protocol: the interface between the loop and tools."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from agentnb.core.display_data import Table
from agentnb.core.messages import Image, JsonObject, ResultParts, Text, ToolResult, encodable
from agentnb.core.questions import QuestionKind
from agentnb.core.redaction import redact
from agentnb.core.request import ROLES, Request, ToolRole, ToolSpec
from agentnb.errors import InvalidTool, NobodyToAsk, SettingsError

T = TypeVar("T")
Effect: TypeAlias = Literal["read", "write", "execute", "network"]
"""An effect of a tool on the world."""

WIRE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Tool names that all providers accept."""

CallSync: TypeAlias = Callable[[Callable[[], Any], bool], Awaitable[Any]]
"""Runs a blocking function on the person's thread, or in a thread pool if the second argument is true."""


class Asker(Protocol):
    """Forwards questions of a call to the person, and returns the answers."""

    async def ask(self, message: str, schema: JsonObject | None, kind: QuestionKind, url: str = "") -> Any:
        """Ask and wait for the answer. ``url``: address that the person opens to answer there."""

    def ask_sync(self, message: str, schema: JsonObject | None, kind: QuestionKind, url: str = "") -> Any:
        """Ask, and block the calling thread until the answer arrives."""

    def check_person(self) -> None:
        """Raise `NobodyToAsk` if no question can be answered while the call runs."""

    def prolong(self) -> None:
        """Extend the time limit of a call that makes progress, if its tool allows it."""


class CodeScope(Protocol):
    """Environment for model-written code that a call runs."""

    filename: str
    """File name of the compiled source, used in tracebacks and to recognize its functions as the model's."""
    tools: tuple[Tool, ...]
    """Tools offered by the run."""

    def is_inside(self) -> bool:
        """True if the caller is this code itself (in any thread), rather than a tool or run that it started."""

    def call(self, name: str, arguments: JsonObject) -> ToolOutcome:
        """Call a tool of the run, like `ToolContext.call_sync`. Also raises `ToolFailed` after the end of the call."""


Code: TypeAlias = Callable[[CodeScope], "ToolOutcome"]
"""Runs model-written code."""
Schedule: TypeAlias = Callable[[Callable[[], None]], None]
"""Schedules a function on the event loop of the main thread; thread-safe."""


class CallServices(Protocol):
    """Services of a run for its running calls."""

    def report(self, call_id: str, done: float, total: float | None, text: str) -> None:
        """Report the progress of a call, from any thread."""

    def note_print(self, call_id: str, text: str) -> bool:
        """Record text printed by a call, from any thread. Returns False if the text is not kept with the call."""

    def note_start(self, call_id: str, run_id: str, agent: str) -> None:
        """Record a run started by a call, from any thread."""

    def keep_before(self, call_id: str, path: Path, before: bytes | None, after: bytes) -> None:
        """Keep a copy of a file before a call changes it, from any thread."""

    async def call(self, call_id: str, name: str, arguments: JsonObject) -> ToolOutcome:
        """Call a tool of the run from within a call."""

    def call_sync(self, call_id: str, name: str, arguments: JsonObject) -> ToolOutcome:
        """Like `call`, but blocks the calling thread until the call has ended."""

    async def run_code(self, call_id: str, code: Code, schedule: Schedule) -> ToolOutcome:
        """Run model-written code on the main thread, where decisions reserved for the person are refused."""

    async def start_run(self, runnable: Any, prompt: Any) -> Any:
        """Start a nested run and wait for its end."""

    async def start_step(self, path: str, runnable: Any, output: Callable[[Any], Any], **about: Any) -> Any:
        """Start or resume a nested run as the step with this path, and wait for its end.

        ``output``: returns the output of the step from that run; ``about``: as for `RunSteps.run`.
        """

    @property
    def run(self) -> Any:
        """The run so far."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """Tools currently offered by the run."""

    @property
    def model(self) -> Any:
        """Model of the run, or None if it has none."""

    @property
    def own_gates(self) -> Sequence[Any]:
        """Gates passed to the agent by the person, and those of its extensions."""

    async def ask_model(self, request: Request, operation: str, model: Any = None, **about: str) -> Any:
        """Return the model's reply to a side request, by default from the run's model."""

    def record(self, kind: Any, **fields: Any) -> None:
        """Log an event about the work of this call."""

    def held(self) -> AbstractContextManager[None]:
        """Pause the clock of the run."""


def no_files() -> None:
    """Return None: a call without rules has no hidden files."""


class ToolContext(msgspec.Struct, frozen=True):
    """Context of a tool call. A function tool with a parameter of this type receives it."""

    run_id: str
    call_id: str
    work_dir: Path
    run_plain: CallSync
    asker: Asker | None = None
    inside: CallServices | None = None
    store_folder: Path | None = None
    """Folder of run logs (no built-in tool writes there), or None if there is no store."""
    hidden_files: Callable[[], re.Pattern[str] | None] = no_files
    """Returns the pattern of absolute paths that rules hide from tools that read folder trees, or None."""

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Report progress: ``done`` of ``total`` steps (None: unknown), and the current activity. Can be called from any
        thread.

        The card shows it while the tool runs, at most a few times per second; the log keeps the last report.
        """
        if self.inside is not None:
            self.inside.report(self.call_id, done, total, text)
        if self.asker is not None:
            self.asker.prolong()

    def keep_before(self, path: Path, before: bytes | None, after: bytes) -> None:
        """Keep a copy of a file before this call changes it, so that the person can undo the change. Blocks; can be called from
        any thread.

        ``path``: absolute, with links resolved. ``before``: current bytes, or None for a new file; ``after``: new bytes. Raises
        `StoreError` on failure, and `asyncio.CancelledError` if the call was abandoned: the file must not be changed then.
        """
        if self.inside is not None:
            self.inside.keep_before(self.call_id, path, before, after)

    async def call(self, name: str, arguments: JsonObject | None = None) -> ToolOutcome:
        """Call another tool of the run and return its outcome: ``value`` is its return value, ``text`` the text for a model.

        The call passes the same gates, limits and questions as the model's, and is logged, but invisible to the model. Raises
        `ToolFailed` if it fails or is not allowed; if the calling tool does not catch this, the model gets the error. Calls to
        tools that are not parallel-safe run one by one.
        """
        return await self._call_services().call(self.call_id, name, {} if arguments is None else arguments)

    def call_sync(self, name: str, arguments: JsonObject | None = None) -> ToolOutcome:
        """Like `call`, but for plain functions: blocks the thread until the call has ended.

        If this is the main thread, plain tools that are called meanwhile run in other threads.
        """
        return self._call_services().call_sync(self.call_id, name, {} if arguments is None else arguments)

    async def run_code(self, code: Code, schedule: Schedule) -> ToolOutcome:
        """Run model-written code on the main thread; for tools whose purpose is to run such code.

        The code cannot speak for the person: answering questions, allowing calls and changing defaults are refused. If no run
        waits on the main thread, ``schedule`` runs the code between two cells. Raises `ToolFailed` if the main thread is
        unavailable.
        """
        return await self._call_services().run_code(self.call_id, code, schedule)

    async def start_run(self, runnable: Any, prompt: Any) -> Any:
        """Start a nested run of an agent, a workflow or an orchestration, wait for its end and return it.

        Its log is stored beside that of this run. The nested run shares the budget and the person of this run, and is paused
        and stopped with it. For async tools; plain ones write ``agent.run_sync(...)``.
        """
        return await self._call_services().start_run(runnable, prompt)

    def _call_services(self) -> CallServices:
        if self.inside is None:
            raise SettingsError("This tool was called outside a run", "Call the function itself")
        return self.inside

    async def ask(self, message: str, schema: JsonObject | None = None, kind: QuestionKind = "elicitation") -> Any:
        """Ask the person and wait for the answer; meanwhile, the call's time limit is paused.

        ``schema`` is the JSON Schema of the answer, text by default: ``{"enum": ["red", "blue"]}``, ``{"type": "boolean"}``.
        Raises `Declined` if the person declines, its subclass `QuestionCancelled` if they close the question without deciding,
        and `NobodyToAsk` if nobody can be asked; if the tool does not catch it, the model gets the error. Tools that ask should
        be marked ``blocking=True``.
        """
        return await self._person().ask(message, schema, kind)

    def ask_sync(self, message: str, schema: JsonObject | None = None, kind: QuestionKind = "elicitation") -> Any:
        """Like `ask`, but for plain functions: blocks the thread until the question is answered or the run ends."""
        return self._person().ask_sync(message, schema, kind)

    async def ask_url(self, message: str, url: str) -> None:
        """Ask the person to open an HTTP address and to answer there; return once they confirm.

        agentnb opens nothing: the person sees the host and the full address first. Raises the errors of `ask`, and
        `SettingsError` for an invalid address.
        """
        await self._person().ask(message, None, "elicitation", url)

    def ask_url_sync(self, message: str, url: str) -> None:
        """Like `ask_url`, but for plain functions."""
        self._person().ask_sync(message, None, "elicitation", url)

    def _person(self) -> Asker:
        if self.asker is None:
            raise NobodyToAsk("There is nobody to ask", "Decide yourself and state your assumptions")
        return self.asker


class ToolOutcome(msgspec.Struct, frozen=True):
    """Outcome of a call: a value or, with ``ok=False``, an error for the model.

    ``parts`` is the value (or error) as the model sees it; ``error_code`` names the kind of error; ``display`` is the value as
    a table for the person, if it is one.
    """

    ok: bool
    parts: ResultParts
    value: Any = None
    error_code: str | None = None
    display: Table | None = None
    problem: str = ""
    """The error without the advice in ``parts``."""

    @property
    def text(self) -> str:
        """Text of the parts, without pictures."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    def as_result(self, call_id: str, name: str) -> ToolResult:
        """Convert the outcome to the result of a call."""
        parts: list[Text | Image] = []
        for part in self.parts:  # a plain loop: this runs for every call
            parts.append(Text(encodable(part.text)) if isinstance(part, Text) else part)  # noqa: PERF401
        return ToolResult(call_id, name, tuple(parts), not self.ok, self.error_code)


def failure(error_code: str, problem: str, advice: str = "") -> ToolOutcome:
    """Return an outcome with an error for the model and, on its own line, advice."""
    text = f"{problem}\n{advice}" if advice else problem
    return ToolOutcome(False, (Text(text),), error_code=error_code, problem=problem)


class ToolRefused(Exception):
    """Refusal of a call by a built-in tool. ``outcome`` holds the reason and advice for the model."""

    def __init__(self, error_code: str, problem: str, advice: str = "") -> None:
        problem, advice = redact((encodable(problem), encodable(advice)))
        super().__init__(error_code, problem, advice)
        self.outcome = failure(error_code, problem, advice)


def check_tool(name: str, timeout: float | None, role: ToolRole | None) -> None:
    """Raise `InvalidTool` for a name that no provider accepts, a time limit not above 0, or an unknown role."""
    if not WIRE_NAME.fullmatch(name):
        raise InvalidTool(
            f"{name!r} is not a valid tool name",
            'Use at most 64 letters, digits, _ and -: @tool(name="...")',
        )
    if role is not None and role not in ROLES:
        raise InvalidTool(f"{name} has an unknown role: {role!r}", f"Use one of {', '.join(ROLES)}")
    if timeout is not None and not timeout > 0:
        raise InvalidTool(f"timeout={timeout} is not valid for {name}", "Use a number of seconds above 0, or None for no limit")


def asker_name(tool: Tool) -> str:
    """Return the name shown with questions of a tool: its ``asker_name``, or its own name."""
    name = getattr(tool, "asker_name", "")
    return name if isinstance(name, str) and name else tool.spec.name


class Tool(Protocol):
    """Anything that a model may call.

    A tool may have a method ``refusal(arguments)``, which returns the error result of `run` for arguments that cannot be valid,
    otherwise None. For refused calls, the person is not asked.
    """

    @property
    def spec(self) -> ToolSpec:
        """Name, description and input schema."""

    @property
    def effects(self) -> frozenset[Effect] | None:
        """Effects on the world, or None if undeclared."""

    @property
    def parallel_safe(self) -> bool:
        """True if calls may run in parallel."""

    @property
    def blocking(self) -> bool:
        """True if calls wait for the person; meanwhile, only parallel-safe calls right after them run."""

    @property
    def timeout(self) -> float | None:
        """Seconds after which a call is abandoned, or None for no limit."""

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Run a call. Exceptions become error results, so a tool need not catch any."""
