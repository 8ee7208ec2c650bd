"""Settings of MCP servers as people and programs write them: files of other programs, and ``MCP_SERVERS``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from agentnb.advice import Advised
from agentnb.errors import SettingsError, nearest
from agentnb.tools.mcp.documents import Document, Keys, place, read_document
from agentnb.tools.mcp.expansion import check_variables, translated
from agentnb.tools.mcp.products import (
    BUILT_IN,
    GROUPS,
    LONGEST_SECONDS,
    MILLISECONDS,
    NAMES,
    NO_EFFECT,
    PLACES,
    PROGRAM,
    REMOTE,
    SECONDS,
    UNUSED,
    Product,
)
from agentnb.tools.mcp.server import MAX_NAME, MAX_SHOWN, MCPServer, WrongSetting, check_name

MAX_ENV_FILE = 100_000
"""Bytes of a file of environment variables."""
_FORM = '{"mcpServers": {"clock": {"command": "mcp-server-time"}}}'
_SETTINGS: dict[str, str] = {name: setting for setting, names in NAMES.items() for name in names}
_SPLIT: dict[str, dict[str, str]] = {
    "command": {"path": "command"},
    "timeout": {"request": "timeout", "startup": "startup_timeout_ms"},
}
"""Settings that are objects in some programs, and the names of what is in them."""
_TARGETS = {"command", "url"}
_BARE = re.compile(r"\$[A-Za-z_]\w*")
"""A text that is a variable as Gemini CLI writes them."""
_ASSIGNMENT = re.compile(r"\s*(?:export\s+)?([\w.-]+)\s*=\s*(.*?)\s*")


class ServerList(NamedTuple):
    """Servers as a file or variable has them."""

    servers: tuple[MCPServer, ...] = ()
    notes: tuple[str, ...] = ()
    """What was left out or changed, as sentences for the person."""
    product: str = ""
    """The program whose file it is; empty if that is not known."""

    def named(self, name: str) -> MCPServer | None:
        """Return the server of this name."""
        return next((server for server in self.servers if server.name == name), None)


def read_servers(text: str, source: str, folder: Path | None = None) -> ServerList:
    """Return the servers of a document: by name, as one of the products has them, or a list whose items have a ``name``.

    ``source``: the file or variable, for errors; ``folder``: where relative paths begin. Raises `SettingsError` with the
    place of what is wrong.
    """
    document = read_document(text, source)
    servers: dict[str, MCPServer] = {}
    notes: list[str] = []
    seen: set[str] = set()
    entries = [*_entries(document, str(Path(folder or "", source)))]
    for product, given, path, fields in entries:
        name = re.sub(r"[^a-zA-Z0-9_.-]+", "-", given).strip("-._")[:MAX_NAME]
        if name != given:
            notes.append(f"{given[:MAX_SHOWN]!r} is called {name} here")
        try:
            check_name(name or given)
        except SettingsError as error:
            raise document.error(path, error.what, error.advice) from None
        if name in seen:
            raise document.error(path, f"there are two servers {name}", "Rename one of them")
        seen.add(name)
        entry = _Entry(document, product, path, name, folder, fields)
        if reason := entry.left_out():
            notes.append(f"{name} is {reason}, and left out")
        else:
            notes += entry.notes()
            servers[name] = entry.server()
    return ServerList(tuple(servers.values()), tuple(notes), entries[0][0].name if entries else "")


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


def _entries(document: Document, file: str) -> Iterator[tuple[Product, str, Keys, dict[str, Any]]]:
    """Yield product, name, place and settings of each server."""
    is_found = False
    for keys, sharing in PLACES.items():
        value = document.value
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        if value is None or (not keys and is_found):
            continue
        items = [*_items(document, keys, value, is_guess=sharing[-1].is_guess)]
        product = next((one for one in sharing if _is_of(one, file, [fields for _, _, fields in items])), sharing[-1])
        is_found = is_found or bool(items) or not product.is_guess or value in ([], {})
        yield from ((product, *item) for item in items)
    if not is_found:
        raise document.error((), "there is no mcpServers", f"Write {_FORM}")


def _items(document: Document, keys: Keys, value: Any, *, is_guess: bool) -> Iterator[tuple[str, Keys, dict[str, Any]]]:
    """Yield name, place and settings of each server in an object or list."""
    if isinstance(value, list):
        for index, fields in enumerate(value):
            name = fields.get("name") if isinstance(fields, dict) else None
            if not isinstance(name, str):
                advice = 'Write [{"name": "clock", "command": "mcp-server-time"}]'
                raise document.error((*keys, index), "a server in a list is an object with a name", advice)
            yield name, (*keys, index), fields
    elif isinstance(value, dict):
        for name, fields in value.items():
            if isinstance(fields, dict) and not (is_guess and _TARGETS.isdisjoint(_flat(fields)) and not _is_built_in(fields)):
                yield name, (*keys, name), fields
            elif not is_guess:
                raise document.error((*keys, name), "the settings of a server are an object", f"Write {_FORM}")
    elif not is_guess:
        raise document.error(keys, f"{keys[-1]} is an object that has the servers by name", f"Write {_FORM}")


def _is_of(product: Product, file: str, servers: list[dict[str, Any]]) -> bool:
    """Return whether a file is one of a product, by its path or the settings of its servers."""
    values = [value for fields in servers for key in ("env", "headers") for value in _texts(fields.get(key))]
    has_bare = product.has_bare_variables and any(_BARE.fullmatch(value) for value in values)
    return has_bare or file.endswith(product.files) or any(not fields.keys().isdisjoint(product.marks) for fields in servers)


def _flat(fields: dict[str, Any], path: Keys = ()) -> dict[str, list[tuple[Keys, Any]]]:
    """Return the settings of a server by the names they have here, each with its place; those without one by their own."""
    found: dict[str, list[tuple[Keys, Any]]] = {}
    for key, value in fields.items():
        inner = {_SETTINGS.get(key, key): [((*path, key), value)]}
        if isinstance(value, dict) and key in GROUPS:
            inner = _flat(value, (*path, key))
        elif isinstance(value, dict) and key in _SPLIT:
            inner = _flat({_SPLIT[key].get(str(name), str(name)): item for name, item in value.items()}, (*path, key))
        for name, values in inner.items():
            found.setdefault(name, []).extend(one for one in values if one[1] is not None or name == "timeout")
    return found


def _texts(value: Any) -> list[str]:
    """Return the texts of an object or list."""
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
    return [item for item in items if isinstance(item, str)]


class _Entry:
    """The settings of one server."""

    def __init__(
        self, document: Document, product: Product, path: Keys, name: str, folder: Path | None, fields: dict[str, Any]
    ) -> None:
        self._document = document
        self._product = product
        self._path = path
        self._name = name
        self._folder = folder
        self._fields: dict[str, tuple[Keys, Any]] = {}
        for setting, (first, *others) in ((key, values) for key, values in _flat(fields, path).items() if values):
            self._fields[setting] = first
            if other := next((place for place, value in others if value != first[1]), None):
                what = f"{first[0][-1]} and {other[-1]} are different"
                raise document.error(other, f"{name}: {what}", "Keep one of them")

    def error(self, key: str, what: str, advice: Advised = "") -> SettingsError:
        """Return the error about a setting."""
        return self._document.error(self._place(key), f"{self._name}: {what}", advice)

    def _place(self, key: str) -> Keys:
        return self._fields[key][0] if key in self._fields else self._path

    def _raw(self, key: str) -> Any:
        return self._fields[key][1] if key in self._fields else None

    def _get(self, key: str, kind: Any, kind_name: str) -> Any:
        """Return a setting, None if there is none. Raises `SettingsError` if it is of another kind."""
        value = self._raw(key)
        if value is None or (isinstance(value, kind) and (kind is bool or not isinstance(value, bool))):
            return value
        raise self.error(key, f"{self._place(key)[-1]} is {kind_name}")

    def _text(self, key: str) -> str:
        value = self._get(key, str, "a text")
        if value is not None and not value.strip():
            raise self.error(key, f"{self._place(key)[-1]} is a text")
        return "" if value is None else self._translated(value, self._place(key))

    def notes(self) -> Iterator[str]:
        """Yield what has no effect. Raises `SettingsError` for a key that may be meant for another."""
        for key in self._fields:
            if reason := NO_EFFECT.get(key):
                yield f"{self._name}: {key} has no effect: {reason}"
            elif key not in NAMES and key not in UNUSED:
                if advice := nearest(key, _SETTINGS, 1):
                    raise self.error(key, f"there is no setting {key[:MAX_SHOWN]!r}", advice)
                yield f"{self._name}: {key[:MAX_SHOWN]!r} is not used"
        kind, keys = ("an address", ("args", "env")) if "url" in self._fields else ("a command", ("headers",))
        for key in keys:
            if self._raw(key):
                yield f"{self._name}: {self._place(key)[-1]} has no effect: {kind} takes none"
        timeout = self._raw("timeout")
        if isinstance(timeout, int | float) and timeout < self._product.least:
            what = f"{self._product.name} ignores less than {self._product.least:g}"
            yield f"{self._name}: timeout {timeout:g} has no effect: {what}"
        elif isinstance(timeout, int | float) and self._unit(timeout) != SECONDS:
            yield f"{self._name}: timeout {timeout:g} is {timeout * self._unit(timeout):g} seconds, as it counts milliseconds"

    def left_out(self) -> str:
        """Return why the server is left out; empty if it is not."""
        if self._get("disabled", bool, "true or false") or self._get("enabled", bool, "true or false") is False:
            return "disabled"
        fields = {key: self._raw(key) for key in ("type", "source")}
        return f"a part of {self._product.name or 'its program'}" if _is_built_in(fields) else ""

    def server(self) -> MCPServer:
        """Return the server."""
        command, *args = self._command()
        url = self._text("url")
        if bool(command) == bool(url):
            what = "it has both a command and a url" if command else "it has neither a command nor a url"
            raise self.error("url" if url else "", what, f"Write {_FORM}")
        self._check_type(is_remote=bool(url))
        given: dict[str, Any] = dict(self._times())
        if command:
            given |= {"args": [*args, *self._items("args")], "env": self._env()}
            given |= {"transport": "stdio"} if command.startswith("${") else {}
        else:
            given["headers"] = self._headers()
        if (cwd := self._text("cwd")) and command:
            given["cwd"] = self._path_in_folder(cwd)
        if (roots := self._items("roots")) != []:
            given["roots"] = [self._path_in_folder(root) if isinstance(root, str) else root for root in roots]
        try:
            server = MCPServer(self._name, command or url, **given)
        except WrongSetting as error:  # its advice is for Python
            advice = "Put it in quotation marks" if error.path[1:] else ""
            key, *rest = error.path
            raise self._document.error((*self._place(str(key)), *rest), error.what, advice) from None
        except SettingsError as error:
            raise self.error("", error.what) from None
        if server.is_remote != bool(url):
            what = "the address begins with http:// or https://" if url else "an address is written as url"
            raise self.error("url" if url else "command", what)
        for key, texts in {"url": [url], "env": server.env.values(), "headers": server.headers.values()}.items():
            if problem := check_variables(texts):
                raise self.error(key, problem, "Write ${NAME} for a variable of the environment")
        return server

    def _command(self) -> list[str]:
        """Return the command, with those of its arguments that stand in the same list."""
        if isinstance(self._raw("command"), list):
            return self._items("command") or [""]
        return [self._text("command")]

    def _items(self, key: str) -> Any:
        """Return the items of a list, whose numbers become texts."""
        value = self._get(key, list, "a list of texts") or []
        return [self._as_text(item, (*self._place(key), index)) for index, item in enumerate(value)]

    def _object(self, key: str) -> dict[str, Any]:
        """Return an object of texts; numbers become texts."""
        value = self._get(key, dict, "an object with a text for each name") or {}
        return {name: self._as_text(item, (*self._place(key), name)) for name, item in value.items() if item is not None}

    def _as_text(self, value: Any, path: Keys) -> Any:
        if isinstance(value, str):
            return self._translated(value, path)
        return json.dumps(value) if isinstance(value, bool | int | float) else value

    def _translated(self, text: str, path: Keys) -> str:
        """Return a text with its variables as they are written here."""
        try:
            return translated(text, path[-1], self._folder, has_bare_variables=self._product.has_bare_variables)
        except SettingsError as error:
            raise self._document.error(path, f"{self._name}: {error.what}", error.advice) from None

    def _env(self) -> dict[str, Any]:
        names = [item["name"] if isinstance(item, dict) else item for item in self._items("env_names")]
        return {**self._of_file(), **{str(name): f"${{{name}}}" for name in names}, **self._object("env")}

    def _of_file(self) -> dict[str, str]:
        """Return the variables of ``envFile``."""
        name = self._text("env_file")
        if not name:
            return {}
        path = Path(self._path_in_folder(name)).expanduser()
        try:
            if not path.is_file() or path.stat().st_size > MAX_ENV_FILE:
                raise FileNotFoundError
            lines = path.read_text("utf-8").splitlines()
        except (OSError, ValueError):
            raise self.error("env_file", f"there is no file {name} with NAME=VALUE in each line") from None
        found = [(match[1], match[2]) for line in lines if (match := _ASSIGNMENT.fullmatch(line))]
        return {key: value[1:-1] if value[:1] in ("'", '"') and value[-1:] == value[:1] else value for key, value in found}

    def _headers(self) -> dict[str, Any]:
        found = {header: f"${{{variable}}}" for header, variable in self._object("header_names").items()}
        if token := f"${{{name}}}" if (name := self._text("token_name")) else self._text("token"):
            form = self._text("token_format") or "Bearer {token}"
            found[self._text("token_header") or "Authorization"] = form.replace("{token}", token)
        return found | self._object("headers")

    def _times(self) -> dict[str, float | None]:
        """Return the time limits in seconds."""
        found: dict[str, float | None] = {"timeout": None} if "timeout" in self._fields else {}
        for key, setting in (("timeout", "timeout"), ("timeout_seconds", "timeout"), ("max_seconds", "max_seconds")):
            value = self._get(key, int | float, "a number above 0")
            if value is not None and key == "timeout" and value < self._product.least:
                del found["timeout"]
            elif value is not None:
                found[setting] = value * self._unit(value) if key == "timeout" else value
        return found

    def _unit(self, value: float) -> float:
        """Return the seconds that 1 is as a ``timeout``."""
        if self._product.unit is not None:
            return self._product.unit
        return SECONDS if value <= LONGEST_SECONDS else MILLISECONDS

    def _check_type(self, *, is_remote: bool) -> None:
        word = _word(self._get("type", str, "a word"))
        if not word:
            return
        if word not in (*PROGRAM, *REMOTE):
            raise self.error("type", f"{self._place('type')[-1]} is stdio or http")
        if (word in REMOTE) != is_remote:
            raise self.error("type", f"{self._place('type')[-1]} {word} goes with a {'command' if word in PROGRAM else 'url'}")

    def _path_in_folder(self, path: str) -> str:
        """Return a path that begins at the folder of the file."""
        return path if self._folder is None or path.startswith(("~", "${")) else str(self._folder / path)


def _is_built_in(fields: Mapping[str, Any]) -> bool:
    """Return whether settings name something that only its program can start."""
    return any(_word(fields.get(key)) in BUILT_IN for key in ("type", "source"))


def _word(value: Any) -> str:
    """Return a word of ``type`` in small letters, without signs."""
    return re.sub(r"[^a-z]", "", value.lower()) if isinstance(value, str) else ""
