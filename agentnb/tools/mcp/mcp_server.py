"""MCP servers: their settings, and the items of ``tools=`` for their tools."""

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
"""Prefix of words for server tools: ``mcp:clock``, ``mcp:clock/get_current_time``."""
MAX_NAME = 64
NAME = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}")
MAX_SHOWN = 40
"""Maximum number of characters of a name repeated in an error."""
VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*|file:[^}:]+)(?::-((?:\$\{[^{}]*\}|[^}])*))?\}")
"""Environment variable, or ``file:`` with a path, and its default value."""
FILE = "file:"
_SCHEMES = ("http", "https")


class WrongSetting(SettingsError):
    """An invalid server setting. ``path``: the setting's name, and the index or name of the invalid item."""

    def __init__(self, what: str, advice: str, path: tuple[str | int, ...]) -> None:
        super().__init__(what, advice)
        self.path = path


@dataclass(frozen=True)
class MCPServer:
    """An MCP server. As an item of ``tools=``, it stands for all of its tools.

    ``command_or_url``: the program that agentnb starts (stdio), or the address of a running server (streamable HTTP).
    ``args``: arguments of the program. ``env``: environment variables besides PATH, HOME and the like. ``headers``: HTTP
    headers of each request. ``cwd``: folder to start in, by default that of the first run. ``roots``: folders announced to the
    server as its roots, none by default. ``timeout``: seconds for a call, or None for no limit; each progress report from the
    server restarts that time, up to ``max_seconds`` in total. In all of these, ``${NAME}`` means an environment variable,
    ``${NAME:-DEFAULT}`` one with a default value, and ``${file:PATH}`` the text of a file. ``transport``: ``"stdio"`` or
    ``"http"``, required for a command that begins with a variable. Values of env and headers are never logged. Raises
    `SettingsError` for invalid settings.
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
                raise self._wrong("not a list of strings", setting)
            object.__setattr__(self, setting, tuple(values))
            self._check_texts(setting, enumerate(getattr(self, setting)), kinds)
        object.__setattr__(self, "roots", tuple([str(expand_home(root).absolute()) for root in self.roots]))
        for setting in ("env", "headers"):
            mapping = getattr(self, setting)
            if not isinstance(mapping, Mapping):
                raise self._wrong("not an object with string values", setting)
            self._check_texts(setting, mapping.items())
            object.__setattr__(self, setting, dict(mapping))
        if self.transport not in ("", "stdio", "http"):
            raise self._wrong("neither stdio nor http", "transport")
        for setting, seconds in (("timeout", self.timeout), ("max_seconds", self.max_seconds)):
            is_time = not isinstance(seconds, bool) and isinstance(seconds, int | float) and 0 < seconds < inf
            if not is_time and (setting, seconds) != ("timeout", None):
                raise self._wrong("not a number of seconds above 0", setting)
        if self.is_remote and "@" in self.command_or_url.partition("://")[2].partition("/")[0]:
            problem = f"The address of the MCP server {self.name} contains a user name or password"
            raise SettingsError(problem, 'Send it as a header: headers={"Authorization": "Bearer ${TOKEN}"}')
        wrong = ("env", "args") if self.is_remote else ("headers",)
        for setting in wrong:
            if getattr(self, setting):
                kind = "an address" if self.is_remote else "a command"
                raise SettingsError(f"The MCP server {self.name} has {kind}, which does not accept {setting}", _EXAMPLE)

    def _check_texts(self, setting: str, items: Iterable[tuple[Any, Any]], kinds: Any = str) -> None:
        for key, item in items:
            is_blank = setting == "roots" and not str(item).strip()
            if not isinstance(key, str | int) or not isinstance(item, kinds) or is_blank:
                raise self._wrong("not a string", setting, key)

    def _wrong(self, problem: str, *path: str | int) -> WrongSetting:
        """Return an error about a setting, or an item of it."""
        setting, *at = [f"item {key + 1}" if isinstance(key, int) else str(key)[:MAX_SHOWN] for key in path]
        subject = f"{at[0]} of {setting}" if at else setting
        return WrongSetting(f"{subject} of the MCP server {self.name} is {problem}", _EXAMPLE, path)

    def __repr__(self) -> str:
        return f"MCPServer({self.name!r}, {self.target!r})"

    @property
    def is_remote(self) -> bool:
        """True for a server at an address, False for a program to start."""
        return self.transport == "http" if self.transport else is_address_or_variable(self.command_or_url)

    @property
    def target(self) -> str:
        """Command with arguments, or address, and roots as configured, without replacing ``${NAME}``."""
        return target_text(self.command_or_url, self.args, self.roots)

    @cached_property
    def identity(self) -> str:
        """Digest of command, arguments, folders and address as configured. Permissions are bound to it."""
        more = {"cwd": None if self.cwd is None else str(self.cwd), "roots": self.roots, "transport": self.transport}
        return digest([self.command_or_url, *self.args, *({key: value} for key, value in more.items() if value)])

    @property
    def as_logged(self) -> dict[str, Any]:
        """Command and arguments, or address, and roots, for the settings of a log."""
        lists = {"args": [*map(without_defaults, self.args)], "roots": list(self.roots)}
        return {
            "command_or_url": without_defaults(self.command_or_url, is_target=True),
            **{key: texts for key, texts in lists.items() if texts},
        }


@dataclass(frozen=True)
class ServerTools:
    """The tools of a server, or one of them, in ``tools=``."""

    name: str
    """Name of the server."""
    tool: str = ""
    """Tool name on the server; empty for all."""
    server: MCPServer | None = None
    """The server, or None for the configured server with this name."""

    @property
    def word(self) -> str:
        """Word for these tools."""
        return f"{PREFIX}{self.name}/{self.tool}" if self.tool else f"{PREFIX}{self.name}"


def server_tools(value: Any) -> ServerTools | None:
    """Convert an item of ``tools=`` to server tools, or return None for any other item.

    Raises `SettingsError` for a word without a valid server name, such as ``mcp:``.
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
    """Return the items of ``tools=`` for tools of servers. Raises `SettingsError` like `server_tools`."""
    return tuple([item for value in values if (item := server_tools(value)) is not None])


