"""Settings of MCP servers in files of other programs and in ``MCP_SERVERS``."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from agentnb.advice import Advised
from agentnb.core.messages import JsonObject
from agentnb.core.schema.references import list_of
from agentnb.errors import SettingsError, suggest_similar
from agentnb.tools.mcp.documents import Document, Keys, format_position, read_document
from agentnb.tools.mcp.expansion import check_variables, text_of, translate_variables
from agentnb.tools.mcp.mcp_server import MAX_NAME, MAX_SHOWN, MCPServer, WrongSetting, expand_home
from agentnb.tools.mcp.products import (
    ALLOWED,
    BARE,
    BUILT_IN,
    EXCLUDED,
    GROUPS,
    LONGEST_SECONDS,
    MILLISECONDS,
    NAMES,
    NO_EFFECT,
    PLACES,
    PROGRAM,
    REMOTE,
    SECONDS,
    SETTINGS,
    UNUSED,
    Product,
)

_FORM = '{"mcpServers": {"clock": {"command": "mcp-server-time"}}}'
_SETTINGS = {name: setting for setting, (_, names) in SETTINGS.items() for name in names}
_SPLIT: dict[str, dict[str, str]] = {
    "command": {"path": "command"},
    "timeout": {"request": "timeout", "startup": "startup_timeout_ms"},
}
"""Settings that are objects in some programs, and the names of their fields."""
_TARGETS = {"command", "url"}
_TARGET_KEYS = [key for target in _TARGETS for key in SETTINGS[target][1]]
_KINDS = {
    str: "a string",
    list: "a list of strings",
    dict: "an object with string values",
    float: "a number above 0",
    bool: "true or false",
}
_BARE = re.compile(r"(Bearer )?\$[A-Z_][A-Z0-9_]*")
"""Text that consists only of a variable in Gemini CLI's syntax."""
_ASSIGNMENT = re.compile(r"""\s*(?:export\s+)?([\w.-]+)\s*=\s*(["']?)(.*?)\2\s*""")


class ServerList(NamedTuple):
    """Servers of a file or variable."""

    servers: tuple[MCPServer, ...] = ()
    notes: tuple[str, ...] = ()
    """Skipped or changed settings, as sentences for the person."""
    product: str = ""
    """Program that the file belongs to; empty if unknown."""

    def find(self, name: str) -> MCPServer | None:
        """Return a server by name, or None."""
        return next((server for server in self.servers if server.name == name), None)


def read_servers(text: str, source: str, folder: Path | None = None) -> ServerList:
    """Return the servers in a document: by name, in the format of a known product, or as a list of items with a ``name``.

    ``source``: file or variable, for errors; ``folder``: base of relative paths. Raises `SettingsError` with the position of
    the problem.
    """
    document = read_document(text, source)
    servers: dict[str, MCPServer | None] = {}
    notes: list[str] = []
    entries = [*_entries(document, Path(folder or "", source).as_posix())]
    allowed, excluded = (
        [name for key_path in places for _, names in _values_at(document.value, key_path.split()) for name in list_of(names)]
        for places in (ALLOWED, EXCLUDED)
    )
    of_projects = [name for _, name, path, _ in entries if path[:1] == ("projects",)]
    for product, written, path, fields in entries:
        name = re.sub(r"[^a-zA-Z0-9_.-]+", "-", written).strip("-._")[:MAX_NAME] or f"server-{len(servers) + 1}"
        if name != written:
            notes.append(f"{repr(written[:MAX_SHOWN]) if written else 'A server without a name'} is named {name} here")
        if name in servers:
            if written not in of_projects:
                raise document.error(path, f"there are two servers named {name}", "Rename one of them")
            notes.append(f"{name} from {str(*path[-3:-2]) or 'all projects'} is left out: another server has the same name")
            continue
        is_off = written in excluded or (allowed and written not in allowed)
        entry = _Entry(document, product, path, name, folder, {**fields, "disabled": True} if is_off else fields)
        servers[name] = entry.server()
        notes += entry.notes
    return ServerList(tuple(filter(None, servers.values())), tuple(notes), entries[0][0].name if entries else "")


