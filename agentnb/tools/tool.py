"""The tool protocol: all that the loop knows of a tool."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import msgspec

from agentnb.core.display_data import Table
from agentnb.core.messages import Image, Text, ToolResult, encodable
from agentnb.core.questions import QuestionKind
from agentnb.core.redaction import redact
from agentnb.core.request import ROLES, Request, ToolRole, ToolSpec
from agentnb.errors import InvalidTool, NobodyToAsk, SettingsError

T = TypeVar("T")
Effect: TypeAlias = Literal["read", "write", "execute", "network"]
"""What a tool does to the world."""

WIRE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names of tools that all providers accept."""

CallSync: TypeAlias = Callable[[Callable[[], Any], bool], Awaitable[Any]]
"""Runs a blocking function in the right thread: the person's own or, if the second argument is true, one of a pool."""


class Asker(Protocol):
    """Brings the questions of a call to the person, and the answers back."""

    async def ask(self, message: str, schema: dict[str, Any] | None, kind: QuestionKind, url: str = "") -> Any:
        """Ask and wait for the answer. ``url``: the address that the person is to open, to answer there."""

    def ask_sync(self, message: str, schema: dict[str, Any] | None, kind: QuestionKind, url: str = "") -> Any:
        """Ask and block the calling thread until there is an answer."""

    def check_person(self) -> None:
        """Raise `NobodyToAsk` if no question would be answered while the call runs."""

    def prolong(self) -> None:
        """Prolong the time of a call that has progressed, if its tool allows it."""


class CodeScope(Protocol):
    """The surroundings of code that a model wrote while a call runs it."""

    filename: str
    """The name of its source in tracebacks: the code is compiled under it, and by it its functions are known as the model's."""
    tools: tuple[Tool, ...]
    """The tools that the run offers."""

    def is_inside(self) -> bool:
        """Return whether this code calls, in whatever thread; not a tool that it calls, nor a run that it begins."""

    def call(self, name: str, arguments: dict[str, Any]) -> ToolOutcome:
        """Call a tool of the run, as `ToolContext.call_sync`. Raises `ToolFailed` also when the call has ended."""


Code: TypeAlias = Callable[[CodeScope], "ToolOutcome"]
"""Runs code that a model wrote."""
Schedule: TypeAlias = Callable[[Callable[[], None]], None]
"""Has the event loop of the main thread call a function; thread-safe."""


class Inside(Protocol):
    """The services of a run for its running calls."""

    def report(self, call_id: str, done: float, total: float | None, text: str) -> None:
        """Take how far this call has come, from any thread."""

    def printed(self, call_id: str, text: str) -> bool:
        """Take a text that this call prints, from any thread; False if it is not kept with the call."""

    def begun(self, call_id: str, run_id: str, agent: str) -> None:
        """Note a run that this call begins, from any thread."""

    def keep_before(self, call_id: str, path: Path, before: bytes | None, after: bytes) -> None:
        """Keep a file as it is before this call changes it, from any thread."""

    async def call(self, call_id: str, name: str, arguments: dict[str, Any]) -> ToolOutcome:
        """Call a tool of the run from within this call."""

    def call_sync(self, call_id: str, name: str, arguments: dict[str, Any]) -> ToolOutcome:
        """Call a tool like `call`, and block the calling thread until the call has ended."""

    async def run_code(self, call_id: str, code: Code, schedule: Schedule) -> ToolOutcome:
        """Run code of a model on the main thread, where what only the person decides is refused."""

    async def start_run(self, runnable: Any, prompt: Any) -> Any:
        """Begin a nested run and wait for its end."""

    async def start_step(self, path: str, runnable: Any, output: Callable[[Any], Any], **about: Any) -> Any:
        """Begin a nested run as a step of the run with this path, or resume it, and wait for its end.

        ``output``: returns what the step outputs, from that run; ``about``: as for `RunSteps.run`.
        """

    @property
    def run(self) -> Any:
        """The run so far."""

    @property
    def tools(self) -> tuple[Tool, ...]:
        """The tools that the run offers now."""

    @property
    def model(self) -> Any:
        """The model of the run; None if there is none to ask."""

    @property
    def own_gates(self) -> Sequence[Any]:
        """The gates that the person has given the agent, and those of its extensions."""

    async def ask_model(self, request: Request, operation: str, model: Any = None, **about: str) -> Any:
        """Return what a model replies beside the conversation, by default that of the run."""

    def record(self, kind: Any, **fields: Any) -> None:
        """Log an event of the work that this call does."""

    def held(self) -> AbstractContextManager[None]:
        """Hold the clock of the run."""