def is_word(text: str) -> bool:
    """True if the text is a word for server tools."""
    return text.startswith(PREFIX) and is_name(text.removeprefix(PREFIX).partition("/")[0])


def resolve_servers(items: Iterable[ServerTools]) -> tuple[ServerTools, ...]:
    """Return the items without duplicates, with names resolved to servers among them.

    Raises `InvalidTool` for two servers with the same name.
    """
    listed, by_name = [*items], dict[str, MCPServer]()
    for item in listed:
        if item.server is not None and (earlier := by_name.setdefault(item.name, item.server)) != item.server:
            both = earlier.target if earlier.target == item.server.target else f"{earlier.target} and {item.server.target}"
            raise InvalidTool(f"Two MCP servers have the name {item.name}: {both}", "Rename one of them")
    return tuple(dict.fromkeys([replace(item, server=by_name.get(item.name)) for item in listed]))


def target_text(command_or_url: str, args: Iterable[str], roots: Iterable[str | Path]) -> str:
    """Format command, arguments and roots of a server, or its address and roots, for the person."""
    shown = ", ".join(map(str, roots))
    words = (without_defaults(command_or_url, is_target=True), *map(without_defaults, args))
    return " ".join((*words, *([f"(roots: {shown})"] if shown else [])))


def without_defaults(text: str, *, is_target: bool = False) -> str:
    """Remove the default values of variables from the text, because they are the person's own.

    ``is_target``: True for a command or address; only the query of an address can contain default values.
    """
    kept, query, hidden = text.partition("?") if is_target else ("", "", text)
    return kept + query + VARIABLE.sub(lambda match: f"${{{match[1]}{'' if match[2] is None else ':-...'}}}", hidden)


def expand_home(path: str | Path) -> Path:
    """Expand ``~`` in a path."""
    try:
        return Path(path).expanduser()
    except RuntimeError:  # unknown user
        return Path(path)


def is_address(text: str) -> bool:
    """True if the text is the address of a server."""
    scheme, _, remainder = text.partition("://")
    return scheme.lower() in _SCHEMES and bool(remainder)


def is_address_or_variable(text: str) -> bool:
    """True for an address, or for text beginning with a variable: variables are replaced only in addresses, not in commands."""
    return is_address(text) or text.startswith("${")


def is_name(name: Any) -> bool:
    """True if a value is a valid server name."""
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def check_name(name: Any) -> None:
    """Raise `SettingsError` for an invalid server name."""
    if not is_name(name):
        problem = f"{name!r} is not a valid MCP server name"
        raise SettingsError(problem, "Use at most 64 letters, digits, _, . and -: mcp:clock")


def digest(value: Any) -> str:
    """Return a digest of plain data."""
    return sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:16]


_EXAMPLE = 'Write MCPServer("clock", "mcp-server-time", args=["--local-timezone", "Europe/Paris"])'
