"""Functions as tools."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Any, TypeVar, overload

from agentnb.advice import Plain
from agentnb.core.request import ROLES, ToolRole, ToolSpec
from agentnb.errors import InvalidTool, near, nearest
from agentnb.tools.open_figures import close_returned, open_figures
from agentnb.tools.rendering import success
from agentnb.tools.signature import ArgumentsRefused, no_object, problems, read_signature
from agentnb.tools.subject import KINDS as SUBJECTS
from agentnb.tools.subject import Flag, Subject
from agentnb.tools.tool import Effect, ToolContext, ToolOutcome, failure

F = TypeVar("F", bound=Callable[..., Any])

EFFECTS: tuple[Effect, ...] = ("read", "write", "execute", "network")
WIRE_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""Names of tools that all providers accept."""
SHOWN_AT_ONCE = (str, int, float, dict, ToolOutcome, type(None))
SETTINGS = ("name", "effects", "parallel_safe", "blocking", "timeout", "repeatable", "role", *SUBJECTS, "content")
"""What `tool` takes."""
MARK = "__agentnb_tool__"
"""The attribute of a function that holds what `tool` made of it."""


class FunctionTool:
    """A Python function that a model may call.

    A plain function runs on the person's own thread (in a notebook: the kernel's main thread, so that plots, ``input()``
    and interrupts work), one at a time; with ``parallel_safe`` in a thread beside others. A coroutine function runs on the
    event loop. Functions of the notebook are trusted: they run without asking, unless a gate or the approval mode asks.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        name: str | None = None,
        effects: Iterable[Effect] | None = None,
        parallel_safe: bool | None = None,
        blocking: bool = False,
        timeout: float | None = None,
        repeatable: bool = False,
        role: ToolRole | None = None,
        command: str = "",
        path: str = "",
        url: str = "",
        content: str = "",
        flag: Flag | None = None,
    ) -> None:
        self.function = function
        self.flag = flag
        """The permission that it needs, if it is one of agentnb's own tools."""
        name = name or _name_of(function)
        self.effects: frozenset[Effect] | None = None if effects is None else frozenset(effects)
        _check(name, self.effects, role, timeout)
        self.parallel_safe = self.effects == frozenset({"read"}) if parallel_safe is None else parallel_safe
        self.blocking = blocking
        self.timeout = timeout
        self.repeatable = repeatable
        self.settings: dict[str, Any] = {
            "name": name,
            "effects": effects,
            "parallel_safe": parallel_safe,
            "blocking": blocking,
            "timeout": timeout,
            "repeatable": repeatable,
            "role": role,
            "command": command,
            "path": path,
            "url": url,
            "content": content,
        }
        """The arguments it was made with, to make it again around a bound method."""
        self.signature = read_signature(function, name)
        effects_in_order = tuple(sorted(self.effects or ()))
        self.spec = ToolSpec(name, self.signature.description, self.signature.schema, effects_in_order, role)
        given = {"command": command, "path": path, "url": url}
        self.subject = _subject({kind: value for kind, value in given.items() if value}, content, self.spec)
        self._is_async = any(map(inspect.iscoroutinefunction, (function, type(function).__call__)))

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Check the arguments and call the function."""
        try:
            positional, keywords = self.signature.bind(arguments, context)
        except ArgumentsRefused as refused:
            if not isinstance(arguments, dict):
                return _refused(self.spec.name, no_object(arguments, self.signature.schema))
            found = problems(arguments, self.signature.schema)
            return _refused(self.spec.name, found or [str(refused)])
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
        return await asyncio.to_thread(_drawn, value, before)  # drawing a figure or formatting a table takes time

    def _call(self, positional: list[Any], keywords: dict[str, Any]) -> ToolOutcome | Awaitable[Any]:
        """Call a plain function and convert its value here, where that may take its time.

        A plain function around an async one returns an awaitable instead.
        """
        before = open_figures()
        value = self.function(*positional, **keywords)
        return value if inspect.isawaitable(value) else _drawn(value, before)

    def __repr__(self) -> str:
        return f"<tool {self.spec.name}>"


def _check(name: str, effects: frozenset[Effect] | None, role: ToolRole | None, timeout: float | None) -> None:
    """Raise `InvalidTool` for a setting with a value that a tool cannot have."""
    if not WIRE_NAME.fullmatch(name):
        raise InvalidTool(
            f"{name!r} cannot be the name of a tool",
            'Letters, digits, _ and - only, at most 64: give it one with @tool(name="...")',
        )
    if unknown := (effects or frozenset()) - set(EFFECTS):
        raise InvalidTool(f"{name} has no such effect: {', '.join(sorted(unknown))}", f"Effects are {', '.join(EFFECTS)}")
    if role is not None and role not in ROLES:
        raise InvalidTool(f"role={role!r} of {name} is none", f"Roles are {', '.join(ROLES)}")
    if timeout is not None and not timeout > 0:
        raise InvalidTool(f"timeout={timeout} of {name} is not a time", "Give seconds above 0, or None for no limit")


def _subject(named: dict[str, str], content: str, spec: ToolSpec) -> Subject | None:
    """Return the subject of a tool; raise `InvalidTool` if a parameter is missing, or if there are several."""
    for parameter in (*named.values(), *([content] if content else ())):
        known = spec.input_schema.get("properties", {})
        if parameter not in known:
            raise InvalidTool(f"{spec.name} has no parameter {parameter!r}", near(str(parameter), known))
    if len(named) > 1 or (content and "path" not in named):
        what = f"{spec.name} names {', '.join([*named, *(['content'] if content else [])])}"
        raise InvalidTool(what, "Name one parameter: a command, a path or a url; a path may have content beside it")
    return next((Subject(kind, value, content) for kind in SUBJECTS if (value := named.get(kind))), None)


def _drawn(value: Any, before: list[Any]) -> ToolOutcome:
    """Return the outcome with this value, and close the figures that the call opened and returned."""
    outcome = success(value)
    close_returned(value, before)
    return outcome


def _name_of(function: Callable[..., Any]) -> str:
    while isinstance(function, partial):
        function = function.func
    return getattr(function, "__name__", None) or type(function).__name__


def _refused(name: str, found: list[str]) -> ToolOutcome:
    listed = "\n".join(f"- {problem}" for problem in found)
    return failure(
        "invalid_arguments",
        f"The arguments do not fit {name}, which was not run:\n{listed}",
        "Correct these and call it again.",
    )


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str | None = None,
    effects: Iterable[Effect] | None = None,
    parallel_safe: bool | None = None,
    blocking: bool = False,
    timeout: float | None = None,
    repeatable: bool = False,
    role: ToolRole | None = None,
    command: str = "",
    path: str = "",
    url: str = "",
    content: str = "",
) -> Callable[[F], F]: ...
def tool(function: F | None = None, /, **settings: Any) -> F | Callable[[F], F]:
    """Mark a function as a tool, with settings if it has any; the function stays an ordinary function.

    ``name``: what the model calls it. ``effects``: what it does to the world (read, write, execute, network).
    ``parallel_safe``: may run beside other calls; by default only tools that just read. ``blocking``: waits for the person;
    later calls that are not parallel-safe wait with it, as for any call. ``timeout``: seconds after which a call is abandoned.
    ``repeatable``: the same call may return something new, as when it polls; the duplicate-call guard lets it pass.
    ``role``: ``planning`` or ``list`` for a tool that only prepares work, so that calling it does not count as work.
    ``command``, ``path`` or ``url``: the name of the parameter that is a shell command, a path or an address, which rules in
    brackets are about, as in ``write_file(data/**)``; ``content``: beside a path, the parameter that is the whole new text of
    the file, of which the question shows the change.
    Raises `InvalidTool` at once if a model could not call it, or for another setting.
    """
    if unknown := [name for name in settings if name not in SETTINGS]:
        takes = f'@tool takes {", ".join(SETTINGS)}, such as @tool(effects=["read"])'
        raise InvalidTool(f"@tool has no setting {unknown[0]}", (*nearest(unknown[0], SETTINGS), Plain(takes)))

    def mark(function: F) -> F:
        made = FunctionTool(function, **settings)
        try:
            setattr(function, MARK, made)
        except AttributeError as error:
            raise InvalidTool(f"{function!r} cannot be marked", "Mark the function in its class, or wrap it in one") from error
        return function

    return mark if function is None else mark(function)


def _with_article(kind: str) -> str:
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"


def as_tool(value: Any, name: str = "") -> Any:
    """Return a tool for the value: a tool as it is, a function as a `FunctionTool`. Raises `InvalidTool` for anything else.

    ``name``: the variable that holds it, for the error.
    """
    marked = getattr(value, MARK, None)
    if isinstance(marked, FunctionTool) and marked.function is value:
        return marked
    if isinstance(marked, FunctionTool) and inspect.ismethod(value):
        return FunctionTool(value, **marked.settings, flag=marked.flag)
    if isinstance(getattr(value, "spec", None), ToolSpec) and callable(getattr(value, "run", None)):
        return value
    if callable(value) and not inspect.isclass(value):
        return FunctionTool(value)
    kind = f"the class {value.__name__}" if inspect.isclass(value) else _with_article(type(value).__name__)
    subject = f"`{name}` is {kind}" if name else f"{kind[0].upper()}{kind[1:]} was given"
    raise InvalidTool(f"{subject}, not a tool", "Pass a function")
