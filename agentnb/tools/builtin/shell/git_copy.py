"""The copy of a folder of git on which a command in a sandbox works.

Objects are not copied: the command reads them where they are, and writes new ones beside them. No link is ever followed: the
functions here also read what a command has left.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from agentnb.tools.builtin.key_files import is_key_file

MAX_FILE_BYTES = 256_000_000
"""The largest file that is copied: an index of two million files."""
MAX_LOG_BYTES = 8_000_000
MAX_REFS = 100_000
BEFORE = "objects.before"
"""The name of the objects from before, as the copy has it."""
HEX = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"
REF = re.compile(
    r"refs/(?:stash|(?:heads|tags|remotes|notes)/(?![./])(?!.*(?:\.\.|//|@\{|/\.|\.lock(?:/|$)|[./]$))[^\x00-\x20\x7f~^:?*\[\\]+)"
)
"""Names of refs that a command may change. What ``refs/replace`` and the like have changes the meaning of others."""
COPIED_LOGS = ("refs/heads", "refs/stash")


class Signature(NamedTuple):
    """A file, as long as nobody writes to it."""

    number: int
    size: int
    changed: int


@dataclass
class GitCopy:
    """A copy of a folder of git, and what was in it at first."""

    source: Path
    target: Path
    identity: tuple[int, int]
    shared: GitCopy | None = None
    """That with refs and objects, if it is another one."""
    mounts: list[tuple[str, str, str]] = field(default_factory=list)
    bound: set[str] = field(default_factory=set)
    files: dict[str, Signature] = field(default_factory=dict)
    """The files of the copy."""
    originals: dict[str, Signature] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    logs: dict[str, bytes] = field(default_factory=dict)
    head: str = ""
    """The content of ``HEAD``."""

    def replaces(self, path: Path) -> bool:
        """Return whether the copy stands in place of this path of the original."""
        return path.is_relative_to(self.source) and path.relative_to(self.source).parts[:1] not in {(n,) for n in self.bound}


def copy_git(source: Path, target: Path, shared: GitCopy | None = None) -> GitCopy | None:
    """Copy a folder of git; None if it has a form that cannot be copied, such as linked refs or a table of refs."""
    entries = {entry.name: entry for entry in entries_of(source)}
    names = ("objects", "refs") if shared is None else ()
    if "reftable" in entries or not all(name in entries and entries[name].is_dir() for name in names):
        return None
    if any(entries[name].is_symlink() for name in ("HEAD", "packed-refs", "index", "logs", "refs") if name in entries):
        return None
    target.mkdir()
    status = source.stat()
    copy = GitCopy(source, target, (status.st_dev, status.st_ino), shared, [("--bind", str(target), str(source))])
    for name, entry in entries.items():
        if entry.is_symlink() and not name.startswith("config"):
            (target / name).symlink_to(Path(entry.path).readlink())
        elif entry.is_file():
            if not is_key_file(name) and name != "packed-refs" and not _copy_file(copy, name):
                return None
        elif entry.is_dir() and name not in (*names, "info", "logs", "worktrees"):
            _bind(copy, name, Path(entry.path))
    (target / "info").mkdir()
    for entry in entries_of(source / "info"):
        if entry.is_file() and not is_key_file(entry.name) and not _copy_file(copy, f"info/{entry.name}"):
            return None
    copy.head = (read_plain(target / "HEAD") or b"").decode(errors="replace").strip()
    _copy_logs(copy)
    if shared is None and not _make_repository(copy):
        return None
    copy.files = {name: signature(Path(entry.path)) for name, entry in files_of(target) if entry.is_file(follow_symlinks=False)}
    return copy


def signature(path: Path) -> Signature:
    """Return the signature of a file, or of the link in its place; zeros if there is nothing."""
    try:
        status = path.lstat()
    except OSError:
        return Signature(0, 0, 0)
    return Signature(status.st_ino, status.st_size, status.st_mtime_ns)


def read_plain(path: Path, limit: int = MAX_FILE_BYTES) -> bytes | None:
    """Return the content of a plain file; None for a link, a pipe, a file that is too large, and where there is nothing."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:  # noqa: PTH123
            content = file.read(limit + 1) if stat.S_ISREG(os.fstat(file.fileno()).st_mode) else None
    except OSError:
        return None
    return content if content is not None and len(content) <= limit else None


