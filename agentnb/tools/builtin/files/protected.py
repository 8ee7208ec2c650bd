"""Protected places: nothing is written into git directories and into the store of runs."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path, PurePosixPath

from agentnb.tools.builtin.files.confined import Place, Visit
from agentnb.tools.builtin.files.refusals import FileRefused

NAMES = frozenset({".git", ".agentnb"})
SHORT_NAME = re.compile(r"(?:git|agentn)~\d+")
"""Names that Windows makes for these, as ``GIT~1``."""
IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
"""Characters that the file system of macOS ignores in names."""
MAX_LINK_BYTES = 4_096
"""The longest ``.git`` file that is read."""


def is_protected_name(name: str) -> bool:
    """Return whether any file system may read a name as ``.git`` or ``.agentnb``."""
    plain = name.translate(IGNORED).casefold().partition(":")[0].rstrip(" .")
    return plain in NAMES or SHORT_NAME.fullmatch(plain) is not None


def check_names(place: Place) -> None:
    """Raise `FileRefused` if a name on the way to a place is protected, as it was written or with links followed."""
    for name in (*place.root.split("/"), *place.names, *PurePosixPath(place.shown).parts):
        if is_protected_name(name):
            raise _refusal(place, name)


def check_store(place: Place, store: Path | None) -> None:
    """Raise `FileRefused` for a place in the folder of the logs of runs."""
    if store is not None and f"{place.real}/".casefold().startswith(f"{os.path.realpath(store)}/".casefold()):
        raise _refusal(place, store.name)


def folder_check(place: Place) -> Visit:
    """Return what looks at each folder on the way to a place: raises `FileRefused` in a git directory, whatever its name."""

    def check(folder: int, depth: int) -> None:
        if _is_git_dir(folder):
            raise _refusal(place, "/".join(place.names[:depth]) or ".")
        target = _git_link(folder, os.path.join(place.root, *place.names[:depth]))  # noqa: PTH118  # a Path takes long
        if target is not None and (place.real + "/").startswith(target + "/"):
            raise _refusal(place, os.path.relpath(target, place.root))

    return check


def _is_git_dir(folder: int) -> bool:
    """Return whether an open folder has the layout of a git directory, as a bare repository or a worktree's."""
    if not _has(folder, "HEAD"):
        return False
    return _has(folder, "commondir") or (_has(folder, "objects") and _has(folder, "refs"))


def _has(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return False
    return True


def _git_link(folder: int, path: str) -> str | None:
    """Return the git directory to which a ``.git`` file or link in an open folder leads; None if there is none."""
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


def _refusal(place: Place, part: str) -> FileRefused:
    problem = f"{place.shown} was not written: {part} belongs to git or to the store of runs"
    return FileRefused("protected_path", problem, "Write to another place. Git itself is changed with git commands only.")