def read_variable(text: str, source: str) -> ServerList:
    """Return the servers in a variable: JSON, or the short form ``NAME:COMMAND,NAME:COMMAND`` without arguments."""
    text = text.strip()
    if not text or text.startswith(("[", "{", '"')):
        return read_servers(text, source) if text else ServerList()
    servers: list[MCPServer] = []
    for match in re.finditer(r"[^,]+", text):
        name, colon, command = (part.strip() for part in match[0].partition(":"))
        where = format_position(source, text, match.start())
        if not (name and colon and command) or command.startswith("//"):
            raise SettingsError(f"{where}: a server needs a name and a command", f"Write fs:/opt/fs-server, or JSON: {_FORM}")
        if any(char.isspace() for char in command):
            problem = (
                f"{where}: the command of {name[:MAX_SHOWN]} contains a space, but the short form does not support arguments"
            )
            raise SettingsError(problem, f"Write JSON: {_FORM}")
        if ServerList(tuple(servers)).find(name) is not None:
            raise SettingsError(f"{where}: there are two servers named {name}", "Rename one of them")
        try:
            servers.append(MCPServer(name, command))
        except SettingsError as error:
            raise SettingsError(f"{where}: {error.what}", error.advice) from None
    return ServerList(tuple(servers))


def _entries(document: Document, file: str) -> Iterator[tuple[Product, str, Keys, JsonObject]]:
    """Yield the product, name, path and settings of each server."""
    is_found = False
    for keys, sharing in PLACES.items():
        for path, value in _values_at(document.value, keys):
            if value is None or (not keys and is_found):
                continue
            items = [*_items(document, path, value, is_guess=sharing[-1].is_guess)]
            product = next(
                (candidate for candidate in sharing if _is_of(candidate, file, [fields for _, _, fields in items])), sharing[-1]
            )
            is_found = is_found or bool(items) or not product.is_guess or value in ([], {})
            yield from ((product, *item) for item in items)
    if not is_found:
        raise document.error((), "mcpServers is missing", f"Write {_FORM}")


def _values_at(value: Any, keys: Sequence[str], path: Keys = ()) -> Iterator[tuple[Keys, Any]]:
    """Yield the values at a path of keys, with the paths where they were found. ``*`` matches the working directory if it is a
    key, otherwise any key.
    """
    if not keys:
        yield path, value
    elif isinstance(value, dict):
        wanted = str(Path.cwd()) if keys[0] == "*" else keys[0]
        for key in [wanted] if wanted in value else value if keys[0] == "*" else ():
            yield from _values_at(value[key], keys[1:], (*path, key))


def _items(document: Document, keys: Keys, value: Any, *, is_guess: bool) -> Iterator[tuple[str, Keys, JsonObject]]:
    """Yield the name, path and settings of each server in an object or list, or of a document that is itself a server."""
    if isinstance(value, list):
        for index, fields in enumerate(value):
            names = [fields[key] for key in NAMES if key in fields] if isinstance(fields, dict) else [None]
            name = next(iter(names), "" if keys else None)
            if not isinstance(name, str):
                if is_guess and keys:
                    continue
                advice = 'Write [{"name": "clock", "command": "mcp-server-time"}]'
                raise document.error((*keys, index), "a server in a list must be an object with a name", advice)
            yield name, (*keys, index), fields
    elif not keys and isinstance(value, dict) and any(isinstance(value.get(key), str | list) for key in _TARGET_KEYS):
        yield str(value.get("name") or ""), (), value
    elif isinstance(value, dict):
        for name, fields in value.items():
            if isinstance(fields, dict) and not (is_guess and _TARGETS.isdisjoint(_flat(fields)) and not _is_built_in(fields)):
                yield name, (*keys, name), fields
            elif not is_guess:
                raise document.error((*keys, name), "server settings must be an object", f"Write {_FORM}")
    elif not is_guess:
        raise document.error(keys, f"{keys[-1]} must be an object with the servers by name", f"Write {_FORM}")


def _is_of(product: Product, file: str, servers: list[JsonObject]) -> bool:
    """True if a file belongs to a product, by its path, or by settings or variables of its servers."""
    if file.endswith(product.files):
        return True
    features: set[str] = set()
    for fields in servers:
        features |= {*fields, f"type {fields.get('type')}"}
        values = [text for key in ("env", "headers") if isinstance(texts := fields.get(key), dict) for text in texts.values()]
        features |= {BARE for text in values if isinstance(text, str) and _BARE.fullmatch(text)}
    return not features.isdisjoint(product.marks)


def _flat(fields: JsonObject, path: Keys = ()) -> dict[str, list[tuple[Keys, Any]]]:
    """Return the settings of a server under agentnb's names, and unknown settings under their own, each with its path."""
    result: dict[str, list[tuple[Keys, Any]]] = {}
    for key, value in fields.items():
        inner = {_SETTINGS.get(key, key): [((*path, key), value)]}
        if isinstance(value, dict) and key in GROUPS:
            inner = _flat(value, (*path, key))
        elif isinstance(value, dict) and key in _SPLIT:
            inner = _flat({_SPLIT[key].get(str(name), str(name)): item for name, item in value.items()}, (*path, key))
        for name, values in inner.items():
            result.setdefault(name, []).extend(entry for entry in values if entry[1] is not None or name == "timeout")
    return result


