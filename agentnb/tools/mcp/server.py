"""MCP servers as a person names them: their settings, and the items of ``tools=`` that stand for their tools."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import sha256
from math import inf
from pathlib import Path
from typing import Any

import msgspec

from agentnb.errors import InvalidTool, SettingsError
from agentnb.tools.defaults import DEFAULT_MAX_SECONDS, DEFAULT_TIMEOUT

PREFIX = "mcp:"
"""Begins the words for tools of servers: ``mcp:clock``, ``mcp:clock/get_current_time``."""
MAX_NAME = 64
NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}")
MAX_SHOWN = 40
"""Characters of a name that an error repeats."""
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*|file:[^}:]+)(?::-((?:\$\{[^{}]*\}|[^}])*))?\}")
"""A variable of the environment or ``file:`` with the path of one, and what stands for it where it is not set."""
FILE = "file:"
_SCHEMES = ("http", "https")


class WrongSetting(SettingsError):
    """A setting of a server that cannot be; ``path``: its name, and the place or name of its item."""

    def __init__(self, what: str, advice: str, path: tuple[str | int, ...]) -> None:
        super().__init__(what, advice)
        self.path = path


@dataclass(frozen=True)
class MCPServer:
    """An MCP server. An item of ``tools=``, which stands for all its tools.

    ``command_or_url``: the program that agentnb starts (stdio), or the address of a running server (streamable HTTP).
    ``args``: the arguments of the program. ``env``: environment variables that it gets besides PATH, HOME and the like.
    ``headers``: HTTP headers of each request. ``cwd``: the folder it starts in, by default that of the first run.
    ``roots``: the folders that it is told to work in; without any it is told of none.
    ``timeout``: seconds that a call may take, None for no limit; each progress that the server reports begins them anew, up to
    ``max_seconds`` in all. In all these texts ``${NAME}`` stands for an environment variable, ``${NAME:-DEFAULT}`` for one that
    may not be set, ``${file:PATH}`` for the text of a file. ``transport``: ``"stdio"`` or ``"http"``, needed for a command that
    begins with a variable. Values of env and headers never enter a log. Raises `SettingsError` for what cannot be a server.
    """

    name: str
    command_or_url: str
    args: Iterable[str] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False, hash=False)
    cwd: str | Path | None = None
    timeout: float | None = DEFAULT_TIMEOUT
    roots: Iterable[str | Path] = ()
    max_seconds: float = DEFAULT_MAX_SECONDS
    transport: str = ""

    def __post_init__(self) -> None:
        check_name(self.name)
        if not isinstance(self.command_or_url, str) or not self.command_or_url.strip():
            raise SettingsError(f"The MCP server {self.name} has neither a command nor an address", _EXAMPLE)
        for setting, kinds in (("args", str), ("roots", str | Path)):
            values = getattr(self, setting)
            if isinstance(values, str) or not isinstance(values, Iterable):
                raise self._wrong("not a list of texts", setting)
            object.__setattr__(self, setting, tuple(values))
            self._check_texts(setting, enumerate(getattr(self, setting)), kinds)
        object.__setattr__(self, "roots", tuple([str(home_expanded(root).absolute()) for root in self.roots]))
        for setting in ("env", "headers"):
            mapping = getattr(self, setting)
            if not isinstance(mapping, Mapping):
                raise self._wrong("not an object with a text for each name", setting)
            self._check_texts(setting, mapping.items())
            object.__setattr__(self, setting, dict(mapping))
        if self.transport not in ("", "stdio", "http"):
            raise self._wrong("neither stdio nor http", "transport")
        for setting, seconds in (("timeout", self.timeout), ("max_seconds", self.max_seconds)):
            is_time = not isinstance(seconds, bool) and isinstance(seconds, int | float) and 0 < seconds < inf
            if not is_time and (setting, seconds) != ("timeout", None):
                raise self._wrong("not a number of seconds above 0", setting)
        if self.is_remote and "@" in self.command_or_url.partition("://")[2].partition("/")[0]:
            problem = f"The address of the MCP server {self.name} holds a user name or password"
            raise SettingsError(problem, 'Send it as a header: headers={"Authorization": "Bearer ${TOKEN}"}')
        wrong = ("env", "args") if self.is_remote else ("headers",)
        for setting in wrong:
            if getattr(self, setting):
                kind = "an address" if self.is_remote else "a command"
                raise SettingsError(f"The MCP server {self.name} is {kind} and takes no {setting}", _EXAMPLE)

    def _check_texts(self, setting: str, items: Iterable[tuple[Any, Any]], kinds: Any = str) -> None:
        for key, item in items:
            is_blank = setting == "roots" and not str(item).strip()
            if not isinstance(key, str | int) or not isinstance(item, kinds) or is_blank:
                raise self._wrong("not a text", setting, key)

    def _wrong(self, problem: str, *path: str | int) -> WrongSetting:
        """Return the error about a setting, or an item of it."""
        setting, *at = [f"item {key + 1}" if isinstance(key, int) else str(key)[:MAX_SHOWN] for key in path]
        subject = f"{at[0]} of {setting}" if at else setting
        return WrongSetting(f"{subject} of the MCP server {self.name} is {problem}", _EXAMPLE, path)

    def __repr__(self) -> str:
        return f"MCPServer({self.name!r}, {self.target!r})"

    @property
    def is_remote(self) -> bool:
        """Whether it is reached at an address, and not started as a program."""
        return self.transport == "http" if self.transport else is_address_or_variable(self.command_or_url)

    @property
    def target(self) -> str:
        """Its command with arguments, or its address, and its roots, as configured: ``${NAME}`` is not replaced."""
        return target_text(self.command_or_url, self.args, self.roots)

    @cached_property
    def identity(self) -> str:
        """The digest of command, arguments, folders and address as configured, to which permissions belong."""
        more = {"cwd": None if self.cwd is None else str(self.cwd), "roots": self.roots, "transport": self.transport}
        return digest([self.command_or_url, *self.args, *({key: value} for key, value in more.items() if value)])

    @property
    def as_logged(self) -> dict[str, Any]:
        """Command and arguments, or the address, and the roots, for the settings of a log."""
        lists = {"args": [*map(without_defaults, self.args)], "roots": list(self.roots)}
        return {
            "command_or_url": without_defaults(self.command_or_url, is_target=True),
            **{key: texts for key, texts in lists.items() if texts},
        }


@dataclass(frozen=True)
class ServerTools:
    """The tools of a server, or one of them, in ``tools=``."""

    name: str
    """The name of the server."""
    tool: str = ""
    """The tool as the server names it; empty for all."""
    server: MCPServer | None = None
    """The server itself, if it was given; else it is one that is configured."""

    @property
    def word(self) -> str:
        """The word for these tools."""
        return f"{PREFIX}{self.name}/{self.tool}" if self.tool else f"{PREFIX}{self.name}"


def server_tools(value: Any) -> ServerTools | None:
    """Return the server's tools that an item of ``tools=`` stands for; None for any other item.

    Raises `SettingsError` for a word such as ``mcp:`` that names no server.
    """
    if isinstance(value, ServerTools):
        return value
    if isinstance(value, MCPServer):
        return ServerTools(value.name, server=value)
    if not isinstance(value, str) or not value.startswith(PREFIX):
        return None
    name, _, tool = value.removeprefix(PREFIX).partition("/")
    check_name(name)
    return ServerTools(name, tool)


def servers_among(values: Iterable[Any]) -> tuple[ServerTools, ...]:
    """Return those items of ``tools=`` that stand for tools of servers. Raises `SettingsError` as `server_tools`."""
    return tuple([item for value in values if (item := server_tools(value)) is not None])


def is_word(text: str) -> bool:
    """Return whether a text is a word for tools of a server."""
    return text.startswith(PREFIX) and is_name(text.removeprefix(PREFIX).partition("/")[0])


def with_given(items: Iterable[ServerTools]) -> tuple[ServerTools, ...]:
    """Return the items, each once; a word stands for the server of its name that is given beside it, if one is.

    Raises `InvalidTool` for two servers of one name.
    """
    listed, by_name = [*items], dict[str, MCPServer]()
    for item in listed:
        if item.server is not None and (earlier := by_name.setdefault(item.name, item.server)) != item.server:
            both = earlier.target if earlier.target == item.server.target else f"{earlier.target} and {item.server.target}"
            raise InvalidTool(f"Two MCP servers have the name {item.name}: {both}", "Give one of them another name")
    return tuple(dict.fromkeys([replace(item, server=by_name.get(item.name)) for item in listed]))


def target_text(command_or_url: str, args: Iterable[str], roots: Iterable[str | Path]) -> str:
    """Return command, arguments and roots of a server, or its address and roots, as a text for the person."""
    shown = ", ".join(map(str, roots))
    words = (without_defaults(command_or_url, is_target=True), *map(without_defaults, args))
    return " ".join((*words, *([f"(roots: {shown})"] if shown else [])))


def without_defaults(text: str, *, is_target: bool = False) -> str:
    """Return a text without what stands for variables that are not set: a value of the person's.

    ``is_target``: it is a command or address, of which only the query of an address can hold one.
    """
    kept, query, hidden = text.partition("?") if is_target else ("", "", text)
    return kept + query + VARIABLE.sub(lambda match: f"${{{match[1]}{'' if match[2] is None else ':-...'}}}", hidden)


def home_expanded(path: str | Path) -> Path:
    """Return a path with the home folder for ``~``."""
    try:
        return Path(path).expanduser()
    except RuntimeError:  # no home folder of that user
        return Path(path)


def is_address(text: str) -> bool:
    """Return whether a text is the address of a server."""
    scheme, _, remainder = text.partition("://")
    return scheme.lower() in _SCHEMES and bool(remainder)


def is_address_or_variable(text: str) -> bool:
    """Return whether a text is an address, or begins with a variable: only those of addresses are replaced, not of commands."""
    return is_address(text) or text.startswith("${")


def is_name(name: Any) -> bool:
    """Return whether a value can name a server."""
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def check_name(name: Any) -> None:
    """Raise `SettingsError` for what cannot name a server."""
    if not is_name(name):
        problem = f"{name!r} cannot be the name of an MCP server"
        raise SettingsError(problem, "Letters, digits, _, . and - only, at most 64: mcp:clock")


def digest(value: Any) -> str:
    """Return a digest of plain data."""
    return sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:16]


_EXAMPLE = 'Write MCPServer("clock", "mcp-server-time", args=["--local-timezone", "Europe/Paris"])'
