"""Instructions of a repository for agents that work in it: ``CLAUDE.md``, ``AGENT.md`` or ``AGENTS.md`` at its root."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agentnb.context.defaults import MAX_INSTRUCTIONS

FILES = ("CLAUDE.md", "AGENT.md", "AGENTS.md")
"""Files that may hold instructions; only the first that has any is used."""


MAX_READ = 1_000_000
"""Characters of a file that are read, so that a file of gigabytes costs no more."""

HEADING = "## Repository Instructions"


@dataclass(frozen=True, slots=True)
class RepoInstructions:
    """The instructions of a repository; both fields are empty if there are none."""

    file: str = ""
    """The name of the file they come from."""
    text: str = ""

    @property
    def section(self) -> str:
        """Their section of a system prompt: the heading, a blank line and the text; empty without instructions."""
        return f"{HEADING}\n\n{self.text}" if self.text else ""


NO_INSTRUCTIONS = RepoInstructions()


def repo_instructions(folder: Path) -> RepoInstructions:
    """Return the instructions of the repository that this folder is in or, without a repository, of the folder itself.

    ``folder``: absolute, with all links resolved; this runs at the beginning of every run, and the caller has that path
    already. A file that cannot be read as UTF-8 text counts as missing, and so does a link that leads out of the repository: a
    file from elsewhere is not for the model. Text above `MAX_INSTRUCTIONS` is cut, and its last line says so.
    """
    root = _root(folder)
    for file in FILES:
        if os.access(f"{root}/{file}", os.F_OK) and (text := _text(root, file)):
            return RepoInstructions(file, text)
    return NO_INSTRUCTIONS


def repo_root(folder: Path) -> Path:
    """Return the nearest folder upward that holds ``.git``, a file in worktrees and submodules; else the folder itself.

    ``folder``: as in `repo_instructions`.
    """
    return Path(_root(folder))


def _root(folder: Path) -> str:
    path = str(folder)
    for parent in _upward(path):
        # `os.access` raises nothing: neither without permission nor for circular links.
        if os.access(f"{parent}/.git", os.F_OK):
            return parent
    return path


@lru_cache(maxsize=64)
def _upward(folder: str) -> tuple[str, ...]:
    """Return the folder and all above it, the nearest first."""
    # Kept, and as strings: this is needed at the beginning of every run, and paths take long to make.
    return (folder, *map(str, Path(folder).parents))


def _text(root: str, file: str) -> str:
    """Return the instructions in this file; empty if it has none that may be used."""
    path = Path(os.path.realpath(f"{root}/{file}"))
    try:
        # Only a plain file: opening a pipe would block until there is a writer.
        if not (path.is_relative_to(os.path.realpath(root)) and path.is_file()):
            return ""
        with path.open(encoding="utf-8-sig") as opened:
            text = opened.read(MAX_READ).strip()
    except (OSError, UnicodeDecodeError):
        return ""
    # UTF-16 without a byte order mark decodes as UTF-8, with null characters.
    return "" if "\0" in text else _cut(text, file)


def _cut(text: str, file: str) -> str:
    """Cut the text, at the end of a line if one is near: half a sentence may say the opposite of the whole."""
    if len(text) <= MAX_INSTRUCTIONS:
        return text
    end = text.rfind("\n", MAX_INSTRUCTIONS // 2, MAX_INSTRUCTIONS + 1)
    kept = text[: MAX_INSTRUCTIONS if end < 0 else end].rstrip()
    return f"{kept}\n\n[Cut here: {file} is longer than {MAX_INSTRUCTIONS:,} characters]"
