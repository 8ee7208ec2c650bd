"""Functions as tools."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypedDict, TypeVar, Unpack, overload

from agentnb.advice import Plain
from agentnb.core.request import ToolRole, ToolSpec
from agentnb.errors import InvalidTool, suggest_similar
from agentnb.tools.agent_tool import AgentLike, AgentSettings, AgentTool, offer_of
from agentnb.tools.open_figures import close_returned, open_figures
from agentnb.tools.rendering import success
from agentnb.tools.signature import ArgumentsRefused, read_signature, refused_arguments
from agentnb.tools.subject import Flag, named_subject
from agentnb.tools.tool import Effect, ToolContext, ToolOutcome, check_tool

F = TypeVar("F", bound=Callable[..., Any])

EFFECTS: tuple[Effect, ...] = ("read", "write", "execute", "network")
SHOWN_AT_ONCE = (str, int, float, dict, ToolOutcome, type(None))
MARK = "__agentnb_tool__"
"""Attribute in which `tool` stores the tool on a function."""


class FunctionSettings(TypedDict, total=False):
    """Keywords of `tool` for a function."""

    name: str | None
    effects: Iterable[Effect] | None
    parallel_safe: bool | None
    blocking: bool
    timeout: float | None
    repeatable: bool
    shifts_context: bool
    role: ToolRole | None
    command: str
    path: str
    url: str
    content: str


SETTINGS = tuple(FunctionSettings.__annotations__)


class FunctionTool:
    """A Python function that a model may call.

    A plain function runs on the person's own thread (in a notebook: the kernel's main thread, so that plots, ``input()`` and
    interrupts work), one at a time; with ``parallel_safe``, in a thread in parallel with others. A coroutine function runs on
    the event loop. Functions of the notebook are trusted: they run without asking, unless a gate or the mode asks.
    """

    def __init__(self, function: Callable[..., Any], *, flag: Flag | None = None, **settings: Unpack[FunctionSettings]) -> None:
        """``settings``: as for `tool`. Raises `InvalidTool` for an unknown setting."""
        _check_settings(settings)
        self.function, self.flag = function, flag
        self.settings = settings
        """Arguments of the constructor, for recreating the tool for a bound method."""
        name, role = settings.get("name") or _name_of(function), settings.get("role")
        self.timeout = settings.get("timeout")
        check_tool(name, self.timeout, role)
        self.effects = _check_effects(name, settings.get("effects"))
        parallel_safe = settings.get("parallel_safe")
        self.parallel_safe = self.effects == frozenset({"read"}) if parallel_safe is None else parallel_safe
        self.blocking = bool(settings.get("blocking"))
        self.repeatable = bool(settings.get("repeatable"))
        self.shifts_context = bool(settings.get("shifts_context"))
        self.signature = read_signature(function, name)
        effects_in_order = tuple(sorted(self.effects or ()))
        self.spec = ToolSpec(name, self.signature.description, self.signature.schema, effects_in_order, role)
        self.subject = named_subject(self.spec, settings)
        self._is_async = any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Check the arguments and call the function."""
        try:
            positional, keywords = self.signature.bind(arguments, context)
        except ArgumentsRefused as refused:
            return self._refusal_of(arguments, refused)
        before = open_figures()
        if self._is_async:
            value = await self.function(*positional, **keywords)
        else:
            done = await context.run_plain(partial(self._call, positional, keywords), self.parallel_safe)
            if isinstance(done, ToolOutcome):
                return done
            value = await done
        if isinstance(value, SHOWN_AT_ONCE):
            return success(value)
        return await asyncio.to_thread(_outcome_of, value, before)  # rendering a figure or formatting a table takes time

    def refusal(self, arguments: Any) -> ToolOutcome | None:
        """Return the error result of `run` for invalid arguments, or None for valid ones."""
        try:
            self.signature.check(arguments)
        except ArgumentsRefused as refused:
            return self._refusal_of(arguments, refused)
        return None

    def _refusal_of(self, arguments: Any, refused: ArgumentsRefused) -> ToolOutcome:
        return refused_arguments(self.spec.name, arguments, self.signature.schema, str(refused))

    def _call(self, positional: list[Any], keywords: dict[str, Any]) -> ToolOutcome | Awaitable[Any]:
        """Call a plain function and convert its value in the same thread, since that may take time.

        A plain function around an async one returns an awaitable instead.
        """
        before = open_figures()
        value = self.function(*positional, **keywords)
        return value if inspect.isawaitable(value) else _outcome_of(value, before)

    def __repr__(self) -> str:
        return f"<tool {self.spec.name}>"