def no_files() -> None:
    """Return no pattern of hidden files: that of a call without rules."""


class ToolContext(msgspec.Struct, frozen=True):
    """The context of a tool call. A function tool with a parameter of this type receives it."""

    run_id: str
    call_id: str
    work_dir: Path
    run_plain: CallSync
    asker: Asker | None = None
    inside: Inside | None = None
    store_folder: Path | None = None
    """The folder of the logs of runs, in which no built-in tool writes; None if the run has no store."""
    hidden_files: Callable[[], re.Pattern[str] | None] = no_files
    """Returns the absolute paths of files that rules keep from a tool that reads whatever is below a path; None for none."""

    def progress(self, done: float, total: float | None = None, text: str = "") -> None:
        """Say how far the call has come: ``done`` of ``total`` steps (None: unknown), and what it is doing. From any thread.

        It is shown in the card while the tool runs, a few times a second at most; the last is kept in the log.
        """
        if self.inside is not None:
            self.inside.report(self.call_id, done, total, text)
        if self.asker is not None:
            self.asker.prolong()

    def keep_before(self, path: Path, before: bytes | None, after: bytes) -> None:
        """Keep a file as it is before this call changes it, so that the person can undo the change. Blocks; from any thread.

        ``path``: absolute, links followed. ``before``: its bytes, None for a new file; ``after``: those to be written. Raises
        `StoreError` if that fails, and `asyncio.CancelledError` if the call was given up: the file must not be changed then.
        """
        if self.inside is not None:
            self.inside.keep_before(self.call_id, path, before, after)

    async def call(self, name: str, arguments: dict[str, Any] | None = None) -> ToolOutcome:
        """Call another tool of the run and return its outcome: ``value`` is what it returned, ``text`` what a model would read.

        The call passes the same gates, limits and questions as the model's, and is logged; the model sees nothing of it.
        Raises `ToolFailed` if it fails or is not allowed; the model is told of that if the tool does not catch it. Calls of
        tools that are not parallel-safe run one by one.
        """
        return await self._inside().call(self.call_id, name, {} if arguments is None else arguments)

    def call_sync(self, name: str, arguments: dict[str, Any] | None = None) -> ToolOutcome:
        """Call another tool like `call`, from plain functions: it blocks their thread until the call has ended.

        If that is the main thread, plain tools that are called meanwhile run in other threads.
        """
        return self._inside().call_sync(self.call_id, name, {} if arguments is None else arguments)

    async def run_code(self, code: Code, schedule: Schedule) -> ToolOutcome:
        """Run code that the model wrote, on the main thread. For tools that do so.

        There, what speaks for the person is refused: to answer, to allow calls, to change defaults. If no run waits on the main
        thread, ``schedule`` gets the code to run between two cells. Raises `ToolFailed` if the main thread cannot be had.
        """
        return await self._inside().run_code(self.call_id, code, schedule)

    async def start_run(self, runnable: Any, prompt: Any) -> Any:
        """Begin a nested run of this agent, workflow or orchestration, wait for its end and return it.

        Its log is kept where that of this run is. It spends from the budget of this run, asks this run's person, and is
        paused and stopped with this run. For async tools; plain ones write ``agent.run_sync(...)``.
        """
        return await self._inside().start_run(runnable, prompt)

    def _inside(self) -> Inside:
        if self.inside is None:
            raise SettingsError("This tool runs without a run", "Call the function itself")
        return self.inside

    async def ask(self, message: str, schema: dict[str, Any] | None = None, kind: QuestionKind = "elicitation") -> Any:
        """Ask the person and wait for the answer; the time limit of the call is paused meanwhile.

        ``schema`` is the JSON Schema of the answer, text by default: ``{"enum": ["red", "blue"]}``, ``{"type": "boolean"}``.
        Raises `Declined` if the person says no, its subclass `QuestionCancelled` if they close the question without deciding,
        and `NobodyToAsk` if nobody can be asked; the model is told of each if the tool does not catch it. A tool that asks is
        best marked ``blocking=True``.
        """
        return await self._person().ask(message, schema, kind)

    def ask_sync(self, message: str, schema: dict[str, Any] | None = None, kind: QuestionKind = "elicitation") -> Any:
        """Ask like `ask`, from plain functions: it blocks their thread until there is an answer or the run is stopped."""
        return self._person().ask_sync(message, schema, kind)

    async def ask_url(self, message: str, url: str) -> None:
        """Ask the person to open an address of http or https and to answer there; return once they say that it is done.

        agentnb opens nothing: the person sees the host and the whole address first. Raises as `ask`, and `SettingsError` for
        an address that cannot be opened.
        """
        await self._person().ask(message, None, "elicitation", url)

    def ask_url_sync(self, message: str, url: str) -> None:
        """Ask like `ask_url`, from plain functions."""
        self._person().ask_sync(message, None, "elicitation", url)

    def _person(self) -> Asker:
        if self.asker is None:
            raise NobodyToAsk("There is nobody to ask", "Decide yourself and say what you assumed")
        return self.asker


