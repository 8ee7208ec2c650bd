"""The person's folder of agentnb: it holds what is allowed and the secret of logs, and no tool reads or writes it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from agentnb import settings
from agentnb.tools.builtin.files.search_worker import Identity, identity_of

MAX_ENTRIES = 2_000
"""Files of the folder that a file with several names is compared with."""


def personal_identity() -> Identity:
    """Return the identity of the folder; of nothing if it does not exist."""
    try:
        return identity_of(settings.personal_folder().stat())
    except OSError:
        return -1, -1


def is_personal(path: str) -> bool:
    """Return whether a path, links followed, leads into the folder, which may not exist yet."""
    return leads_into(path, settings.personal_folder())


def leads_into(path: str, folder: Path) -> bool:
    """Return whether a path, links followed, leads into a folder, on a file system that ignores letter case."""
    return f"{path}/".casefold().startswith(f"{os.path.realpath(folder)}/".casefold())


def is_personal_file(status: os.stat_result) -> bool:
    """Return whether an open file has a second name in the folder, as a hard link."""
    return status.st_nlink > 1 and identity_of(status) in personal_identities()


def personal_identities() -> Iterator[Identity]:
    """Yield the identities of the folder and of the files in it."""
    yield personal_identity()
    paths = (os.path.join(at, name) for at, _, names in os.walk(settings.personal_folder()) for name in names)  # noqa: PTH118
    for path in islice(paths, MAX_ENTRIES):
        with suppress(OSError):
            yield identity_of(os.lstat(path))