class _Entry:
    """Settings of one server."""

    def __init__(
        self, document: Document, product: Product, path: Keys, name: str, folder: Path | None, fields: JsonObject
    ) -> None:
        self._document = document
        self._product = product
        self._path = path
        self._name = name
        self._folder = folder.parent if folder and product.name and folder.name.startswith(".") else folder
        """The working folder: files of editors are in a subfolder."""
        self._fields: dict[str, tuple[Keys, Any]] = {}
        self.notes: list[str] = []
        """Ignored and reinterpreted settings, as sentences."""
        for setting, (first, *others) in ((key, values) for key, values in _flat(fields, path).items() if values):
            self._fields[setting] = first
            if differing := next((key_path for key_path, value in others if value != first[1]), None):
                raise self._error(differing, f"{first[0][-1]} and {differing[-1]} are different", "Keep one of them")

    def _error(self, at: str | Keys, what: str, advice: Advised = "") -> SettingsError:
        """Return an error about a setting, or the value at a path."""
        return self._document.error(self._place(at) if isinstance(at, str) else at, f"{self._name}: {what}", advice)

    def _place(self, key: str) -> Keys:
        return self._fields[key][0] if key in self._fields else self._path

    def _note(self, text: str) -> None:
        self.notes.append(f"{self._name}: {text}")

    def _get(self, key: str) -> Any:
        """Return a setting with translated variables, or an empty value of its type."""
        path, value = self._fields.get(key, (self._path, None))
        kind = SETTINGS[key][0]
        if value is None:
            return kind()
        if kind is float and type(value) in (str, int):
            with suppress(ValueError):
                value = float(str(value))  # infinite if too large
        if not isinstance(value, int | float if kind is float else kind) or (isinstance(value, bool) and kind is not bool):
            raise self._error(path, f"{path[-1]} is {_KINDS[kind]}")
        return self._plain(value, path)

    def _plain(self, value: Any, path: Keys, *, is_item: bool = False) -> Any:
        """Translate the variables in the strings of a value. Numbers in lists and objects become strings."""
        if isinstance(value, list):
            return [self._plain(item, (*path, index), is_item=True) for index, item in enumerate(value)]
        if isinstance(value, dict):
            return {key: self._plain(item, (*path, key), is_item=True) for key, item in value.items() if item is not None}
        if isinstance(value, str):
            try:
                return translate_variables(value, path[-1], self._folder, has_bare_variables=BARE in self._product.marks)
            except SettingsError as error:
                raise self._error(path, error.what, error.advice) from None
        return json.dumps(value) if is_item and isinstance(value, bool | int | float) else value

    def server(self) -> MCPServer | None:
        """Return the server, or None if it is skipped."""
        is_off = self._get("disabled") or ("enabled" in self._fields and not self._get("enabled"))
        is_extension = "settings" in self._fields and _TARGETS.isdisjoint(self._fields)
        if is_off or is_extension or _is_built_in({key: value for key, (_, value) in self._fields.items()}):
            reason = "disabled" if is_off else f"part of {self._product.name or 'its program'}"
            self.notes.append(f"{self._name} is {reason} and is left out")
            return None
        self._check_keys()
        url, (command, *args) = self._get("url"), self._command()
        if bool(command) == bool(url):
            message = "it has both a command and a url" if command else "it has neither a command nor a url"
            raise self._error("url" if url else "", message, f"Write {_FORM}")
        self._check_type(is_remote=bool(url))
        for key in ("args", "env") if url else ("headers",):
            if self._get(key):
                self._note(
                    f"{self._place(key)[-1]} has no effect: a server with {'an address' if url else 'a command'} ignores it"
                )
        options: JsonObject = {**self._times(), "roots": [*map(self._in_folder, self._get("roots"))]}
        if url:
            options["headers"] = self._headers()
        else:
            options |= {
                "args": [*args, *self._get("args")],
                "env": self._env(),
                "cwd": self._in_folder(self._get("cwd")) or None,
            }
            options |= {"transport": "stdio"} if command.startswith("${") else {}
        try:
            server = MCPServer(self._name, command or url, **options)
        except WrongSetting as error:  # its advice is for Python code
            setting, *item_path = error.path
            advice = "Put it in quotation marks" if item_path else ""
            raise self._document.error((*self._place(str(setting)), *item_path), error.what, advice) from None
        except SettingsError as error:
            raise self._error("", error.what) from None
        if server.is_remote != bool(url):
            message = "the address must begin with http:// or https://" if url else "an address belongs in url"
            raise self._error("url" if url else "command", message)
        for key, texts in {"url": [url], "env": server.env.values(), "headers": server.headers.values()}.items():
            if problem := check_variables(texts):
                raise self._error(key, problem, "Write ${NAME} for a variable of the environment")
        return server

    def _check_keys(self) -> None:
        """Note the ignored settings. Raises `SettingsError` for a key that looks misspelt."""
        for key in self._fields:
            if key in SETTINGS or key in UNUSED:
                continue
            meant = [
                name
                for name, setting in _SETTINGS.items()
                if setting not in self._fields and abs(len(name) - len(key)) < 2  # longer: not a typing error
            ]
            if key not in NO_EFFECT and (advice := suggest_similar(key, meant, 1)):
                raise self._error(key, f"unknown setting {key[:MAX_SHOWN]!r}", advice)
            self._note(f"{key[:MAX_SHOWN]!r} has no effect{NO_EFFECT.get(key, '')}")

    def _check_type(self, *, is_remote: bool) -> None:
        word, key = _word(self._get("type")), str(*self._place("type")[-1:])
        if word and word not in (*PROGRAM, *REMOTE):
            raise self._error("type", f"{key} must be stdio or http")
        if word and (word in REMOTE) != is_remote:
            raise self._error("type", f"{key} {word} needs a {'command' if word in PROGRAM else 'url'}")

    def _command(self) -> list[Any]:
        """Return the command, followed by any arguments in the same list."""
        path, value = self._fields.get("command", ((), None))
        if not isinstance(value, list):
            return [self._get("command")]
        if not all(isinstance(item, str) for item in value):
            raise self._error("command", f"{path[-1]} must be a list of strings")
        return self._plain(value, path) or [""]

    def _env(self) -> JsonObject:
        names = [item.get("name") if isinstance(item, dict) else item for item in self._get("env_names")]
        return {**self._of_file(), **{str(name): f"${{{name}}}" for name in names}, **self._get("env")}

    def _of_file(self) -> dict[str, str]:
        """Return the variables in ``envFile``."""
        name = self._get("env_file")
        if not name:
            return {}
        text = text_of(expand_home(self._in_folder(name)))
        assignments = [match for line in (text or "").splitlines() if (match := _ASSIGNMENT.fullmatch(line))]
        names = ", ".join(match[1] for match in assignments)
        self._note(f"env gets {names or 'nothing'} from {name}{', which cannot be read' if text is None else ''}")
        return {match[1]: match[3] for match in assignments}

    def _headers(self) -> JsonObject:
        headers = {header: f"${{{variable}}}" for header, variable in self._get("header_names").items()}
        if token := f"${{{name}}}" if (name := self._get("token_name")) else self._get("token"):
            form = self._get("token_format") or "Bearer {token}"
            headers[self._get("token_header") or "Authorization"] = form.replace("{token}", token)
        return {**headers, **self._get("headers")}

    def _times(self) -> dict[str, float | None]:
        """Return the time limits in seconds."""
        names = {"timeout_seconds": "timeout", "max_seconds": "max_seconds"}
        limits: dict[str, float | None] = {name: self._get(key) for key, name in names.items() if key in self._fields}
        if "timeout" in self._fields:
            number, product = self._get("timeout"), self._product
            is_long = number > LONGEST_SECONDS
            unit = product.unit or (MILLISECONDS if is_long and number % 1_000 == 0 else SECONDS)
            if self._fields["timeout"][1] is None:
                limits["timeout"] = None
            elif 0 < number < product.least:
                self._note(f"timeout {number:g} has no effect: {product.name} ignores values below {product.least:g}")
            else:
                limits["timeout"] = number * unit
                if unit != SECONDS or (is_long and not product.unit):
                    counted = "seconds" if unit == SECONDS else "milliseconds"
                    self._note(f"timeout {number:g} is {number * unit:g} seconds: it is in {counted}")
        return limits

    def _in_folder(self, path: Any) -> Any:
        """Resolve a path relative to the folder of the file."""
        if self._folder is None or not isinstance(path, str) or not path or path.startswith(("~", "${")):
            return path
        return str(self._folder / path)


def _is_built_in(fields: Mapping[str, Any]) -> bool:
    """True for settings of a server that only its program can start."""
    return "uses" in fields or any(_word(fields.get(key)) in BUILT_IN for key in ("type", "source"))


def _word(value: Any) -> str:
    """Normalize a value of ``type``: lowercase letters only."""
    return re.sub(r"[^a-z]", "", value.lower()) if isinstance(value, str) else ""