def plain_folders(folder: Path) -> Iterator[Path]:
    """Return the folders in a folder."""
    return (Path(entry.path) for entry in entries_of(folder) if entry.is_dir(follow_symlinks=False))


def entries_of(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; none for a link."""
    try:
        if folder.is_symlink():
            return []
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def files_of(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Return what lies in a folder of git itself and in ``info``."""
    yield from ((entry.name, entry) for entry in entries_of(folder))
    yield from ((f"info/{entry.name}", entry) for entry in entries_of(folder / "info"))


def files_below(folder: Path, prefix: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Return all below a folder that is no folder, by its path from there."""
    for entry in entries_of(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from files_below(Path(entry.path), f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry


def read_refs(folder: Path) -> dict[str, str]:
    """Return the values of all refs of a folder of git, ``ref: ...`` for a symbolic one."""
    packed = (read_plain(folder / "packed-refs") or b"").decode(errors="surrogateescape")
    refs = {name: value for value, _, name in (line.partition(" ") for line in packed.split("\n") if line[:1] not in "#^")}
    for name, entry in files_below(folder / "refs", "refs/"):
        content = read_plain(Path(entry.path), 4096)
        if content is not None:
            refs[name] = content.decode(errors="surrogateescape").strip()
    return refs


def read_logs(folder: Path, roots: tuple[str, ...] = ("",)) -> dict[str, bytes]:
    """Return the logs of a folder of git by the names of their refs."""
    logs = folder / "logs"
    found = [(name, Path(entry.path)) for root in roots for name, entry in files_below(logs / root, f"{root}/" if root else "")]
    if "" not in roots:
        found += [(name, logs / name) for name in ("HEAD", *roots)]
    contents = ((name, read_plain(path, MAX_LOG_BYTES)) for name, path in found)
    return {name: content for name, content in contents if content is not None}


def _bind(copy: GitCopy, name: str, source: Path) -> None:
    (copy.target / name).mkdir(parents=True)
    copy.bound.add(name.partition("/")[0])
    copy.mounts.append(("--ro-bind", str(source), str(copy.source / name)))


def _copy_file(copy: GitCopy, name: str) -> bool:
    """Copy a file with its time, by which git knows what it has to look at again; False if it is too large."""
    source, target = copy.source / name, copy.target / name
    copy.originals[name] = signature(source)
    content = read_plain(source.resolve())
    if content is None:
        return False
    target.write_bytes(content)
    os.utime(target, ns=(copy.originals[name].changed,) * 2)
    return True


def _copy_logs(copy: GitCopy) -> None:
    copy.logs = read_logs(copy.source, COPIED_LOGS)
    for name, content in copy.logs.items():
        path = copy.target / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _make_repository(copy: GitCopy) -> bool:
    """Make the folders of a repository in the copy, with all refs in one file; False if there are too many."""
    for folder in plain_folders(copy.source / "worktrees"):
        _bind(copy, f"worktrees/{folder.name}", folder)
    objects = copy.target / "objects"
    (objects / "info").mkdir(parents=True)
    (objects / "pack").mkdir()
    (objects / "info" / "alternates").write_text(f"../{BEFORE}\n")
    _bind(copy, BEFORE, (copy.source / "objects").resolve())
    copy.refs = read_refs(copy.source)
    if len(copy.refs) > MAX_REFS:
        return False
    (copy.target / "refs" / "heads").mkdir(parents=True)
    (copy.target / "refs" / "tags").mkdir()
    lines = ["# pack-refs with: sorted \n"]
    for name, value in sorted(copy.refs.items(), key=lambda item: os.fsencode(item[0])):
        if re.fullmatch(HEX, value):
            lines.append(f"{value} {name}\n")
        else:
            path = copy.target / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(os.fsencode(value) + b"\n")
    (copy.target / "packed-refs").write_bytes(os.fsencode("".join(lines)))
    return True
