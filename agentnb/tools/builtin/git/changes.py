"""Changed files of a repository, from ``git status --porcelain=v2``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from agentnb.tools.builtin.git.work_tree import Repository

T = TypeVar("T")
FIELDS_BEFORE_PATH = {b"1": 8, b"2": 9, b"u": 10}
SAME = (" ", "?")


class Change(NamedTuple):
    """A changed file, with its path relative to the top of the repository."""

    in_index: str
    in_folder: str
    path: bytes
    origin: bytes = b""
    """Path before a rename or copy."""
    is_conflict: bool = False

    @property
    def is_staged(self) -> bool:
        """True if the index differs from the last commit."""
        return not self.is_conflict and self.in_index not in SAME

    @property
    def is_unstaged(self) -> bool:
        """True if the file differs from the index, or is untracked."""
        return self.is_conflict or self.in_folder != " "

    @property
    def is_repository(self) -> bool:
        """True for an untracked folder that is a separate repository."""
        return self.path.endswith(b"/")


@dataclass
class Status:
    """Branch, upstream and changed files."""

    commit: str = ""
    """Id of the last commit; empty before the first."""
    branch: str = ""
    """Name of the branch; empty if HEAD is detached."""
    upstream: str = ""
    ahead: int = 0
    behind: int = 0
    changes: list[Change] = field(default_factory=list)

    @property
    def heading(self) -> str:
        """The branch and its relation to the upstream branch, on one line."""
        if not self.commit:
            return f"## No commits yet on {self.branch}"
        if not self.branch:
            return f"## HEAD detached at {self.commit[:9]}"
        line = f"## {self.branch}"
        line += f"...{self.upstream}" if self.upstream else ""
        line += f" ahead {self.ahead}" if self.ahead else ""
        return line + (f" behind {self.behind}" if self.behind else "")


async def read_status(repository: Repository, *paths: bytes, untracked: str = "normal") -> Status:
    """Return the status of these paths, relative to the working folder, or of the entire repository if none are passed.

    ``untracked``: ``no``, ``normal`` (a folder instead of its files) or ``all``.
    """
    options = ("--porcelain=v2", "-z", "--branch", "--find-renames", "--ignore-submodules=dirty")
    output = await repository.output("status", *options, f"--untracked-files={untracked}", "--", *paths)
    status = Status()
    records = iter(output.split(b"\0"))
    for record in records:
        if record.startswith(b"# "):
            _read_heading(status, record.decode(errors="replace").split(" "))
        elif record:
            status.changes.append(_change(record, records))
    return status


def _read_heading(status: Status, words: list[str]) -> None:
    name, values = words[1], words[2:]
    if name == "branch.oid":
        status.commit = "" if values == ["(initial)"] else values[0]
    elif name == "branch.head":
        status.branch = "" if values == ["(detached)"] else values[0]
    elif name == "branch.upstream":
        status.upstream = values[0]
    elif name == "branch.ab" and "?" not in "".join(values):
        status.ahead, status.behind = int(values[0]), -int(values[1])


def _change(record: bytes, following: Iterator[bytes]) -> Change:
    kind = record[:1]
    if kind == b"?":
        return Change("?", "?", record[2:])
    parts = record.split(b" ", FIELDS_BEFORE_PATH[kind])
    states = parts[1].decode().replace(".", " ")
    origin = next(following) if kind == b"2" else b""
    return Change(states[0], states[1], parts[-1], origin, kind == b"u")


def shown_paths(repository: Repository, change: Change) -> str:
    """Return the path of a change relative to the working folder, preceded by its old path if the file was renamed."""
    before = f"{repository.display_path(change.origin)} -> " if change.origin else ""
    return before + repository.display_path(change.path)


def shorten_lines(files: Sequence[T], most: int, line_of: Callable[[T], str]) -> list[str]:
    """Return the lines of at most ``most`` files, and a line that counts the rest."""
    return [*map(line_of, files[:most]), *([f"[{len(files) - most:,} more files]"] if len(files) > most else [])]
