"""The tools of one agent, by name, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from types import FunctionType
from typing import Any

from agentnb.advice import advised, in_python
from agentnb.core.request import ToolSpec
from agentnb.core.schema.nesting import MAX_DEPTH, is_too_deep
from agentnb.errors import InvalidTool, near
from agentnb.tools.agent_tool import AgentTool
from agentnb.tools.builtin.group import BuiltinTool
from agentnb.tools.builtin.named import tools_of, tools_of_word
from agentnb.tools.mcp.server import ServerTools, server_tools
from agentnb.tools.tool import Tool, ToolOutcome, failure


class Toolbox:
    """Tools by name, in the order given (a changing order would break prompt caches)."""

    def __init__(self, tools: Iterable[Any] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self.specs: tuple[ToolSpec, ...] = ()
        self.servers: tuple[ServerTools, ...] = ()
        """The MCP servers whose tools a run adds when it has connected to them."""
        for value in tools:
            if (item := server_tools(value)) is not None:
                self.servers = (*self.servers, *([] if item in self.servers else [item]))
                continue
            for tool in tools_of(value):
                if self._tools.get(tool.spec.name) is not tool or not isinstance(tool, BuiltinTool):
                    self.register(tool)

    def register(self, tool: Tool) -> None:
        """Add a tool. Raises `InvalidTool` if its name is taken or its schema is nested too deep."""
        name = tool.spec.name
        self.check_free(tool)
        if is_too_deep(tool.spec.input_schema):
            what = f"The schema of tool {name} is nested deeper than {MAX_DEPTH} levels"
            raise InvalidTool(what, "Let it take a text, such as JSON, where its arguments are that deep")
        self._tools[name] = tool
        self.specs = (*self.specs, tool.spec)

    def check_free(self, tool: Tool) -> None:
        """Raise `InvalidTool` if the name of a tool is taken."""
        name = tool.spec.name
        if name in self._tools:
            raise InvalidTool(f'tool "{name}" already registered', _how_to_rename(tool, self._tools[name]))

    def with_tool(self, tool: Tool) -> Toolbox:
        """Return a toolbox with these tools and one more, at the end."""
        self.check_free(tool)
        other = self.knowing(tool)
        other.specs = (*self.specs, tool.spec)
        return other

    def knowing(self, tool: Tool) -> Toolbox:
        """Return a toolbox that also runs this tool, without advertising it to the model."""
        other = Toolbox()
        other._tools = self._tools | {tool.spec.name: tool}
        other.specs, other.servers = self.specs, self.servers
        return other

    def with_words(self, words: Iterable[str]) -> Toolbox:
        """Return a toolbox with these tools and the built-in ones that the words stand for, but for names that are taken."""
        other = Toolbox()
        other._tools, other.specs, other.servers = dict(self._tools), self.specs, self.servers
        for tool in [tool for word in words if word not in self._tools for tool in tools_of_word(word)]:
            if tool.spec.name not in other._tools:
                other.register(tool)
        return other

    def of_word(self, word: str) -> tuple[Tool, ...]:
        """Return the tools that a word of a file stands for: the one of this name, else those of a group of built-in tools.

        Tools that are here replace built-in ones of their names.
        """
        own = self._tools.get(word)
        if own is not None:
            return (own,)
        return tuple([self._tools.get(tool.spec.name, tool) for tool in tools_of_word(word)])

    @property
    def is_empty(self) -> bool:
        """Whether it has neither tools nor servers, which will have some."""
        return not self._tools and not self.servers

    @property
    def reads_foreign_text(self) -> bool:
        """Whether it has tools of servers or built-in ones, which read files, pages and the output of commands."""
        return bool(self.servers) or any(isinstance(tool, BuiltinTool) for tool in self)

    def check_usable(self) -> None:
        """Raise `SettingsError`, with what to install or set, if a built-in tool cannot work here."""
        for tool in self:
            if isinstance(tool, BuiltinTool):
                tool.check_usable()

    def get(self, name: str) -> Tool | None:
        """Return the tool of this name, or None."""
        return self._tools.get(name)

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def not_found(self, name: str) -> ToolOutcome:
        """Return the error result for an unknown tool."""
        advice = near(name, list(self._tools)) or advised("There are no tools: answer with text.")
        return failure("unknown_tool", f"tool not found: {name}. {in_python(advice)}")


def _how_to_rename(*tools: Tool) -> str:
    if any(isinstance(tool, AgentTool) for tool in tools):
        return 'Give one of them another name with tool(researcher, name="...")'
    if any(not isinstance(getattr(tool, "function", None), FunctionType) for tool in tools):  # such as a bound method
        return "Wrap one of them in a function of another name"
    return 'Give one of them another name with @tool(name="...")'
