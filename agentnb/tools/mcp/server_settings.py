"""Settings of MCP servers as people write them: ``mcpServers`` objects, the list and the short form of ``MCP_SERVERS``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, TypeAlias

from agentnb.advice import Advised
from agentnb.errors import SettingsError, nearest
from agentnb.tools.mcp.expansion import check_variables
from agentnb.tools.mcp.server import DEFAULT_TIMEOUT, MAX_SHOWN, MCPServer, WrongSetting, check_name

JsonPath: TypeAlias = tuple[str | int, ...]
"""The keys and indexes that lead to a value."""
MAX_KEY = 40
"""Characters of a key that an error repeats."""
MAX_DIGITS = 4_000
"""Characters of a number that Python reads."""
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"]+')


@dataclass(frozen=True)
class LocatedJson:
    """A document: its value, and where each value begins."""

    source: str
    """The file or variable, for errors."""
    text: str
    value: Any
    offsets: dict[JsonPath, int]

    def error(self, path: JsonPath, what: str, advice: Advised = "") -> SettingsError:
        """Return the error about the value at this path."""
        return SettingsError(f"{place(self.source, self.text, self.offsets.get(path, 0))}: {what}", advice)


def place(source: str, text: str, offset: int) -> str:
    """Return source, line and column of an offset in a text."""
    column = offset - text.rfind("\n", 0, offset)
    return f"{source}, line {text.count(chr(10), 0, offset) + 1}, column {column}"


def read_json(text: str, source: str) -> LocatedJson:
    """Read a document. Raises `SettingsError` with the place of what is no JSON, and of a key that is there twice."""
    text = text.removeprefix("\ufeff")
    try:
        value = json.loads(text, parse_constant=_refuse)
    except json.JSONDecodeError as error:
        has_comment = text[error.pos :].startswith(("//", "/*"))
        advice = "JSON has no comments: delete it" if has_comment else ""
        raise SettingsError(f"{place(source, text, error.pos)}: not valid JSON: {error.msg}", advice) from None
    except (ValueError, RecursionError):
        wrong = next((token.start() for token in _TOKEN.finditer(text) if _is_no_number(token[0])), 0)
        what = "a number that JSON does not have, or lists in too many lists"
        raise SettingsError(f"{place(source, text, wrong)}: {what}") from None
    half = next((token.start() for token in _TOKEN.finditer(text) if "\\" in token[0] and _has_half_character(token[0])), None)
    if half is not None:
        raise SettingsError(f"{place(source, text, half)}: a text has half of a character", "Write the whole character")
    document = LocatedJson(source, text, value, {})
    _locate(document)
    return document


def _is_no_number(token: str) -> bool:
    return token.lstrip("-") in ("NaN", "Infinity") or (token[:1] != '"' and len(token) > MAX_DIGITS)


def _has_half_character(token: str) -> bool:
    return token[:1] == '"' and any("\ud800" <= char <= "\udfff" for char in json.loads(token))


def _refuse(constant: str) -> NoReturn:
    raise ValueError(constant)


def _locate(document: LocatedJson) -> None:
    """Note where each value of a valid document begins."""
    path: list[str | int] = []
    keys: list[bool] = []
    """For each open list or object, whether the next text in it is a key."""
    for token in _TOKEN.finditer(document.text):
        sign = token[0]
        if sign in "]}":
            keys.pop()
            if len(path) > len(keys):
                path.pop()
        elif sign == ",":
            last = path.pop()
            keys[-1] = isinstance(last, str)
            if isinstance(last, int):
                path.append(last + 1)
        elif sign == ":":
            keys[-1] = False
        elif keys and keys[-1]:
            path.append(json.loads(sign))
            if tuple(path) in document.offsets:
                where = place(document.source, document.text, token.start())
                raise SettingsError(f"{where}: {str(path[-1])[:MAX_KEY]!r} is written twice", "Keep one of them")
        else:
            document.offsets[tuple(path)] = token.start()
            if sign in "[{":
                keys.append(sign == "{")
                if sign == "[":
                    path.append(0)


OBJECTS = ("mcpServers", "servers")
"""The keys under which files have their servers by name: that of most programs, and that of VS Code."""
KEYS = (
    "command",
    "args",
    "env",
    "url",
    "headers",
    "cwd",
    "workDir",
    "roots",
    "type",
    "transport",
    "timeout",
    "disabled",
    "name",
)
PERMITTING = ("alwaysAllow", "autoApprove", "autoAllow", "trust", "allowedTools")
"""Keys with which other programs allow calls: a file permits nothing here."""
UNUSED = ("description", "id", "icon", "gallery", "version", "dev")
"""Keys of other programs that change nothing here."""
PROGRAM, REMOTE = ("stdio",), ("http", "streamable-http", "streamableHttp", "streamable_http")
"""The words of ``type`` for servers that are started, and for those at an address."""
_FORM = '{"mcpServers": {"clock": {"command": "mcp-server-time"}}}'


class ServerList(NamedTuple):
    """Servers as a file or variable has them."""

    servers: tuple[MCPServer, ...] = ()
    notes: tuple[str, ...] = ()
    """What was left out, as sentences for the person."""

    def named(self, name: str) -> MCPServer | None:
        """Return the server of this name."""
        return next((server for server in self.servers if server.name == name), None)


def read_servers(text: str, source: str, folder: Path | None = None) -> ServerList:
    """Return the servers of a JSON text: an ``mcpServers`` object, or a list whose items have a ``name``.

    ``source``: the file or variable, for errors; ``folder``: where a relative ``cwd`` begins. Raises `SettingsError` with the
    place of what is wrong.
    """
    document = read_json(text, source)
    seen: set[str] = set()
    servers: list[MCPServer] = []
    notes: list[str] = []
    for name, path, fields in _entries(document):
        if name in seen:
            raise document.error(path, f"there are two servers {name}", "Rename one of them")
        seen.add(name)
        try:
            check_name(name)
        except SettingsError as error:
            raise document.error(path, error.what, error.advice) from None
        entry = _Entry(document, path, fields, name, folder)
        notes += entry.notes()
        if fields.get("disabled") is not True:
            servers.append(entry.server())
    return ServerList(tuple(servers), tuple(notes))


def read_variable(text: str, source: str) -> ServerList:
    """Return the servers of a variable: JSON, or the short form ``NAME:COMMAND,NAME:COMMAND``, without arguments."""
    text = text.strip()
    if not text or text.startswith(("[", "{", '"')):
        return read_servers(text, source) if text else ServerList()
    servers: list[MCPServer] = []
    for match in re.finditer(r"[^,]+", text):
        name, colon, command = (part.strip() for part in match[0].partition(":"))
        where = place(source, text, match.start())
        if not (name and colon and command) or command.startswith("//"):
            raise SettingsError(f"{where}: a server has a name and a command", f"Write fs:/opt/fs-server, or JSON: {_FORM}")
        if any(char.isspace() for char in command):
            what = f"{where}: the command of {name[:MAX_SHOWN]} has a blank, and the short form has no arguments"
            raise SettingsError(what, f"Write JSON: {_FORM}")
        if ServerList(tuple(servers)).named(name) is not None:
            raise SettingsError(f"{where}: there are two servers {name}", "Rename one of them")
        try:
            servers.append(MCPServer(name, command))
        except SettingsError as error:
            raise SettingsError(f"{where}: {error.what}", error.advice) from None
    return ServerList(tuple(servers))


def _entries(document: LocatedJson) -> Iterator[tuple[str, JsonPath, dict[str, Any]]]:
    """Yield name, path and settings of each server."""
    value = document.value
    if isinstance(value, list):
        for index, fields in enumerate(value):
            name = fields.get("name") if isinstance(fields, dict) else None
            if not isinstance(name, str):
                advice = 'Write [{"name": "clock", "command": "mcp-server-time"}]'
                raise document.error((index,), "a server in a list is an object with a name", advice)
            yield name, (index,), fields
        return
    key, *other = [key for key in OBJECTS if isinstance(value, dict) and key in value] or [""]
    if not key:
        raise document.error((), "there is no mcpServers", f"Write {_FORM}")
    if other:
        raise document.error((other[0],), f"the file has {key} and {other[0]}", "Keep one of them")
    if not isinstance(value[key], dict):
        raise document.error((key,), f"{key} is an object that has the servers by name", f"Write {_FORM}")
    for name, fields in value[key].items():
        if not isinstance(fields, dict):
            raise document.error((key, name), "the settings of a server are an object", f"Write {_FORM}")
        yield name, (key, name), fields


class _Entry:
    """The settings of one server."""

    def __init__(self, document: LocatedJson, path: JsonPath, fields: dict[str, Any], name: str, folder: Path | None) -> None:
        self._document = document
        self._path = path
        self._fields = fields
        self._name = name
        self._folder = folder

    def error(self, key: str, what: str, advice: Advised = "") -> SettingsError:
        """Return the error about a setting."""
        path = (*self._path, key) if key in self._fields else self._path
        return self._document.error(path, f"{self._name}: {what}", advice)

    def notes(self) -> Iterator[str]:
        """Yield what is left out of the settings. Raises `SettingsError` for a key that may be meant for another."""
        for key in self._fields:
            if key in PERMITTING:
                yield f"{self._name}: {key} does not count: a file permits no calls"
            elif key not in (*KEYS, *UNUSED):
                if advice := nearest(key, KEYS, 1):
                    raise self.error(key, f"there is no setting {key[:MAX_SHOWN]!r}", advice)
                yield f"{self._name}: {key[:MAX_SHOWN]!r} is not used"
        disabled = self._fields.get("disabled", False)
        if not isinstance(disabled, bool):
            raise self.error("disabled", "disabled is true or false")
        if disabled:
            yield f"{self._name} is disabled, and left out"

    def server(self) -> MCPServer:
        """Return the server."""
        command, url = self._text("command"), self._text("url")
        if bool(command) == bool(url):
            what = "it has both a command and a url" if command else "it has neither a command nor a url"
            raise self.error("url" if url else "", what, f"Write {_FORM}")
        self._check_type(is_remote=bool(url))
        given = {key: self._fields[key] for key in ("args", "env", "headers", "roots") if self._fields.get(key) is not None}
        if isinstance(roots := given.get("roots"), list):
            given["roots"] = [self._place(root) if isinstance(root, str) else root for root in roots]
        cwd, timeout = self._cwd(), self._fields.get("timeout", DEFAULT_TIMEOUT)
        try:
            server = MCPServer(self._name, command or url, cwd=cwd, timeout=timeout, **given)
        except WrongSetting as error:  # its advice is for Python
            advice = "Put it in quotation marks" if error.path[1:] else ""
            raise self._document.error((*self._path, *error.path), error.what, advice) from None
        except SettingsError as error:
            raise self.error("", error.what) from None
        if server.is_remote != bool(url):
            what = "the address begins with http:// or https://" if url else "an address is written as url"
            raise self.error("url" if url else "command", what)
        for key, values in {"url": [url], "args": server.args, "env": server.env, "headers": server.headers}.items():
            texts = values.values() if isinstance(values, dict) else values
            if problem := check_variables(texts, is_program_text=key == "args"):
                raise self.error(key, problem, "Write ${NAME} for a variable of the environment")
        return server

    def _check_type(self, *, is_remote: bool) -> None:
        key = "type" if "type" in self._fields else "transport"
        word = self._text(key)
        if not word:
            return
        if word == "sse":
            advice = "Use the address of its streamable HTTP, often /mcp instead of /sse"
            raise self.error(key, "sse is the older way to reach servers, which agentnb does not speak", advice)
        if word not in (*PROGRAM, *REMOTE):
            raise self.error(key, f"{key} is stdio or http")
        if (word in REMOTE) != is_remote:
            raise self.error(key, f"{key} {word} goes with a {'command' if word in PROGRAM else 'url'}")

    def _text(self, key: str) -> str:
        value = self._fields.get(key)
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise self.error(key, f"{key} is a text")
        return value or ""

    def _cwd(self) -> str | None:
        both = [self._text("cwd"), self._text("workDir")]
        if all(both) and both[0] != both[1]:
            raise self.error("workDir", "cwd and workDir name different folders", "Keep one of them")
        cwd = both[0] or both[1]
        return self._place(cwd) if cwd else None

    def _place(self, path: str) -> str:
        """Return a path that begins at the folder of the file."""
        return path if self._folder is None or path.startswith("~") else str(self._folder / path)
