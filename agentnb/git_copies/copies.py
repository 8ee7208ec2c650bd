"""A copy of a git directory, for commands in a sandbox.

Objects are not copied: the command reads them in place, and writes new ones separately. Folders such as hooks are links into a
mount of the original, since mounting each one separately would take milliseconds. Links left by a command are never followed.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from agentnb.key_files import is_key_file

MAX_FILE_BYTES = 256_000_000
"""Maximum size of a copied file in bytes: enough for an index of two million files."""
MAX_LOG_BYTES = 8_000_000
MAX_REFS = 100_000
COPIED = ("objects", "refs", "logs", "worktrees", "info")
"""Folders that are newly created in the copy."""
MODULES = "modules"
"""Folder of the submodules' repositories; their settings contain relative paths to the working tree."""
HEX = r"[0-9a-f]{40}(?:[0-9a-f]{24})?"
REF = re.compile(
    r"refs/(?:stash|(?:heads|tags|remotes|notes)/(?![./])(?!.*(?:\.\.|//|@\{|/\.|\.lock(?:/|$)|[./]$))[^\x00-\x20\x7f~^:?*\[\\]+)"
)
"""Names of refs that a command may change. Refs such as ``refs/replace`` change the meaning of other refs."""


class Signature(NamedTuple):
    """Identifies a file's content as long as nobody writes to the file."""

    number: int
    size: int
    changed: int


@dataclass
class GitCopy:
    """A copy of a git directory, and its initial content."""

    source: Path
    target: Path
    identity: tuple[int, int]
    shared: GitCopy | None = None
    """The copy that holds the refs and objects, if that is a different one."""
    mounts: list[tuple[str, str, str]] = field(default_factory=list)
    links: dict[str, Path] = field(default_factory=dict)
    """The links in the copy."""
    files: dict[str, Signature] = field(default_factory=dict)
    """The files of the copy."""
    originals: dict[str, Signature] = field(default_factory=dict)
    refs: dict[str, str] = field(default_factory=dict)
    logs: dict[str, bytes] = field(default_factory=dict)
    head: str = ""
    """The content of ``HEAD``."""

    @property
    def before(self) -> Path:
        """Path of the original inside the sandbox."""
        return self.target.with_name(f"{self.target.name}.before")

    @property
    def objects(self) -> Path:
        """Path of the original's objects inside the sandbox."""
        return self.target.with_name(f"{self.target.name}.objects")

    def paths_of(self, path: Path) -> list[Path]:
        """Return the paths, inside the sandbox, of a file of the original."""
        inner = path.relative_to(self.source)
        return [self.before / inner, *([path] if inner.parts[0] == MODULES else [])]


def copy_git(source: Path, target: Path, shared: GitCopy | None = None, own: Container[Path] = ()) -> GitCopy | None:
    """Copy a git directory, or return None if it cannot be copied, for example because of linked refs or a reftable.

    ``own``: the worktree folders that are also copied.
    """
    entries = {entry.name: entry for entry in entries_of(source)}
    names = ("objects", "refs") if shared is None else ()
    if "reftable" in entries or not all(name in entries and entries[name].is_dir() for name in names):
        return None
    if any(entries[name].is_symlink() for name in ("HEAD", "packed-refs", "index", "logs", "refs") if name in entries):
        return None
    target.mkdir()
    status = source.stat()
    copy = GitCopy(source, target, (status.st_dev, status.st_ino), shared)
    copy.mounts += [("--bind", str(target), str(source)), ("--ro-bind", str(source), str(copy.before))]
    for name, entry in entries.items():
        if entry.is_symlink() and not name.startswith("config"):
            _link(copy, name, Path(entry.path).readlink())
        elif entry.is_file():
            if not is_key_file(name) and name != "packed-refs" and not _copy_file(copy, name):
                return None
        elif entry.is_dir() and name == MODULES:
            copy.mounts.append(("--ro-bind", entry.path, entry.path))
        elif entry.is_dir() and name not in COPIED:
            _link(copy, name, copy.before / name)
    for entry in entries_of(source / "info"):
        if entry.is_file() and not is_key_file(entry.name) and not _copy_file(copy, f"info/{entry.name}"):
            return None
    copy.head = (read_plain(target / "HEAD") or b"").decode(errors="replace").strip()
    _copy_logs(copy)
    if shared is None and not _make_repository(copy, own):
        return None
    copy.files = {
        name: signature(Path(entry.path)) for name, entry in entries_of_git(target) if entry.is_file(follow_symlinks=False)
    }
    return copy


