"""Instructions of a repository for its agents: ``CLAUDE.md``, ``AGENT.md`` or ``AGENTS.md`` at its root."""

from __future__ import annotations

import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from agentnb.context.defaults import MAX_INSTRUCTIONS

FILES = ("CLAUDE.md", "AGENT.md", "AGENTS.md")
"""Files that may hold instructions; only the first one with text is used."""


MAX_READ = 1_000_000
"""Maximum characters read from a file, to limit the cost of huge files."""

HEADING = "## Repository Instructions"


@dataclass(frozen=True, slots=True)
class RepoInstructions:
    """Instructions of a repository; both fields may be empty."""

    file: str = ""
    """Name of their file."""
    text: str = ""

    @property
    def section(self) -> str:
        """Section for a system prompt: the heading, a blank line and the text; empty if there are no instructions."""
        return f"{HEADING}\n\n{self.text}" if self.text else ""


NO_INSTRUCTIONS = RepoInstructions()


def repo_instructions(folder: Path) -> RepoInstructions:
    """Return the instructions of the repository around this folder or, if it is in no repository, of the folder
    itself.

    ``folder``: an absolute path with all links resolved; callers already have one, and this runs at the beginning of every run.
    A file that cannot be read as UTF-8 text counts as missing, and so does a link out of the repository: files outside it are
    not for the model. Text longer than `MAX_INSTRUCTIONS` is truncated, and its last line says so.
    """
    root = repo_root(folder)
    for file in FILES:
        if os.access(f"{root}/{file}", os.F_OK) and (text := _text(root, file)):
            return RepoInstructions(file, text)
    return NO_INSTRUCTIONS


def repo_root(folder: Path) -> str:
    """Return the nearest folder upward that contains ``.git`` (a file in worktrees and submodules), or else the folder itself.

    ``folder``: as in `repo_instructions`.
    """
    path = str(folder)
    for parent in _upward(path):
        # `os.access` raises nothing: neither without permission nor for circular links.
        if os.access(f"{parent}/.git", os.F_OK):
            return parent
    return path


@lru_cache(maxsize=64)
def _upward(folder: str) -> tuple[str, ...]:
    """Return the folder and all its parents, nearest first."""
    # Cached, as strings: needed at the beginning of every run, and paths are slow to create.
    return (folder, *map(str, Path(folder).parents))


def _text(root: str, file: str) -> str:
    """Return the instructions in this file; empty if it has none that are usable."""
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
    """Truncate the text, at the end of a line if possible, since half a sentence may mean the opposite."""
    if len(text) <= MAX_INSTRUCTIONS:
        return text
    end = text.rfind("\n", MAX_INSTRUCTIONS // 2, MAX_INSTRUCTIONS + 1)
    kept = text[: MAX_INSTRUCTIONS if end < 0 else end].rstrip()
    return f"{kept}\n\n[Cut here: {file} is longer than {MAX_INSTRUCTIONS:,} characters]"
