"""A bounded walk over a folder for what a sandbox covers: files of keys, sockets, repositories inside."""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from agentnb.core.log.stores import BEFORE_IMAGES
from agentnb.key_files import is_key_file

MAX_ENTRIES = 200_000
MAX_CERTIFICATE_BYTES = 2_000_000
"""The largest ``*.pem`` file that is looked through for a key: packages bring certificates, without which no network works."""


@dataclass
class Findings:
    """The result of a walk. ``is_whole``: whether the walk came to its end."""

    covered: list[Path] = field(default_factory=list)
    """Files of keys and sockets."""
    hidden: list[Path] = field(default_factory=list)
    """Folders of files from before they were changed."""
    repositories: list[Path] = field(default_factory=list)
    is_whole: bool = True


def walk(roots: Iterable[Path], passed_over: Container[str] = ()) -> Findings:
    """Look through folders, those at the top first, and through none twice. Links to folders are not followed.

    ``passed_over``: folders that no command can write. Names decide nothing: a command could give any folder such a name.
    """
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
        for entry in entries:
            if entry.path not in passed_over:
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
        (findings.hidden if entry.name.startswith(BEFORE_IMAGES) else todo).append(Path(entry.path))
    elif entry.name == ".git":
        findings.repositories.append(Path(entry.path).parent)
    elif is_key_file(entry.name):
        target = Path(entry.path).resolve()
        if target.is_file() and not _holds_certificates_only(target):
            findings.covered.append(target)
    elif not entry.is_file() and _is_socket(entry.path):
        findings.covered.append(Path(entry.path))


def _holds_certificates_only(path: Path) -> bool:
    """Return whether a ``*.pem`` file has certificates and no key."""
    if path.suffix.lower() != ".pem":
        return False
    try:
        with path.open("rb") as file:
            data = file.read(MAX_CERTIFICATE_BYTES + 1)
    except OSError:
        return False
    return len(data) <= MAX_CERTIFICATE_BYTES and b"BEGIN CERTIFICATE" in data and b"PRIVATE" not in data


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.lstat(path).st_mode)
    except OSError:
        return False
