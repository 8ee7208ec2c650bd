"""Words for built-in tools: names of groups and of single tools, wherever tools are named.

The modules of the groups are imported when a word of theirs is used.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple, TypeAlias

from agentnb.advice import NameOne, Plain
from agentnb.errors import UnknownTool, near, nearest
from agentnb.tools.builtin.group import BuiltinTool, ToolGroup
from agentnb.tools.function import as_tool
from agentnb.tools.tool import Tool

LOGGED = "builtin_tools"
"""The key under which the settings of a run hold its built-in tools, if it has any."""


class _Home(NamedTuple):
    """The class of a group, and the names of its tools."""

    module: str
    kind: str
    tools: tuple[str, ...]


GROUPS: dict[str, _Home] = {
    "files": _Home("files.group", "Files", ("read_file", "write_file", "edit_file", "list_files", "search_files")),
    "shell": _Home("shell.group", "Shell", ("bash",)),
    "git": _Home("git.group", "Git", ("git_status", "git_diff", "git_log", "git_add", "git_commit", "git_branch")),
    "github": _Home("github.group", "GitHub", ("github_get_issue", "github_list_issues", "github_create_comment")),
    "web": _Home("web.group", "Web", ("web_fetch",)),
    "notebook": _Home("notebook.group", "Notebook", ("inspect_variables", "read_cells", "run_python", "think")),
}
GROUP_OF = {tool: word for word, home in GROUPS.items() for tool in home.tools}
"""The group of each built-in tool."""
ASK_PERSON = "ask_person"
WORDS = (*GROUPS, *GROUP_OF, ASK_PERSON)
"""All words for built-in tools."""

Groups: TypeAlias = Mapping[str, ToolGroup]
"""Groups with settings of the person's, by word."""


def tools_by_group() -> dict[str, tuple[str, ...]]:
    """Return the names of the tools of each group."""
    return {word: home.tools for word, home in GROUPS.items()}


def default_group(word: str) -> ToolGroup:
    """Return the group of this word with its default settings."""
    return _default_group(word)


@cache
def _default_group(word: str) -> ToolGroup:
    made: ToolGroup = group_class(word)()
    return made


def group_class(word: str) -> Any:
    """Return the class of the group of this word, a `ToolGroup`."""
    home = GROUPS[word]
    return getattr(import_module(f"agentnb.tools.builtin.{home.module}"), home.kind)


def tools_of_word(word: str, groups: Groups | None = None) -> tuple[Tool, ...]:
    """Return the tools that a word stands for; none for any other word. ``groups``: instead of the defaults."""
    if word == ASK_PERSON:
        return (as_tool(import_module("agentnb.tools.ask_person").ask_person),)
    group = word if word in GROUPS else GROUP_OF.get(word)
    if group is None:
        return ()
    tools = ((groups or {}).get(group) or default_group(group)).tools
    return tools if word in GROUPS else tuple([tool for tool in tools if tool.spec.name == word])


def tools_of(value: Any, groups: Groups | None = None) -> tuple[Tool, ...]:
    """Return the tools of an item of ``tools=``: those of a word or a group, or the one tool of anything else.

    Raises `UnknownTool` for another word, `InvalidTool` for what cannot be a tool.
    """
    if isinstance(value, str):
        found = tools_of_word(value, groups)
        if not found:
            raise UnknownTool(
                f"tools= holds the text {value!r}, not a function or a built-in tool", (*nearest(value, WORDS), _hint(value))
            )
        return found
    if isinstance(value, ToolGroup):
        return value.tools
    return (as_tool(value),)


class KnownSchemas(Mapping[str, dict[str, Any]]):
    """The input schemas of tools of one's own and of all built-in ones, by name.

    The modules of built-in tools are imported when a schema of theirs is read.
    """

    def __init__(self, own: Mapping[str, dict[str, Any]] | None = None) -> None:
        self._own = own or {}

    def __getitem__(self, name: str) -> dict[str, Any]:
        if name in self._own or name not in self:
            return self._own[name]
        return tools_of_word(name)[0].spec.input_schema

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._own, *GROUP_OF, ASK_PERSON)))

    def __len__(self) -> int:
        return len(list(iter(self)))

    def __contains__(self, name: object) -> bool:
        return name in self._own or name in GROUP_OF or name == ASK_PERSON


def logged_builtins(tools: Iterable[Tool]) -> dict[str, Any]:
    """Return the built-in tools among these for the settings of a log: by name, the settings of their groups."""
    found = {tool.spec.name: tool.group.as_logged for tool in tools if isinstance(tool, BuiltinTool)}
    return {LOGGED: found} if found else {}


def builtins_again(
    settings: Mapping[str, Any], names: Iterable[str], *, is_trusted: bool, given: Iterable[str] = ()
) -> list[Tool]:
    """Return the built-in tools of these names that the settings of a log hold, but for those ``given``.

    ``is_trusted``: whether settings that loosen something count. Raises `SettingsError` for what only the person can give.
    """
    logged = settings.get(LOGGED)
    if not isinstance(logged, dict):
        return []
    known = set(given)
    found: list[Tool] = []
    for name in names:
        group, of_group = GROUP_OF.get(name), logged.get(name)
        if name not in known and group is not None and isinstance(of_group, dict):
            made = group_class(group).of_log(of_group, is_trusted=is_trusted)
            found += [tool for tool in made.tools if tool.spec.name == name]
    return found


def own_tools(names: Collection[str] | None) -> list[str]:
    """Return the names without those of built-in tools."""
    return [name for name in names or () if name not in GROUP_OF and name != ASK_PERSON]


def near_tools(name: str, own: Iterable[str]) -> tuple[NameOne, ...]:
    """Return the advice to name a tool that is like ``name``, of one's own or built in, else one's own; empty without any."""
    names = [*own]
    return nearest(name, (*names, *WORDS)) or near(name, names)


def _hint(word: str) -> Plain:
    return Plain(f"Give a function itself: tools=[{word}]" if word.isidentifier() else "Give functions: tools=[my_function]")
