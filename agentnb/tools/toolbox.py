"""Tools of an agent by name, in a fixed order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from types import FunctionType
from typing import Any

from agentnb.advice import as_advice, in_python, sentences
from agentnb.core.request import ToolSpec
from agentnb.core.schema.nesting import MAX_DEPTH, is_too_deep
from agentnb.errors import InvalidTool, suggest_names, suggest_similar
from agentnb.tools.agent_tool import AgentTool
from agentnb.tools.builtin.builtin_names import tools_of, tools_of_word
from agentnb.tools.builtin.group import BuiltinTool
from agentnb.tools.mcp.mcp_server import PREFIX, ServerTools, resolve_servers, server_tools
from agentnb.tools.mcp.wire_names import may_be_of, registry_name
from agentnb.tools.subject import origin_of
from agentnb.tools.tool import Tool, ToolOutcome, failure


class Toolbox:
    """Tools by name, in a fixed order, since a changing order would break prompt caches."""

    def __init__(self, tools: Iterable[Any] = ()) -> None:
        self._tools: dict[str, Tool] = {}
        self.specs: tuple[ToolSpec, ...] = ()
        self.servers: tuple[ServerTools, ...] = ()
        """MCP servers whose tools a run adds once connected."""
        servers: list[ServerTools] = []
        for value in tools:
            if (item := server_tools(value)) is not None:
                servers.append(item)
                continue
            for tool in tools_of(value):
                if self._tools.get(tool.spec.name) is not tool or not isinstance(tool, BuiltinTool):
                    self.register(tool)
        if servers:
            self.servers = resolve_servers(servers)

    def register(self, tool: Tool) -> None:
        """Add a tool. Raises `InvalidTool` for a duplicate name or a schema that is nested too deeply."""
        name = tool.spec.name
        self.check_free(tool)
        if is_too_deep(tool.spec.input_schema):
            problem = f"The schema of tool {name} is nested deeper than {MAX_DEPTH} levels"
            raise InvalidTool(problem, "Let it take deeply nested arguments as a string, such as JSON")
        self._tools[name] = tool
        self.specs = (*self.specs, tool.spec)

    def check_free(self, tool: Tool) -> None:
        """Raise `InvalidTool` if the name of a tool is in use."""
        name = tool.spec.name
        if name in self._tools:
            raise InvalidTool(f'tool "{name}" already registered', how_to_rename(tool, self._tools[name]))

    def with_tool(self, tool: Tool) -> Toolbox:
        """Return a toolbox with one more tool at the end."""
        self.check_free(tool)
        toolbox = self.knowing(tool)
        toolbox.specs = (*self.specs, tool.spec)
        return toolbox

    def with_tools(self, tools: Iterable[Tool], hidden: Iterable[Tool] = ()) -> Toolbox:
        """Return a toolbox with more tools at the end; ``hidden`` ones run without being advertised."""
        shown, more = [*tools], [*hidden]
        for tool in (*shown, *more):
            self.check_free(tool)
        toolbox = Toolbox()
        toolbox._tools = self._tools | {tool.spec.name: tool for tool in (*shown, *more)}
        toolbox.specs, toolbox.servers = (*self.specs, *[tool.spec for tool in shown]), self.servers
        return toolbox

    def advertising(self, specs: Iterable[ToolSpec]) -> Toolbox:
        """Return a toolbox with the same tools that advertises these specs, in this order."""
        toolbox = self.with_tools(())
        toolbox.specs = tuple(specs)
        return toolbox

    def knowing(self, tool: Tool) -> Toolbox:
        """Return a toolbox that also runs this tool, without advertising it."""
        toolbox = Toolbox()
        toolbox._tools = self._tools | {tool.spec.name: tool}
        toolbox.specs, toolbox.servers = self.specs, self.servers
        return toolbox

    def with_words(self, words: Iterable[str]) -> Toolbox:
        """Return a toolbox that also has the tools named by these words, except those with duplicate names.

        Words name built-in tools, MCP servers, and tools of servers in this toolbox.
        """
        toolbox, words = Toolbox(), [*map(registry_name, words)]
        toolbox._tools, toolbox.specs = dict(self._tools), self.specs
        toolbox.servers = resolve_servers((*self.servers, *filter(None, map(server_tools, words))))
        of_servers = [item for word in words if word not in self._tools and (item := toolbox._tool_of_server(word))]
        toolbox.servers = resolve_servers((*toolbox.servers, *of_servers))
        for tool in [tool for word in words if word not in self._tools for tool in tools_of_word(word)]:
            if tool.spec.name not in toolbox._tools:
                toolbox.register(tool)
        return toolbox

    def of_word(self, word: str) -> tuple[Tool | ServerTools, ...]:
        """Return the tools for a word in a file: the tool with this name, or the built-in tools of a group.

        Tools in this toolbox replace built-in ones with the same name. Tools of MCP servers are items of ``tools=``.
        """
        own = self._tools.get(word)
        if own is not None:
            return (own,)
        if (named := server_tools(word)) is not None:
            registered = next((item.server for item in self.servers if item.name == named.name), None)
            return (replace(named, server=named.server or registered),)
        if (of_server := self._tool_of_server(word)) is not None:
            return (of_server,)
        return tuple([self._tools.get(tool.spec.name, tool) for tool in tools_of_word(word)])

    def may_have(self, name: str) -> bool:
        """True if the toolbox has this tool, or one of its servers may have it."""
        return name in self._tools or any(may_be_of(item.name, name) for item in self.servers)

    def _tool_of_server(self, name: str) -> ServerTools | None:
        """Return the tool with this name if exactly one server may have it, otherwise None."""
        candidates = {item.name: item for item in self.servers if may_be_of(item.name, name)}
        return replace(*candidates.values(), tool=name) if len(candidates) == 1 else None

    @property
    def is_empty(self) -> bool:
        """True if there are neither tools nor servers."""
        return not self._tools and not self.servers

    @property
    def reads_foreign_text(self) -> bool:
        """True if it has tools of MCP servers, or built-in tools: these read files, pages and command output."""
        return bool(self.servers or [tool for tool in self._tools.values() if isinstance(tool, BuiltinTool)])

    def check_usable(self) -> None:
        """Raise `SettingsError`, naming what to install or set, if a built-in tool cannot work here."""
        for tool in self._tools.values():
            if isinstance(tool, BuiltinTool):
                tool.check_usable()

    def get(self, name: str) -> Tool | None:
        """Return a tool by name, or by a word such as ``mcp:clock/now`` regardless of the tool's own name, or None."""
        tool = self._tools.get(name)
        if tool is None and name.startswith(PREFIX):
            origins = [(tool, origin) for tool in self if (origin := origin_of(tool)) is not None]
            return next((tool for tool, origin in origins if name == f"{PREFIX}{origin.server}/{origin.tool}"), None)
        return tool

    def __iter__(self) -> Iterator[Tool]:
        return iter(self._tools.values())

    def __len__(self) -> int:
        return len(self._tools)

    def not_found(self, name: str, hidden: Iterable[str] = (), more: str = "") -> ToolOutcome:
        """Return the error result for an unknown tool.

        ``hidden``: tools suggested only for similar names; ``more``: additional sentences.
        """
        names = [spec.name for spec in self.specs]
        advice = (
            suggest_similar(name, [*names, *hidden])
            or suggest_names(name, names)
            or as_advice("There are no tools: answer with text.")
        )
        return failure("unknown_tool", sentences(f"tool not found: {name}. {in_python(advice)}", more))


def how_to_rename(*tools: Tool) -> str:
    """Return advice for tools with the same name."""
    if any(isinstance(tool, AgentTool) for tool in tools):
        return 'Rename one of them with tool(researcher, name="...")'
    if any(not isinstance(getattr(tool, "function", None), FunctionType) for tool in tools):  # such as a bound method
        return "Wrap one of them in a function with another name"
    return 'Rename one of them with @tool(name="...")'
