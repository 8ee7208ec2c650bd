"""Nature of a file call: sensitive if the file's name suggests that it holds keys."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from agentnb.key_files import is_key_file
from agentnb.tools.builtin.files.search_worker import Identity, identity_of, key_identities
from agentnb.tools.subject import CallNature

PERSONAL_KEYS = (".ssh/id_*", ".aws/credentials", ".netrc", ".git-credentials", ".npmrc", ".pypirc", ".pgpass", ".env")
"""Key files in the person's home, against which hard links are compared."""


def read_nature(arguments: Any, work_dir: Path) -> CallNature:
    """Return ``sensitive`` for a file that may hold keys, otherwise ``reads``."""
    return "sensitive" if _names_key_file(arguments, work_dir) else "reads"


def write_nature(arguments: Any, work_dir: Path) -> CallNature:
    """Return ``sensitive`` for a file that may hold keys, otherwise ``changes``."""
    return "sensitive" if _names_key_file(arguments, work_dir) else "changes"


def _names_key_file(arguments: Any, work_dir: Path) -> bool:
    """True if the path in a call, with links resolved, has the name of a key file."""
    path = arguments.get("path") if isinstance(arguments, dict) else None
    return isinstance(path, str) and may_hold_keys(path, work_dir)


def may_hold_keys(path: str, work_dir: Path) -> bool:
    """True if a path, with links resolved, has the name of a key file, or is a hard link to one."""
    name = path.rpartition("/")[2]
    if is_key_file(name):
        return True
    whole = f"{work_dir}/{path}" if path[:1] != "/" else path
    with suppress(OSError, ValueError):
        status = os.lstat(whole)
        if status.st_nlink == 1 and stat.S_ISREG(status.st_mode):
            return False  # the usual case, with a single system call: this runs for each call
    with suppress(OSError, ValueError):
        real = os.path.realpath(whole)
        if is_key_file(real.rpartition("/")[2]):
            return True
        status = Path(real).stat()
        is_linked = status.st_nlink > 1 and stat.S_ISREG(status.st_mode)
        return is_linked and _has_key_name(identity_of(status), status.st_ctime_ns, work_dir)
    return False


@lru_cache(maxsize=1_000)
def _has_key_name(identity: Identity, _changed: int, work_dir: Path) -> bool:
    """True if a file also has a hard link with the name of a key file. ``_changed``: its ctime, which changes with each new
    link.
    """
    return identity in {*personal_keys()} or identity in key_identities(str(work_dir), is_key_file)


def personal_keys() -> Iterator[Identity]:
    """Yield the identities of `PERSONAL_KEYS`."""
    for pattern in PERSONAL_KEYS:
        for path in Path.home().glob(pattern):
            with suppress(OSError):
                yield identity_of(path.stat())
