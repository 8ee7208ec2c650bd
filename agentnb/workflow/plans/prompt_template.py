"""The template of a planner's prompt; placeholders such as ``{{ query }}`` are replaced in a single pass."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from agentnb.errors import SettingsError, suggest_names

PLACES = ("query", "context", "results", "tools", "transcript")
_PLACE = re.compile(r"\{\{\s*(?P<name>[^{}]*?)\s*\}\}")
_DIRECTIVE = re.compile(r"#(?:foreach|if|elseif|else|end|set|macro|parse|include)\b")
_VARIABLE = re.compile(r"\$!?\{?(?!step\[)(?P<name>[A-Za-z_]\w*)\}?")
_FILES = (".md", ".txt", ".tmpl", ".vm")
MAX_CHARACTERS = 1_000_000


def template_text(template: Any, folder: Path) -> str:
    """Return the template in an input: its text, or the content of a file in this folder; empty if missing.

    Raises `SettingsError` for another template language, an unknown placeholder, or an unreadable file.
    """
    if template is None or (isinstance(template, str) and not template.strip()):
        return ""
    if not isinstance(template, str):
        raise SettingsError("promptTemplate is not a string", "Use text, or the path of a file")
    is_path = template.isprintable() and template.strip().endswith(_FILES)
    text = _of_file(template, folder) if is_path else template
    check_template(text)
    return text


def check_template(text: str) -> None:
    """Raise `SettingsError` for another template language or an unknown placeholder."""
    write = "Use variables such as {{ results }}, one JSON object per line: " + ", ".join(
        f"{{{{ {word} }}}}" for word in PLACES
    )
    if (directive := _DIRECTIVE.search(text)) is not None:
        raise SettingsError(f"promptTemplate: {directive[0]} belongs to another template language", write)
    if (variable := _VARIABLE.search(text)) is not None:
        name = variable["name"]
        instead = f"Write {{{{ {name} }}}}" if name in PLACES else write
        raise SettingsError(f"promptTemplate: {variable[0]} belongs to another template language", instead)
    for match in _PLACE.finditer(text):
        if match["name"] not in PLACES:
            raise SettingsError(f"promptTemplate: unknown variable {match[0]}", suggest_names(match["name"], PLACES) or write)


def fill_template(template: str, values: Mapping[str, Any]) -> str:
    """Replace the placeholders in a single pass: texts verbatim, lists as one JSON value per line."""
    return _PLACE.sub(lambda place: _as_text(values.get(place["name"])), template)


def has_place(template: str, name: str) -> bool:
    """True if a template has this placeholder."""
    return any(match["name"] == name for match in _PLACE.finditer(template))


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple):
        return "\n".join(msgspec.json.encode(item).decode() for item in value)
    return msgspec.json.encode(value).decode()


def _of_file(name: str, folder: Path) -> str:
    path = (folder / name.strip()).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise SettingsError(f"promptTemplate: {name} is outside {folder}", "Use text, or a file in that folder")
    if path.exists() and not path.is_file():  # a pipe could block forever
        raise SettingsError(f"promptTemplate: there is no file {name}", "Use text, or the path of a text file")
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"promptTemplate: {name} cannot be read ({error})", "Use text, or the path of a text file"
        ) from error
    if len(text) > MAX_CHARACTERS:
        raise SettingsError(f"promptTemplate: {name} has {len(text):,} characters", f"At most {MAX_CHARACTERS:,}")
    return text
