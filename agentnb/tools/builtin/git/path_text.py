"""Paths of a repository as text for models."""

from __future__ import annotations

import os
import re
from pathlib import Path

from agentnb.key_files import is_key_file
from agentnb.tools.builtin.files.personal_folder import is_personal
from agentnb.tools.tool import ToolRefused


def shown_name(path: bytes) -> str:
    """Return a path as text: unchanged if readable, otherwise quoted and escaped as git does."""
    text = path.decode(errors="surrogateescape")
    if text.isprintable() and not set(text) & {'"', "\\"} and text == text.strip():
        return text
    return '"' + "".join(map(_escape, text)) + '"'


def _escape(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    plain = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character)
    return plain or "".join(f"\\{byte:03o}" for byte in os.fsencode(character))


def confined_path(text: str, work_dir: Path) -> bytes:
    """Convert a model's path to one relative to the working folder, with links to folders resolved.

    Raises `ToolRefused` for a path outside the working folder, or in ``.git``.
    """
    if "\0" in text or not text:
        raise ToolRefused("invalid_arguments", f"{text!r} is not a valid path.")
    path = work_dir / text.encode(errors="replace").decode()
    is_folder = path.name in ("", "..") or text.endswith(("/", "/."))
    try:
        resolved = path.resolve() if is_folder else path.parent.resolve() / path.name
    except (OSError, RuntimeError) as error:  # circular links, a name that is too long
        raise ToolRefused("invalid_arguments", f"{text} cannot be resolved: {error}") from error
    if not resolved.is_relative_to(work_dir):
        raise ToolRefused(
            "outside_work_dir", f"path is outside working directory: {text}", "Use a path below the working directory."
        )
    relative = resolved.relative_to(work_dir)
    if is_personal(str(resolved)):
        raise ToolRefused("outside_work_dir", f"{text} is in the person's agentnb folder.", "Use a path in the project.")
    if any(part.lower() == ".git" for part in relative.parts):
        raise ToolRefused("outside_work_dir", f"{text} is in .git, which belongs to git.", "Use a path in the project.")
    return os.fsencode(relative)


def is_below(path: bytes, place: bytes) -> bool:
    """True if a path equals ``place`` or is below it. Both are relative to the working folder."""
    return place == b"." or path.rstrip(b"/") == place or path.startswith(place + b"/")


def exists(folder: Path, path: bytes) -> bool:
    """True if a file, folder or link exists at this path."""
    return os.path.lexists(folder / os.fsdecode(path))


def may_hold_keys(path: bytes, folder: Path) -> bool:
    """True if a file has the name of a key file, or is in the person's agentnb folder. ``folder``: base of the path."""
    text = os.fsdecode(path)
    return is_key_file(text.rpartition("/")[2]) or is_personal(os.path.realpath(folder / text))


def is_hidden(hidden: re.Pattern[str] | None, top: str, path: bytes) -> bool:
    """True if rules hide a file. ``hidden``: pattern of absolute paths; ``top``: base of the path."""
    return hidden is not None and hidden.fullmatch(f"{top}/{os.fsdecode(path)}") is not None


def join_names(names: list[str], most: int = 20) -> str:
    """Join names for a sentence: at most ``most`` of them, and the number of others."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
