"""Handlers supplied by extensions, which answer calls in place of tools."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from agentnb.core.questions import ToolOrigin
from agentnb.core.request import ToolSpec
from agentnb.tools.rendering import success
from agentnb.tools.subject import Flag, Subject, flag_of, origin_of, reads_tree, subject_of
from agentnb.tools.tool import Effect, Tool, ToolContext, ToolOutcome

Handler: TypeAlias = Callable[[Any, ToolContext], Any | Awaitable[Any]]
"""Answers a call. Takes the arguments as the model wrote them, and the call's context; returns anything that a tool could
return.
"""


class VirtualTool:
    """A handler in place of a tool. The model sees the tool of the same name, if there is one.

    Rules and modes apply to its calls as they do to that tool's.
    """

    parallel_safe = False
    blocking = False

    def __init__(self, name: str, handler: Handler, behind: Tool | None = None) -> None:
        self._handler, self.behind = handler, behind
        self.spec = ToolSpec(name, "", {}) if behind is None else behind.spec
        self.effects: frozenset[Effect] | None = None if behind is None else behind.effects
        self.timeout = None if behind is None else behind.timeout
        self.subject: Subject | None = subject_of(behind)
        self.flag: Flag | None = flag_of(behind)
        self.origin: ToolOrigin | None = origin_of(behind)
        self.shifts_context = bool(getattr(behind, "shifts_context", False))
        self.reads_tree = reads_tree(behind)
        self.nature, self.new_text = getattr(behind, "nature", None), getattr(behind, "new_text", None)

    async def run(self, arguments: Any, context: ToolContext) -> ToolOutcome:
        """Call the handler; a plain handler runs on the thread of plain tools. The arguments are not validated."""
        call = partial(self._handler, arguments, context)
        value = call() if inspect.iscoroutinefunction(self._handler) else await context.run_plain(call, False)
        if inspect.isawaitable(value):
            value = await value
        return await asyncio.to_thread(success, value)

    def __repr__(self) -> str:
        return f"<virtual tool {self.spec.name}>"


class VirtualTools:
    """The handlers of a run, by tool name."""

    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers
        self._tools: dict[str, VirtualTool] = {}

    def get(self, name: str, behind: Tool | None) -> Tool | None:
        """Return the handler for calls by this name, or else the tool itself."""
        handler = self._handlers.get(name)
        if handler is None:
            return behind
        tool = self._tools.get(name)
        if tool is None or tool.behind is not behind:
            tool = self._tools[name] = VirtualTool(name, handler, behind)
        return tool
