"""Validation of the words in rules against everything that a run's calls may reach."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from types import CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

from agentnb.advice import Plain
from agentnb.core.questions import ASK_PERSON
from agentnb.core.todos import TODO_TOOL
from agentnb.errors import SettingsError, suggest_names, suggest_similar
from agentnb.policies.permissions.permission_rules import EFFECT, Rule, RuleList
from agentnb.tools.agent_tool import AgentTool
from agentnb.tools.builtin.builtin_names import GROUP_OF
from agentnb.tools.function import MARK, FunctionTool
from agentnb.tools.mcp.mcp_server import PREFIX, ServerTools, server_tools
from agentnb.tools.mcp.wire_names import FIND_TOOLS, may_be_of, may_mean_any, wire_name
from agentnb.tools.read_result import READ_TOOL
from agentnb.tools.subject import FLAGS
from agentnb.tools.tool import Tool
from agentnb.tools.toolbox import Toolbox

_EVERY_SERVER = "mcp_"
"""Prefix of tool names of all servers: ``mcp_*`` matches them even without a named server."""
MAX_ITEMS = 100
"""Maximum number of items in a list or dict that is searched for tools."""
ALWAYS_KNOWN = (*GROUP_OF, ASK_PERSON, TODO_TOOL, READ_TOOL, FIND_TOOLS, *FLAGS)
"""Words allowed in all rules."""


class _Helper(str):
    """The name of a plain function that may be no tool: rules may use it, but errors do not list it."""

    __slots__ = ()


class _Scope(NamedTuple):
    """Everything that a run's calls may reach."""

    tools: tuple[Tool, ...]
    names: tuple[str, ...]
    servers: tuple[str, ...]

    @classmethod
    def of(cls, values: Iterable[Any]) -> _Scope:
        """Return the scope of toolboxes, tools, agents, functions and names."""
        tools, names, servers = list[Tool](), list[str](), list[str]()
        for value in _reachable(values):
            if isinstance(value, ServerTools):
                servers.append(value.name)
            elif isinstance(value, str):
                names.append(value)
            else:
                tools.append(value)
        return cls(tuple(tools), (*[tool.spec.name for tool in tools], *names), tuple(servers))

    def check_brackets(self, rules: Iterable[Rule]) -> None:
        """Raise `SettingsError` for brackets that are invalid for one of the tools."""
        for rule in rules:
            for tool in self.tools:
                rule.check_for(tool.spec.name, tool)


def known_rules(rules: RuleList, values: Iterable[Any], servers: Iterable[str] = ()) -> RuleList:
    """Return the rules as checked. Raises `SettingsError` for unknown words and invalid brackets.

    ``values``: toolboxes, tools, agents, functions and names that calls may reach; ``servers``: names of more MCP servers.
    """
    unchecked = [rule for rule in rules.rules if not rule.is_checked]
    if not unchecked:
        return rules
    scope = _Scope.of(values)
    scope.check_brackets(unchecked)
    names, every = (*scope.names, *ALWAYS_KNOWN), (*scope.servers, *servers)
    for rule in unchecked:
        if not _is_known(rule, names, every):
            offered = dict.fromkeys([name for name in scope.names if not isinstance(name, _Helper)])
            words = [*offered, *[PREFIX + name for name in every]]
            near = suggest_similar(rule.tools, [*words, *names]) or suggest_names("", words or ALWAYS_KNOWN)
            problem = f"The rule {rule.text!r} does not match any tool, flag or MCP server of this run"
            meant = next((PREFIX + name for name in every if may_mean_any(name, rule.tools)), "")
            raise SettingsError(problem, Plain(f"Write {meant}/TOOL") if meant else near)
    return rules.as_checked


def check_confirms(rules: Iterable[Rule], values: Iterable[Any]) -> None:
    """Raise `SettingsError` if a context confirms calls under a name similar to that of a tool.

    Other names may belong to tools of other agents in this context. ``values`` as for `known_rules`.
    """
    scope, confirms = _Scope.of(values), [*rules]
    scope.check_brackets(confirms)
    for rule in confirms:
        is_known = any(rule.may_be_about(tool.spec.name, tool) for tool in scope.tools)
        if is_known or rule.is_pattern or ":" in rule.tools or scope.servers:  # tools of servers may have any name
            continue
        if similar := suggest_similar(rule.tools, scope.names):
            raise SettingsError(f"The context confirms {rule.text!r}, but this agent has no such tool", similar)


def _is_known(rule: Rule, names: Iterable[str], servers: Iterable[str]) -> bool:
    word = rule.tools
    if word.startswith(EFFECT):
        return True
    if word.startswith(PREFIX):
        return word.removeprefix(PREFIX).partition("/")[0] in servers
    beginning = re.split(r"[*?[]", word, maxsplit=1)[0]
    may_mean = may_be_of if rule.verdict == "allow" else may_mean_any
    is_of_server = any(may_mean(server, beginning) for server in servers)
    if beginning == word or is_of_server:
        return is_of_server or word in names
    of_servers = [wire_name(server, "") for server in servers]  # the known prefix of tools that are not listed yet
    return any(fnmatchcase(name, word) for name in (*names, _EVERY_SERVER)) or any(
        name.startswith(beginning) or beginning.startswith(name) for name in of_servers
    )


def _reachable(scope: Iterable[Any]) -> Iterator[Tool | ServerTools | str]:
    """Yield tools, servers and names, including those of agents used as tools or by the code of tools.

    The name of a function that is not marked as a tool is a `_Helper`.
    """
    pending, seen = [(value, "") for value in scope], dict[int, Any]()
    while pending:
        value, module = pending.pop()
        if id(value) in seen:
            continue
        seen[id(value)] = value
        if isinstance(value, Toolbox):
            yield from value
        elif (item := server_tools(value)) is not None:
            yield item
        elif isinstance(value, str):
            yield _Helper(value) if module else value
        function = value.__func__ if isinstance(value, MethodType) else value
        if isinstance(function, FunctionType):
            yield function.__dict__[MARK].spec.name if MARK in function.__dict__ else _Helper(function.__name__)
        used_in = function.__module__ if isinstance(function, FunctionType | type) else module
        pending += [(inner, used_in) for inner in _within(function, module)]


def _within(value: Any, module: str) -> Iterable[Any]:
    """Return the values reachable from a value; ``module``: the module to search, because library code leads everywhere."""
    if isinstance(value, Toolbox):
        return [*value.servers, *[getattr(tool, "function", getattr(tool, "agent", None)) for tool in value]]
    if isinstance(value, FunctionTool | AgentTool):
        return (Toolbox([value]),)
    if isinstance(value, list | tuple | dict) and len(value) <= MAX_ITEMS:
        return [item for item in (value.values() if isinstance(value, dict) else value) if not isinstance(item, str)]
    if isinstance(value, FunctionType | type) and module in ("", value.__module__):
        return vars(value).values() if isinstance(value, type) else _used_values(value)
    return getattr(value, "rule_scope", ()) if hasattr(type(value), "rule_scope") else ()


def _used_values(function: FunctionType) -> Iterator[Any]:
    """Yield the values that a function uses by global name and from enclosing functions, and the names of inner functions."""
    codes, cells = [function.__code__], []
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # empty cell
            cells.append(cell.cell_contents)
    while codes:
        code = codes.pop()
        cells += [function.__globals__.get(name) for name in code.co_names]
        inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        codes += inner
        yield from [code_object.co_name for code_object in inner]
    yield from [value for value in cells if not isinstance(value, str)]
