"""Built-in tools by name: names of groups and of single tools, as used in ``tools=``."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, TypeAlias

from agentnb.advice import AnyAdvice, Plain, as_advice
from agentnb.core.questions import ASK_PERSON
from agentnb.errors import UnknownTool, suggest_names, suggest_similar
from agentnb.tools.builtin.files.files_group import Files
from agentnb.tools.builtin.git.git_group import Git
from agentnb.tools.builtin.github.github_group import GitHub
from agentnb.tools.builtin.group import BuiltinTool, ToolGroup, tool_of_group
from agentnb.tools.builtin.notebook.notebook_group import Notebook
from agentnb.tools.builtin.shell.shell_group import Shell
from agentnb.tools.builtin.web.web_group import Web
from agentnb.tools.function import as_tool
from agentnb.tools.mcp.mcp_server import PREFIX, server_tools
from agentnb.tools.mcp.wire_names import registry_name
from agentnb.tools.tool import Tool

LOGGED = "builtin_tools"
"""Key of the built-in tools in the logged settings of a run."""


CLASSES: tuple[type[ToolGroup], ...] = (Files, Shell, Git, GitHub, Web, Notebook)
GROUPS: dict[str, type[ToolGroup]] = {group.word: group for group in CLASSES}
"""Groups by name."""
GROUP_OF = {tool: word for word, group in GROUPS.items() for tool in group.tool_names}
"""Group name of each built-in tool."""
LATE = {ASK_PERSON: "agentnb.tools.ask_person"}
"""Modules imported on first use, because parsing the tool's docstring needs a library."""
WORDS = (*GROUPS, *GROUP_OF, ASK_PERSON)
"""All names of built-in tools and groups."""

Groups: TypeAlias = Mapping[str, ToolGroup]
"""Groups with the person's settings, by name."""


@cache
def default_group(word: str) -> ToolGroup:
    """Return a group with its default settings."""
    return GROUPS[word]()


def tools_of_word(word: str, groups: Groups | None = None) -> tuple[Tool, ...]:
    """Return the tools for a group's or tool's name; empty for any other word. ``groups``: configured groups instead of the
    defaults.
    """
    word = registry_name(word)
    if word == ASK_PERSON:
        return (as_tool(getattr(import_module(LATE[word]), word)),)
    group = word if word in GROUPS else GROUP_OF.get(word)
    if group is None:
        return ()
    instance = (groups or {}).get(group) or default_group(group)
    return instance.tools if word in GROUPS else (tool_of_group(instance, word),)


def tools_of(value: Any, groups: Groups | None = None) -> tuple[Tool, ...]:
    """Return the tools for an item of ``tools=``: those that a name or group stands for, or the item itself as a single tool.

    Tools of an MCP server are known only once a run has connected to it (`Toolbox.servers`).

    Raises `UnknownTool` for an unknown word and `InvalidTool` for a value that cannot be a tool.
    """
    if isinstance(value, str) and not value.startswith(PREFIX):
        tools = tools_of_word(value, groups)
        if not tools:
            raise UnknownTool(
                f"tools= contains the string {value!r}, not a function or a built-in tool",
                (*suggest_similar(value, WORDS), _hint(value)),
            )
        return tools
    if isinstance(value, ToolGroup):
        return value.tools
    if server_tools(value) is not None:
        return ()
    return (as_tool(value),)


class KnownSchemas(Mapping[str, dict[str, Any]]):
    """Input schemas by tool name: the caller's own tools and all built-in ones.

    Built-in tools are created when their schema is read.
    """

    def __init__(
        self, own: Mapping[str, dict[str, Any]] | None = None, may_have: Callable[[str], bool] = lambda _: False
    ) -> None:
        """``may_have``: returns True if a tool with another name may exist, such as a server's; such a tool is assumed to
        accept any arguments.
        """
        self._own = own or {}
        self._may_have = may_have

    def __getitem__(self, name: str) -> dict[str, Any]:
        if name in self._own or name not in self:
            return self._own[name]
        return tools_of_word(name)[0].spec.input_schema if _is_builtin(name) else {}

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._own, *GROUP_OF, ASK_PERSON)))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._own or _is_builtin(name) or (isinstance(name, str) and self._may_have(name))


def _is_builtin(name: object) -> bool:
    return name in GROUP_OF or name == ASK_PERSON


def logged_builtins(tools: Iterable[Tool]) -> dict[str, Any]:
    """Return the settings to log for the built-in tools among these: the settings of each tool's group, by tool name."""
    settings = {tool.spec.name: tool.group.as_logged for tool in tools if isinstance(tool, BuiltinTool)}
    return {LOGGED: settings} if settings else {}


def builtins_again(
    settings: Mapping[str, Any], names: Iterable[str], *, is_trusted: bool, given: Iterable[str] = ()
) -> list[Tool]:
    """Recreate the logged built-in tools with these names, except those ``given``.

    ``is_trusted``: accept settings that loosen restrictions. Raises `SettingsError` for tools that only the person can provide.
    """
    logged = settings.get(LOGGED)
    if not isinstance(logged, dict):
        return []
    given_names = set(given)
    tools: list[Tool] = []
    for name in names:
        group, of_group = GROUP_OF.get(name), logged.get(name)
        if name not in given_names and group is not None and isinstance(of_group, dict):
            instance = GROUPS[group].of_log(of_group, is_trusted=is_trusted) if of_group else default_group(group)
            tools.append(tool_of_group(instance, name))
    return tools


def own_tools(names: Collection[str] | None) -> list[str]:
    """Return the names that do not belong to built-in tools."""
    return [name for name in names or () if not _is_builtin(name)]


def names_in_group(word: str) -> list[str]:
    """Return the names of the built-in tools of a group; empty for any other word."""
    return [name for name, group in GROUP_OF.items() if group == word]


def near_tools(name: str, own: Iterable[str], otherwise: AnyAdvice) -> tuple[AnyAdvice, ...]:
    """Return advice with the most similar tool names. ``otherwise``: the advice if no name is similar."""
    names, of_group = [*own], names_in_group(name)
    if of_group:
        return as_advice(f"It is a group of tools; name the ones you want: {', '.join(of_group)}")
    if names:
        return suggest_similar(name, (*names, *WORDS)) or suggest_names(name, names)
    return (*suggest_similar(name, WORDS), otherwise)


def _hint(word: str) -> Plain:
    return Plain(f"Pass the function itself: tools=[{word}]" if word.isidentifier() else "Pass functions: tools=[my_function]")
