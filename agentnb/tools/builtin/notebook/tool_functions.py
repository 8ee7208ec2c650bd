"""The tools of a run as functions in code that a model wrote."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from agentnb.errors import ToolFailed, nearest
from agentnb.tools.function import FunctionTool
from agentnb.tools.rendering import as_text
from agentnb.tools.tool import CodeScope, Tool

NAMESPACE = "tools"
"""The name under which code finds all of them."""


class ToolFunction:
    """A tool as a function: arguments as the tool has them, returns the tool's value, raises `ToolFailed`."""

    def __init__(self, scope: CodeScope, tool: Tool, own: Any = None) -> None:
        """``own``: the function of the notebook that the tool is, for all who call it but the code."""
        self._scope = scope
        self._own = own
        self._names = [*tool.spec.input_schema.get("properties", {})]
        self.__name__ = self.__qualname__ = tool.spec.name
        self.__doc__ = tool.spec.description

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the tool."""
        if self._own is not None and not self._scope.is_inside():
            return self._own(*args, **kwargs)
        if len(args) > len(self._names):
            raise TypeError(f"{self.__name__}() takes {len(self._names)} arguments, got {len(args)}")
        named = dict(zip(self._names, args, strict=False))
        if twice := named.keys() & kwargs.keys():
            raise TypeError(f"{self.__name__}() got two values for {min(twice)!r}")
        try:
            outcome = self._scope.call(self.__name__, named | kwargs)
        except ToolFailed as error:
            raise error.with_traceback(None) from None  # the way through the run's event loop says nothing to a model
        return outcome.value if outcome.value is not None or outcome.text == as_text(None) else outcome.text

    def __repr__(self) -> str:
        return f"<tool {self.__name__}>"


class ToolNamespace:
    """All tools of a run, as attributes."""

    def __init__(self, functions: Mapping[str, ToolFunction]) -> None:
        self._functions = dict(functions)

    def __getattr__(self, name: str) -> ToolFunction:
        functions = self.__dict__.get("_functions", {})
        if name in functions:
            return functions[name]  # type: ignore[no-any-return]  # what it holds
        known = ", ".join(functions) or "none"
        near = "; ".join(str(one.known[0]) for one in nearest(name, functions) if one.known)
        raise AttributeError(f"There is no tool {name!r}. {f'Nearest: {near}. ' if near else ''}Tools: {known}")

    def __dir__(self) -> list[str]:
        return [*self._functions]

    def __repr__(self) -> str:
        return f"<tools {', '.join(self._functions)}>"


@contextmanager
def tools_as_functions(scope: CodeScope, variables: dict[str, Any], own_name: str) -> Iterator[None]:
    """Let code find the tools in the block: as builtins, so that variables of the notebook win and nothing stays in it.

    Where a variable holds the very function that a tool is, the name stands for the tool meanwhile. ``own_name``: of the tool
    that runs the code, which is left out.
    """
    offered = [tool for tool in scope.tools if tool.spec.name != own_name]
    functions = {tool.spec.name: ToolFunction(scope, tool) for tool in offered}
    given = {NAMESPACE: ToolNamespace(functions), **functions}
    hidden, ours = vars(builtins), (ToolFunction, ToolNamespace)
    added = {name: value for name, value in given.items() if type(hidden.get(name)) in ours or name not in hidden}
    before = {name: hidden[name] for name in added if name in hidden}
    swapped = {
        tool.spec.name: ToolFunction(scope, tool, variables[tool.spec.name])
        for tool in offered
        if isinstance(tool, FunctionTool) and variables.get(tool.spec.name) is tool.function
    }
    own = {name: variables[name] for name in swapped}
    hidden.update(added)
    variables.update(swapped)
    try:
        yield
    finally:
        _put_back(variables, swapped, own)
        _put_back(hidden, added, before)


def _put_back(namespace: dict[str, Any], added: Mapping[str, Any], before: Mapping[str, Any]) -> None:
    """Undo an update of a namespace, but for names that were given another value meanwhile."""
    for name, value in added.items():
        if namespace.get(name) is value:
            if name in before:
                namespace[name] = before[name]
            else:
                del namespace[name]