def signature(path: Path) -> Signature:
    """Return the signature of a file, or of a link in its place; all zeros if it is missing."""
    try:
        status = path.lstat()
    except OSError:
        return Signature(0, 0, 0)
    return Signature(status.st_ino, status.st_size, status.st_mtime_ns)


def read_plain(path: Path | str, limit: int = MAX_FILE_BYTES) -> bytes | None:
    """Read a regular file, or return None if it is missing, too large, a link or a pipe."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb", buffering=0) as file:  # noqa: PTH123
            status = os.fstat(file.fileno())
            return file.readall() if stat.S_ISREG(status.st_mode) and status.st_size <= limit else None
    except OSError:
        return None


def entries_of(folder: Path) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; empty for a link."""
    try:
        if folder.is_symlink():
            return []
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


def entries_of_git(folder: Path) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield the entries of a git directory itself, of its ``info`` and of its ``worktrees``."""
    for inner in ("", "info/", "worktrees/"):
        yield from ((inner + entry.name, entry) for entry in entries_of(folder / inner))


def files_below(folder: Path, prefix: str = "") -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield everything below a folder except folders, with relative paths."""
    for entry in entries_of(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from files_below(Path(entry.path), f"{prefix}{entry.name}/")
        else:
            yield f"{prefix}{entry.name}", entry


def read_refs(folder: Path) -> dict[str, str]:
    """Return the values of all refs in a git directory; a symbolic ref has the value ``ref: ...``."""
    refs = read_packed_refs(folder)
    for name, entry in files_below(folder / "refs", "refs/"):
        content = read_plain(entry.path, 4096)
        if content is not None:
            refs[name] = os.fsdecode(content).strip()
    return refs


def read_packed_refs(folder: Path) -> dict[str, str]:
    """Return the packed refs."""
    lines = os.fsdecode(read_plain(folder / "packed-refs") or b"").split("\n")
    return {name: value for value, _, name in (line.partition(" ") for line in lines if line[:1] not in "#^")}


def read_logs(folder: Path, names: Iterable[str]) -> dict[str, bytes]:
    """Return the logs of these refs."""
    contents = ((name, read_plain(folder / "logs" / name, MAX_LOG_BYTES)) for name in names)
    return {name: content for name, content in contents if content is not None}


def _link(copy: GitCopy, name: str, to: Path) -> None:
    path = copy.target / name
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(to)
    copy.links[name] = to


def _copy_file(copy: GitCopy, name: str) -> bool:
    """Copy a file with its modification time, which git uses to detect changes; return False if it is too large."""
    source, target = copy.source / name, copy.target / name
    copy.originals[name] = signature(source)
    content = read_plain(source.resolve())
    if content is None:
        return False
    target.parent.mkdir(exist_ok=True)
    target.write_bytes(content)
    os.utime(target, ns=(copy.originals[name].changed,) * 2)
    return True


def _copy_logs(copy: GitCopy) -> None:
    """Copy the logs that git reads. In any other log, a command sees only the lines that it writes itself."""
    copy.logs = read_logs(copy.source, ("HEAD", "refs/stash", copy.head.removeprefix("ref: ")))
    for name, content in copy.logs.items():
        path = copy.target / "logs" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _make_repository(copy: GitCopy, own: Container[Path]) -> bool:
    """Create the folders of a repository in the copy, with all refs packed; return False if there are too many."""
    for entry in entries_of(copy.source / "worktrees"):
        name = f"worktrees/{entry.name}"
        if copy.source / name in own:
            (copy.target / name).mkdir(parents=True)
        elif entry.is_dir(follow_symlinks=False):
            _link(copy, name, copy.before / name)
    for name in ("objects/info", "objects/pack", "refs/heads", "refs/tags"):
        (copy.target / name).mkdir(parents=True)
    (copy.target / "objects/info/alternates").write_text(f"{copy.objects}\n")
    copy.mounts.append(("--ro-bind", str((copy.source / "objects").resolve()), str(copy.objects)))
    copy.refs = read_refs(copy.source)
    if len(copy.refs) > MAX_REFS:
        return False
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
