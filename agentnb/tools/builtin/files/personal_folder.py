"""The person's agentnb folder, which holds permissions and the secret that marks logs. No tool reads or writes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from agentnb import settings
from agentnb.tools.builtin.files.search_worker import Identity, identity_of

MAX_ENTRIES = 2_000
"""Maximum number of files in the folder that are compared with a hard link."""


def personal_identity() -> Identity:
    """Return the identity of the folder, or one that matches no file if it does not exist."""
    try:
        return identity_of(settings.personal_folder().stat())
    except OSError:
        return -1, -1


def is_personal(path: str) -> bool:
    """True if a path, with links resolved, is in the folder. The folder may not exist yet."""
    return leads_into(path, settings.personal_folder())


def leads_into(path: str, folder: Path) -> bool:
    """True if a path, with links resolved, is in a folder. Ignores case, as some file systems do."""
    return f"{path}/".casefold().startswith(f"{os.path.realpath(folder)}/".casefold())


def is_personal_file(status: os.stat_result) -> bool:
    """True if an open file has a hard link in the folder."""
    return status.st_nlink > 1 and identity_of(status) in personal_identities()


def personal_identities() -> Iterator[Identity]:
    """Yield the identities of the folder and its files."""
    yield personal_identity()
    paths = (os.path.join(at, name) for at, _, names in os.walk(settings.personal_folder()) for name in names)  # noqa: PTH118
    for path in islice(paths, MAX_ENTRIES):
        with suppress(OSError):
            yield identity_of(os.lstat(path))
