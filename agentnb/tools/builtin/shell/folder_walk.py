"""A bounded walk over a folder for what a sandbox covers: files of keys, sockets, repositories inside."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from agentnb.tools.builtin.key_files import is_key_file

MAX_ENTRIES = 30_000
PASSED_OVER = frozenset(("node_modules", "site-packages", "__pycache__", ".agentnb"))
ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")
"""What shows a folder to be an environment of Python: packages, with certificates that are no keys."""


@dataclass
class Findings:
    """The result of a walk. ``is_whole``: whether the walk came to its end."""

    covered: list[Path] = field(default_factory=list)
    """Files of keys and sockets."""
    repositories: list[Path] = field(default_factory=list)
    is_whole: bool = True


def walk(roots: Iterable[Path]) -> Findings:
    """Look through folders, those at the top first, and through none twice. Links to folders are not followed."""
    findings, todo, seen = Findings(), deque(roots), set[Path]()
    left = MAX_ENTRIES
    while todo:
        folder = todo.popleft()
        if folder in seen:
            continue
        seen.add(folder)
        entries = _entries(folder)
        left -= len(entries)
        if left < 0:
            findings.is_whole = False
            break
        if not any(entry.name in ENVIRONMENT_MARKS for entry in entries):
            for entry in entries:
                _look_at(entry, findings, todo)
    return findings


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def _look_at(entry: os.DirEntry[str], findings: Findings, todo: deque[Path]) -> None:
    if entry.is_dir(follow_symlinks=False):
        if entry.name == ".git":
            findings.repositories.append(Path(entry.path).parent)
        elif entry.name not in PASSED_OVER:
            todo.append(Path(entry.path))
    elif is_key_file(entry.name):
        target = Path(entry.path).resolve()
        if target.is_file():
            findings.covered.append(target)
    elif not entry.is_file() and _is_socket(entry.path):
        findings.covered.append(Path(entry.path))


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
