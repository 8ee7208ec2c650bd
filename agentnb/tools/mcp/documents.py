"""Configuration documents in JSON (with comments), YAML or TOML: values and their source positions."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from agentnb.advice import Advised
from agentnb.errors import SettingsError

Keys: TypeAlias = tuple[str | int, ...]
"""Path of keys and indexes to a value."""
Located: TypeAlias = tuple[Any, dict[Keys, int]]
"""A value, and the offset of each value in it, if known."""
MAX_KEY = 40
"""Maximum number of characters of a key repeated in an error."""
MAX_VALUES = 100_000
"""Maximum number of values in a YAML document, counting each use of an alias."""
_MERGE = "tag:yaml.org,2002:merge"
_TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|[\[\]{},:]|[^\s\[\]{},:"/]+|.', re.DOTALL)


@dataclass(frozen=True)
class Document:
    """A configuration document: its value, and the position of each value in it."""

    source: str
    """File or variable, for errors."""
    text: str
    value: Any
    offsets: dict[Keys, int]

    def error(self, path: Keys, what: str, advice: Advised = "") -> SettingsError:
        """Return an error about the value at this path."""
        prefix = next((path[:end] for end in range(len(path), -1, -1) if path[:end] in self.offsets), None)
        where = self.source if prefix is None else format_position(self.source, self.text, self.offsets[prefix])
        return SettingsError(f"{where}: {what}", advice)


class _Unreadable(Exception):
    """Syntax error: a message, and the offset or None if unknown."""


def format_position(source: str, text: str, offset: int) -> str:
    """Return the source, line and column of an offset in the text."""
    column = offset - text.rfind("\n", 0, offset)
    return f"{source}, line {text.count(chr(10), 0, offset) + 1}, column {column}"


def read_document(text: str, source: str) -> Document:
    """Read a document in the format indicated by its name or, failing that, by its first line.

    Raises `SettingsError` with the position of a syntax error or a duplicate key.
    """
    text = text.removeprefix("\ufeff")
    form = next((form for form in _FORMATS if source.lower().endswith(form.endings)), None) or _form_of(text)
    try:
        value, offsets = form.read(text)
    except _Unreadable as error:
        problem, offset = error.args
        where = source if offset is None else format_position(source, text, offset)
        raise SettingsError(f"{where}: not valid {form.name}: {problem}") from None
    except RecursionError:
        raise SettingsError(f"{source}: not valid {form.name}: nested too deeply") from None
    document = Document(source, text, value, offsets)
    for path, string in _texts(value, ()):
        if any("\ud800" <= char <= "\udfff" for char in string):
            raise document.error(path, "a string contains half of a surrogate pair", "Write the complete character")
    return document


def _texts(value: Any, path: Keys) -> Iterator[tuple[Keys, str]]:
    """Yield the strings in a value, including keys, with their paths."""
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list):
        for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
            yield (*path, key), str(key)
            yield from _texts(inner, (*path, key))


def _read_json(text: str) -> Located:
    """Read JSON, allowing comments and trailing commas as editors do."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError as error:
        import json5

        value, problem, end = json5.parse(text)
        if problem:
            message = "it ends too early" if end >= len(text) else "unexpected text"
            raise _Unreadable(*((message, end) if end > error.pos else (error.msg, error.pos))) from None
    except ValueError:
        raise _Unreadable("a number is too long", None) from None
    return value, _locate_values(text)


def _locate_values(text: str) -> dict[Keys, int]:
    """Return the offset of each value of a valid JSON document."""
    offsets: dict[Keys, int] = {}
    path: list[str | int] = []
    keys: list[bool] = []
    """For each open list or object, True if the next string in it is a key."""
    for token in _TOKEN.finditer(text):
        sign = token[0]
        if sign.startswith(("//", "/*")) or sign.isspace():
            continue
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
            path.append(json.loads(sign) if sign.startswith('"') else sign.strip("'"))
            if tuple(path) in offsets:
                raise _Unreadable(f"{str(path[-1])[:MAX_KEY]!r} appears twice", token.start())
        else:
            offsets[tuple(path)] = token.start()
            if sign in "[{":
                keys.append(sign == "{")
                if sign == "[":
                    path.append(0)
    return offsets


def _read_yaml(text: str) -> Located:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    reader, offsets = YAML(typ="safe", pure=True), dict[Keys, int]()

    def plain(node: Any, path: Keys) -> Any:
        if len(offsets) > MAX_VALUES:
            raise _Unreadable(f"more than {MAX_VALUES:,} values", None)
        offsets[path] = node.start_mark.index
        if node.id == "sequence":
            return [plain(item, (*path, index)) for index, item in enumerate(node.value)]
        if node.id != "mapping":
            return reader.constructor.construct_object(node)
        values, merged = dict[str, Any](), dict[str, Any]()
        for key, item in node.value:
            name = str(key.value)
            if key.tag == _MERGE:
                for merged_node in item.value if item.id == "sequence" else [item]:
                    if merged_node.id != "mapping":
                        raise _Unreadable(f"{name} can only merge objects", key.start_mark.index)
                    merged = plain(merged_node, (*path, name, len(offsets))) | merged
                continue
            if name in values:
                raise _Unreadable(f"{name[:MAX_KEY]!r} appears twice", key.start_mark.index)
            values[name] = plain(item, (*path, name))
        return merged | values

    try:
        node = reader.compose(text)
        return (None if node is None else plain(node, ())), offsets
    except MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise _Unreadable(_without_values(error.problem or error.context), mark and mark.index) from None
    except (YAMLError, ValueError) as error:
        raise _Unreadable(_without_values(error), None) from None


def _read_toml(text: str) -> Located:
    try:
        return tomllib.loads(text), {}
    except tomllib.TOMLDecodeError as error:
        raise _Unreadable(_without_values(error), None) from None


def _without_values(error: Any) -> str:
    """Return a parser's error message without the values that it quotes."""
    return re.sub(r"\s+", " ", re.sub(r"(['\"]).*?\1", "'...'", str(error)))


class _Form(NamedTuple):
    """A document format."""

    name: str
    endings: tuple[str, ...]
    """File extensions."""
    read: Callable[[str], Located]


_JSON = _Form("JSON", (".json", ".jsonc", ".json5"), _read_json)
_YAML = _Form("YAML", (".yaml", ".yml"), _read_yaml)
_TOML = _Form("TOML", (".toml",), _read_toml)
_FORMATS = (_JSON, _YAML, _TOML)
_FIRST_OF_TOML = re.compile(r"\[+[^\[\]{},]+\]+\s*(#.*)?|[\w.\"-]+\s*=.*")


def _form_of(text: str) -> _Form:
    first = next((line for line in map(str.strip, text.splitlines()) if line and not line.startswith("#")), "{")
    return _TOML if _FIRST_OF_TOML.fullmatch(first) else _JSON if first.startswith(("{", "[", "/")) else _YAML
