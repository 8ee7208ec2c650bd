"""JSON that a person wrote, with the place of each value: an error says line and column, and never a value."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

from agentnb.advice import Advised
from agentnb.errors import SettingsError

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