def _check_settings(settings: Iterable[str]) -> None:
    """Raise `InvalidTool` for an unknown setting."""
    if unknown := [name for name in settings if name not in SETTINGS]:
        takes = f'@tool accepts {", ".join(SETTINGS)}, for example @tool(effects=["read"])'
        raise InvalidTool(f"@tool has no setting {unknown[0]}", (*suggest_similar(unknown[0], SETTINGS), Plain(takes)))


def _check_effects(name: str, effects: Iterable[Effect] | None) -> frozenset[Effect] | None:
    """Return the effects as a set. Raises `InvalidTool` for an unknown effect."""
    if effects is None:
        return None
    chosen = frozenset(effects)
    if unknown := chosen - set(EFFECTS):
        raise InvalidTool(
            f"{name} has an unknown effect: {', '.join(sorted(unknown))}", f"Effects must be among {', '.join(EFFECTS)}"
        )
    return chosen


def _outcome_of(value: Any, before: list[Any]) -> ToolOutcome:
    """Return the outcome for a value, and close the figures that the call opened and returned."""
    outcome = success(value)
    close_returned(value, before)
    return outcome


def _name_of(function: Callable[..., Any]) -> str:
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", None) or type(function).__name__


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(agent: AgentLike | AgentTool, /, **settings: Unpack[AgentSettings]) -> AgentTool: ...
@overload
def tool(**settings: Unpack[FunctionSettings]) -> Callable[[F], F]: ...
def tool(function: Any = None, /, **settings: Any) -> Any:
    """Mark a function as a tool, optionally with settings; the function itself is unchanged.

    For an agent, a `Workflow` or an `Orchestration`, returns an `AgentTool`: ``tool(researcher, name="...",
    description="...")``. The settings are then ``name``, ``description``, ``parallel_safe``, ``timeout``, ``repeatable`` and
    ``role``, as described there.

    ``name``: tool name. ``effects``: effects on the world (read, write, execute, network). ``parallel_safe``: calls may run in
    parallel; by default only for tools that just read. ``blocking``: the tool waits for the person; as with any call, later
    calls that are not parallel-safe wait for it. ``timeout``: seconds after which a call is abandoned. ``repeatable``:
    repeating a call may return something new, as when polling; the duplicate-call guard lets it pass. ``shifts_context``: its
    result may change the context of the run: a dict with ``new_context``, ``entity_id``, ``message``. ``role``: ``planning`` or
    ``list`` for a tool that only prepares work, so that calling it does not count as work. ``command``, ``path`` or ``url``:
    the name of the parameter that is a shell command, a path or an address, for rules in brackets such as
    ``write_file(data/**)``; ``content``: with ``path``, the parameter with the complete new text of the file, so that the
    question can show the change. Raises `InvalidTool` at once for an unknown setting, or if a model could not call the
    function.
    """
    if isinstance(function, AgentTool):
        return function.with_settings(**settings)
    if offer_of(function) is not None:
        return AgentTool(function, **settings)
    _check_settings(settings)

    def mark(function: Any) -> Any:
        if isinstance(function, AgentTool) or offer_of(function) is not None:
            return tool(function, **settings)
        marked = FunctionTool(function, **settings)
        try:
            setattr(function, MARK, marked)
        except AttributeError as error:
            raise InvalidTool(
                f"@tool cannot mark {function!r}", "Mark the function in its class, or wrap it in a function"
            ) from error
        return function

    return mark if function is None else mark(function)


def as_tool(value: Any, name: str = "") -> Any:
    """Convert a value to a tool: tools are returned unchanged, a function becomes a `FunctionTool`, an agent or workflow an
    `AgentTool`.

    ``name``: the variable that has the value, for the error. Raises `InvalidTool` for any other value.
    """
    marked = getattr(value, MARK, None)
    if isinstance(marked, FunctionTool) and marked.function is value:
        return marked
    if isinstance(marked, FunctionTool) and inspect.ismethod(value):
        return FunctionTool(value, **marked.settings, flag=marked.flag)
    if isinstance(getattr(value, "spec", None), ToolSpec) and callable(getattr(value, "run", None)):
        return value
    if offer_of(value) is not None:
        return AgentTool(value)
    if callable(value) and not inspect.isclass(value):
        return FunctionTool(value)
    named = value if inspect.isclass(value) else type(value)
    article = "the class" if named is value else "an" if named.__name__[:1].lower() in "aeiou" else "a"
    kind = f"{article} {named.__name__}"
    subject = f"`{name}` is {kind}" if name else f"{kind[0].upper()}{kind[1:]} was passed"
    raise InvalidTool(f"{subject}, not a tool", "Pass a function, an agent or a workflow")
