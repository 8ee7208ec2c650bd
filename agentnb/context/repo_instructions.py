"""What a repository says to agents that work in it: ``CLAUDE.md``, ``AGENT.md`` or ``AGENTS.md`` at its root."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

FILES = ("CLAUDE.md", "AGENT.md", "AGENTS.md")
"""Where instructions may stand; the first of them that has any counts, and only that."""

MAX_CHARACTERS = 32_000
"""Of instructions in a system prompt, which each request pays for."""

MAX_READ = 1_000_000
"""Characters of a file that are looked at, so that a file of gigabytes costs no more."""

HEADING = "## Repository Instructions"


@dataclass(frozen=True, slots=True)
class RepoInstructions:
    """The instructions of a repository; both empty where there are none."""

    file: str = ""
    """The name of the file that they stand in."""
    text: str = ""

    @property
    def section(self) -> str:
        """Their part of a system prompt: the heading, a blank line and the text; empty without any."""
        return f"{HEADING}\n\n{self.text}" if self.text else ""


def repo_instructions(folder: Path) -> RepoInstructions:
    """The instructions of the repository that this folder is in; without a repository those of the folder itself.

    ``folder``: absolute, all links on the way followed: this is done at the beginning of every run, and it is known there.
    What cannot be read as text in UTF-8 counts as not there, and so does a link that leads out of the repository: a file
    from elsewhere is not for the model. Text above `MAX_CHARACTERS` is cut, which its last line says.
    """
    root = _root(folder)
    for file in FILES:
        if text := _text(root, file):
            return RepoInstructions(file, text)
    return RepoInstructions()


def repo_root(folder: Path) -> Path:
    """The nearest folder upward that holds ``.git``, which is a file in worktrees and submodules; else the folder itself.

    ``folder``: as above.
    """
    return Path(_root(folder))


def _root(folder: Path) -> str:
    here = found = str(folder)  # as text: paths take ten times as long
    # Of os, for it raises nothing: neither without permission nor in links that go round.
    while not os.access(f"{found}/.git", os.F_OK):
        above, _ = os.path.split(found)
        if above == found:
            return here
        found = above
    return found


def _text(root: str, file: str) -> str:
    """The instructions in this file; empty if it has none for us."""
    name = f"{root}/{file}"
    if not os.access(name, os.F_OK):
        return ""
    path = Path(os.path.realpath(name))
    try:
        # Only a plain file: to open a pipe would wait for whoever writes to it.
        if not (path.is_relative_to(os.path.realpath(root)) and path.is_file()):
            return ""
        with path.open(encoding="utf-8-sig") as opened:
            text = opened.read(MAX_READ).strip()
    except (OSError, UnicodeDecodeError):
        return ""
    # UTF-16 without a mark at its start decodes, to this.
    return "" if "\0" in text else _cut(text, file)


def _cut(text: str, file: str) -> str:
    """At the end of a line, where that is near: half a sentence may say the opposite of the whole."""
    if len(text) <= MAX_CHARACTERS:
        return text
    end = text.rfind("\n", MAX_CHARACTERS // 2, MAX_CHARACTERS + 1)
    kept = text[: MAX_CHARACTERS if end < 0 else end].rstrip()
    return f"{kept}\n\n[Cut here: {file} is longer than {MAX_CHARACTERS:,} characters]"
