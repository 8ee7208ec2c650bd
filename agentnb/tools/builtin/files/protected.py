"""Protected paths: git directories and the store of runs, where no tool may write."""

from __future__ import annotations

import os
import re
import stat
import threading
from collections.abc import Callable, Container, Iterable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path, PurePosixPath

from agentnb.core.forks import after_fork
from agentnb.tools.builtin.files.confined import ConfinedPath, Visit
from agentnb.tools.builtin.files.personal_folder import is_personal, leads_into
from agentnb.tools.tool import ToolRefused

NAMES = frozenset({".git", ".agentnb"})
GIT_PARTS = frozenset({"head", "objects", "refs", "commondir"})
"""Names that together make a folder a git directory."""

SHORT_NAME = re.compile(r"(?:git|agentn)~\d+")
"""Short names (8.3) that Windows creates for protected names, such as ``GIT~1``."""
IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
"""Characters in names that the macOS file system ignores."""
MAX_LINK_BYTES = 4_096
"""Maximum number of bytes read from a ``.git`` file."""


class _GitPartsLock:
    """Lock for writing parts of git directories."""

    lock = threading.Lock()

    @classmethod
    def begin_anew(cls) -> None:
        cls.lock = threading.Lock()


after_fork(_GitPartsLock.begin_anew)


def is_protected_name(name: str) -> bool:
    """True if any file system may treat a name as ``.git`` or ``.agentnb``."""
    plain = _plain(name)
    return plain in NAMES or SHORT_NAME.fullmatch(plain) is not None


def _plain(name: str) -> str:
    """Normalize a name as the most lenient file system does."""
    return name.translate(IGNORED).casefold().partition(":")[0].rstrip(" .")


def check_names(place: ConfinedPath) -> None:
    """Raise `ToolRefused` if a component of a path is protected, as written or with links resolved."""
    for name in (*place.root.split("/"), *place.names, *PurePosixPath(place.shown).parts):
        if is_protected_name(name):
            raise _refusal(place, name)


def check_store(place: ConfinedPath, store: Path | None) -> None:
    """Raise `ToolRefused` for a path in the folder of run logs."""
    if store is not None and leads_into(place.real, store):
        raise _refusal(place, store.name)


def folder_check(place: ConfinedPath) -> Visit:
    """Return a callback that is called for each folder on a path and raises `ToolRefused` in a git directory of any name.

    A folder that the next component would turn into a git directory also counts, because git would run the programs in its
    configuration.
    """

    def check(folder: int, depth: int) -> None:
        added = _plain(place.names[depth]) if depth < len(place.names) else ""
        if is_git_dir(lambda name: name.casefold() == added or _has(folder, name)):
            raise _refusal(place, "/".join(place.names[:depth]) or ".", "is a git directory, or would become one")
        target = _git_link(folder, os.path.join(place.root, *place.names[:depth]))  # noqa: PTH118  # a Path takes long
        if target is not None and (place.real + "/").startswith(target + "/"):
            raise _refusal(place, os.path.relpath(target, place.root))

    return check


def lock_git_parts(place: ConfinedPath) -> AbstractContextManager[object]:
    """Hold the lock while a part of a git directory is checked and written; other paths need no lock."""
    return nullcontext() if GIT_PARTS.isdisjoint(map(_plain, place.names)) else _GitPartsLock.lock


def is_git_dir(has: Callable[[str], bool]) -> bool:
    """True if a folder has the layout of a git directory, such as that of a bare repository or a worktree.

    ``has``: returns True if a name is in the folder.
    """
    return has("HEAD") and (has("commondir") or (has("objects") and has("refs")))


def forbidden_paths(top: Path, paths: Iterable[str]) -> list[str]:
    """Return those paths below a folder that must not be written together: agentnb's own, and parts of a new git directory."""
    added: dict[str, set[str]] = {}
    forbidden = []
    for path in paths:
        names = path.split("/")
        if is_personal(os.path.realpath(top / path)) or any(map(is_protected_name, names)):
            forbidden.append(path)
        for depth, name in enumerate(map(_plain, names)):
            added.setdefault("/".join(names[:depth]), set()).add(name)
    return forbidden + [folder or "." for folder, names in added.items() if _is_completed(top / folder, names)]


def _is_completed(folder: Path, added: Container[str]) -> bool:
    """True if these names turn a folder into a git directory."""

    def has(name: str) -> bool:
        return os.path.lexists(folder / name)

    return not is_git_dir(has) and is_git_dir(lambda name: name.casefold() in added or has(name))


def _has(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _git_link(folder: int, path: str) -> str | None:
    """Return the git directory that a ``.git`` file or link in an open folder points to, or None if there is none."""
    try:
        mode = os.stat(".git", dir_fd=folder, follow_symlinks=False).st_mode
        if stat.S_ISLNK(mode):
            return os.path.realpath(os.path.join(path, ".git"))  # noqa: PTH118  # as above
        if not stat.S_ISREG(mode):
            return None
        file = os.open(".git", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
        try:
            text = os.fsdecode(os.read(file, MAX_LINK_BYTES))
        finally:
            os.close(file)
        named = re.match(r"gitdir:\s*(.+?)\s*\Z", text)
        return None if named is None else os.path.realpath(os.path.join(path, named[1]))  # noqa: PTH118  # as above
    except (OSError, ValueError):
        return None


def _refusal(place: ConfinedPath, part: str, why: str = "belongs to git or to the run store") -> ToolRefused:
    problem = f"{place.shown} was not written: {part} {why}"
    return ToolRefused("protected_path", problem, "Write to another path. Change git's own files only with git commands.")
