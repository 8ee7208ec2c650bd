"""Calls that handlers of extensions answer, before any tool of their name is asked."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from agentnb.core.questions import ToolOrigin
from agentnb.core.request import ToolSpec
from agentnb.tools.rendering import success
from agentnb.tools.subject import Flag, Subject, flag_of, origin_of, subject_of
from agentnb.tools.tool import Effect, Tool, ToolContext, ToolOutcome

Handler: TypeAlias = Callable[[Any, ToolContext], Any | Awaitable[Any]]
"""Answers a call: takes its arguments as the model wrote them and the context of the call, returns what a tool returns."""


class VirtualTool:
    """A handler in the place of a tool. It is not offered to the model; a tool of its name may be, whose nature it has."""

    parallel_safe = False
    blocking = False

    def __init__(self, name: str, handler: Handler, behind: Tool | None = None) -> None:
        self._handler, self.behind = handler, behind
        self.spec = ToolSpec(name, "", {}) if behind is None else behind.spec
        self.effects: frozenset[Effect] | None = None if behind is None else behind.effects
        self.timeout = None if behind is None else behind.timeout
        self.subject: Subject | None = None if behind is None else subject_of(behind)
        self.flag: Flag | None = flag_of(behind)
        self.origin: ToolOrigin | None = origin_of(behind)
        self.shifts_context = bool(getattr(behind, "shifts_context", False))

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Call the handler; a plain one runs on the thread of plain tools. The arguments are not checked."""
        call = partial(self._handler, arguments, context)
        value = call() if inspect.iscoroutinefunction(self._handler) else await context.run_plain(call, False)
        if inspect.isawaitable(value):
            value = await value
        return await asyncio.to_thread(success, value)

    def __repr__(self) -> str:
        return f"<virtual tool {self.spec.name}>"


class VirtualTools:
    """The handlers of a run, by the names of the calls that they answer."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._tools: dict[str, VirtualTool] = {}

    def get(self, name: str, behind: Tool | None) -> Tool | None:
        """Return what answers calls of this name: a handler, else the tool itself."""
        handler = self._handlers.get(name)
        if handler is None:
            return behind
        known = self._tools.get(name)
        if known is None or known.behind is not behind:
            known = self._tools[name] = VirtualTool(name, handler, behind)
        return known