class ToolOutcome(msgspec.Struct, frozen=True):
    """The outcome of a call: either a value or, with ``ok=False``, an error that the model can read.

    ``parts`` is the value (or error) as the model sees it; ``error_code`` names the kind of error; ``display`` is the value as
    a table for the person, if it is one.
    """

    ok: bool
    parts: tuple[Text | Image, ...]
    value: Any = None
    error_code: str | None = None
    display: Table | None = None
    problem: str = ""
    """The error without the advice for a model that ``parts`` has."""

    @property
    def text(self) -> str:
        """The text of its parts, without pictures."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    def as_result(self, call_id: str, name: str) -> ToolResult:
        """Return the outcome as the result of a call."""
        parts: list[Text | Image] = []
        for part in self.parts:  # a plain loop: this runs for every call
            parts.append(Text(encodable(part.text)) if isinstance(part, Text) else part)  # noqa: PERF401
        return ToolResult(call_id, name, tuple(parts), not self.ok, self.error_code)


def failure(error_code: str, problem: str, advice: str = "") -> ToolOutcome:
    """Return an outcome that tells the model what went wrong and, on a line of its own, what to try."""
    text = f"{problem}\n{advice}" if advice else problem
    return ToolOutcome(False, (Text(text),), error_code=error_code, problem=problem)


class ToolRefused(Exception):
    """A call that a built-in tool does not carry out. ``outcome`` tells the model why, and what to try instead."""

    def __init__(self, error_code: str, problem: str, advice: str = "") -> None:
        problem, advice = redact((encodable(problem), encodable(advice)))
        super().__init__(error_code, problem, advice)
        self.outcome = failure(error_code, problem, advice)


def check_tool(name: str, timeout: float | None, role: ToolRole | None) -> None:
    """Raise `InvalidTool` for a name that no provider takes, a time limit that is not above 0, or an unknown role."""
    if not WIRE_NAME.fullmatch(name):
        raise InvalidTool(
            f"{name!r} cannot be the name of a tool",
            'Letters, digits, _ and - only, at most 64: give it one with @tool(name="...")',
        )
    if role is not None and role not in ROLES:
        raise InvalidTool(f"role={role!r} of {name} is none", f"Roles are {', '.join(ROLES)}")
    if timeout is not None and not timeout > 0:
        raise InvalidTool(f"timeout={timeout} of {name} is not a time", "Give seconds above 0, or None for no limit")


def asker_name(tool: Tool) -> str:
    """Return who asks the questions of a tool: its ``asker_name``, if it has one, else its own name."""
    name = getattr(tool, "asker_name", "")
    return name if isinstance(name, str) and name else tool.spec.name


class Tool(Protocol):
    """Something a model may call.

    It may have a method ``refusal(arguments)``: the error result of `run` for arguments that cannot fit, else None. That is
    asked before the person is, who need not decide about a call that cannot run.
    """

    @property
    def spec(self) -> ToolSpec:
        """Name, description and input schema."""

    @property
    def effects(self) -> frozenset[Effect] | None:
        """What it does to the world; None if that was not declared."""

    @property
    def parallel_safe(self) -> bool:
        """Whether it may run beside other calls."""

    @property
    def blocking(self) -> bool:
        """Whether it waits for the person: meanwhile only parallel-safe calls right after it run."""

    @property
    def timeout(self) -> float | None:
        """Seconds after which a call is abandoned; None for never."""

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Run a call. An exception becomes an error result, so there is no need to catch any."""
