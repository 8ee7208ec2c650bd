"""Processes started by a program, read from ``/proc``; none on systems without it."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

PROCESSES = Path("/proc")


def descendants_of(number: int) -> tuple[int, ...]:
    """Return the descendants of a running process."""
    descendants: list[int] = []
    todo = [number]
    while todo:
        children = _children_of(todo.pop())
        descendants += children
        todo += children
    return tuple(descendants)


def _children_of(number: int) -> list[int]:
    numbers: list[int] = []
    for thread in _names(f"{number}/task"):
        numbers += map(int, process_text(f"{number}/task/{thread}/children").split())
    return numbers


def holders_of(pipes: Collection[int]) -> tuple[int, ...]:
    """Return the other processes that can write to one of these pipes, identified by inode.

    Children of this process are left out: they are forks made by another thread at this moment. If this process is the first in
    a container, they are included, because it also adopts orphans.
    """
    names, own = {f"pipe:[{pipe}]" for pipe in pipes}, os.getpid()
    others = (int(name) for name in _names("") if name.isdigit() and int(name) != own)
    holders = (number for number in others if _holds(number, names))
    return tuple(number for number in holders if own == 1 or _parent_of(number) != own)


def _holds(number: int, pipes: set[str]) -> bool:
    return any(_target(f"{number}/fd/{name}") in pipes and _writes(number, name) for name in _names(f"{number}/fd"))


def _writes(number: int, descriptor: str) -> bool:
    lines = process_text(f"{number}/fdinfo/{descriptor}").splitlines()
    flags = next((line.split()[1] for line in lines if line.startswith("flags:")), "0")
    return int(flags, 8) & os.O_ACCMODE != os.O_RDONLY


def _parent_of(number: int) -> int:
    fields = process_text(f"{number}/stat").rpartition(")")[2].split()
    return int(fields[1]) if fields else 0


def _names(folder: str) -> list[str]:
    """Return the entries of a folder in ``/proc``; empty if the process has ended or belongs to another user."""
    try:
        with os.scandir(PROCESSES / folder) as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []


def process_text(path: str) -> str:
    """Return the text of a file in ``/proc``; empty if the process has ended or belongs to another user."""
    try:
        return (PROCESSES / path).read_text(errors="replace")
    except OSError:
        return ""


def _target(link: str) -> str:
    try:
        return str((PROCESSES / link).readlink())
    except OSError:
        return ""
