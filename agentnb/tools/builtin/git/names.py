"""Paths of a repository, as a model writes and reads them."""

from __future__ import annotations

import os
import re
from pathlib import Path

from agentnb.key_files import is_key_file
from agentnb.tools.builtin.files.personal_folder import is_personal
from agentnb.tools.tool import ToolRefused


def shown_name(path: bytes) -> str:
    """Return a path as text: as it is if it can be read, else in quotes with escapes as git writes them."""
    text = path.decode(errors="surrogateescape")
    if text.isprintable() and not set(text) & {'"', "\\"} and text == text.strip():
        return text
    return '"' + "".join(map(_escaped, text)) + '"'


def _escaped(character: str) -> str:
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    plain = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}.get(character)
    return plain or "".join(f"\\{byte:03o}" for byte in os.fsencode(character))


def confined_path(text: str, work_dir: Path) -> bytes:
    """Return a path of a model's as a path from the working folder, links to folders followed.

    Raises `ToolRefused` for a path outside of it, or in ``.git``.
    """
    if "\0" in text or not text:
        raise ToolRefused("invalid_arguments", f"{text!r} cannot be a path.")
    path = work_dir / text.encode(errors="replace").decode()
    is_folder = path.name in ("", "..") or text.endswith(("/", "/."))
    try:
        resolved = path.resolve() if is_folder else path.parent.resolve() / path.name
    except (OSError, RuntimeError) as error:  # links in a circle, a name that is too long
        raise ToolRefused("invalid_arguments", f"{text} cannot be resolved: {error}") from error
    if not resolved.is_relative_to(work_dir):
        raise ToolRefused(
            "outside_work_dir", f"path is outside working directory: {text}", "Give a path below the working directory."
        )
    relative = resolved.relative_to(work_dir)
    if is_personal(str(resolved)):
        raise ToolRefused("outside_work_dir", f"{text} is in the person's folder of agentnb.", "Give a path of the project.")
    if any(part.lower() == ".git" for part in relative.parts):
        raise ToolRefused("outside_work_dir", f"{text} is in .git, which belongs to git.", "Give a path of the project.")
    return os.fsencode(relative)


def is_below(path: bytes, place: bytes) -> bool:
    """Return whether a path is a place, or below it. Both are relative to the working folder."""
    return place == b"." or path.rstrip(b"/") == place or path.startswith(place + b"/")


def exists(folder: Path, path: bytes) -> bool:
    """Return whether there is a file, folder or link of this path."""
    return os.path.lexists(folder / os.fsdecode(path))


def may_hold_keys(path: bytes, folder: Path) -> bool:
    """Return whether a file may hold keys, by its name, or is in the person's folder of agentnb. ``folder``: holds the path."""
    text = os.fsdecode(path)
    return is_key_file(text.rpartition("/")[2]) or is_personal(os.path.realpath(folder / text))


def is_hidden(hidden: re.Pattern[str] | None, top: str, path: bytes) -> bool:
    """Return whether rules hide a file. ``hidden``: the absolute paths that they do; ``top``: the folder that it is below."""
    return hidden is not None and hidden.fullmatch(f"{top}/{os.fsdecode(path)}") is not None


def listed(names: list[str], most: int = 20) -> str:
    """Return names for a sentence, and how many more there are."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more
