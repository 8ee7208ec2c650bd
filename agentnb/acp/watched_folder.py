"""The working folder before and after a run: changed files that agentnb did not write, so that undo cannot restore them."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from weakref import WeakMethod

from agentnb.core.log.stores import BEFORE_IMAGES, FileBefore
from agentnb.core.messages import encodable
from agentnb.errors import StoreError
from agentnb.runtime.event_log import EventLog, file_watchers
from agentnb.runtime.threads import is_cancelling
from agentnb.tools.builtin.files.search_files import LEFT_OUT
from agentnb.tools.builtin.git.path_text import join_names
from agentnb.tools.builtin.notebook.executed_cells import open_notebook
from agentnb.tools.defaults import MAX_WATCHED_BYTES, MAX_WATCHED_ENTRIES

MAX_NAMED, MAX_LISTED = 10, 100
"""Maximum number of changed files in the warning, and in the list for an undo."""


class FileState(NamedTuple):
    """Observed state of a file."""

    size: int
    modified: int
    """Time of modification, in nanoseconds."""
    digest: str = ""
    """Digest of the content; empty if it was not read."""


class WatchedFolder:
    """A folder, with the most recently observed states of its files. Links are not followed."""

    def __init__(self, folder: Path, store: Path | None = None) -> None:
        """Scan the folder, within limits. Blocks. ``store``: the folder of run logs, to be skipped."""
        self._folder = os.path.realpath(folder)
        self._store = None if store is None else os.path.realpath(store)
        self._notebook = open_notebook()
        self._notebook_path = "" if self._notebook is None else self._relative(str(self._notebook.path))
        self._is_whole = True
        self._written: dict[str, list[tuple[str | None, str]]] = {}
        """Digests before and after each change of a file by agentnb, None for no file."""
        file_watchers.append(WeakMethod(self._note, file_watchers.remove))
        self._files, remaining = self._look(), MAX_WATCHED_BYTES
        for path, state in self._files.items():
            if state.size <= remaining:
                remaining -= state.size
                self._files[path] = state._replace(digest=self._digest(path))

    def is_open_notebook(self, path: str) -> bool:
        """True if this is the path of this kernel's notebook."""
        return self._notebook is not None and self._relative(path) == self._notebook_path

    def _note(self, file: FileBefore) -> None:
        """Note a change of a file by agentnb, in any run of this process."""
        if file.after is not None and file.path.is_relative_to(self._folder):
            before = None if file.before is None else sha256(file.before).hexdigest()
            self._written.setdefault(self._relative(str(file.path)), []).append((before, sha256(file.after).hexdigest()))

    async def log_changes(self, log: EventLog, agent: str) -> None:
        """Warn about changes since the scan, and list them for an undo."""
        if is_cancelling():  # the log of a stopped run must not wait
            changed, is_notebook_edited = self._look_again(log)
        else:
            changed, is_notebook_edited = await asyncio.to_thread(self._look_again, log)
        if changed:
            names = join_names([*map(encodable, changed)], MAX_NAMED)
            log.warn(f"Changed while {agent} ran, but not by agentnb, so not undone: {names}")
        if is_notebook_edited:
            log.warn_once(
                f"The cells of the open notebook changed on disk while {agent} ran",
                "Reload it from disk, or overwrite it with your version",
            )
        if not self._is_whole:
            log.warn_once(f"The folder is large: changes beyond its first {MAX_WATCHED_ENTRIES:,} names are not detected")

    def _look_again(self, log: EventLog) -> tuple[list[str], bool]:
        """Return the changed files, and whether the cells of the open notebook differ."""
        before, was_whole = self._files, self._is_whole
        current = self._look()
        changed = {path for path, state in before.items() if self._has_changed(path, state, current.get(path))}
        if was_whole:
            changed |= current.keys() - before.keys()
        self._files = current | {path: before[path] for path in before.keys() & current.keys() - changed}
        named = sorted(path for path in changed - {self._notebook_path} if not self._is_ours(path, before.get(path)))
        folder = Path(self._folder)
        with suppress(StoreError):  # the log reports the error at its next write
            for path in named[:MAX_LISTED]:
                log.keep_before(FileBefore("", folder, folder / path, None, None))
        if self._notebook is None:
            return named, False
        notebook = open_notebook()
        return named, notebook is None or notebook.sources != self._notebook.sources

    def _has_changed(self, path: str, before: FileState, now: FileState | None) -> bool:
        if now is None:  # beyond the limit, it may still exist
            return not os.path.lexists(self._path(path))
        if now.size != before.size or now.modified == before.modified:
            return now.size != before.size
        return not before.digest or before.digest != self._digest(path)

    def _is_ours(self, path: str, before: FileState | None) -> bool:
        """True if agentnb made each change of a file. An agent may also write what agentnb wrote, as opencode does."""
        states = {None if before is None else before.digest}
        for written in self._written.get(path, ()):
            if "" not in states and states.isdisjoint(written):
                return False
            states = {*written}
        return bool(now := self._digest(path)) and now in states

    def _look(self) -> dict[str, FileState]:
        """Return the files of the folder, breadth-first."""
        seen = list(islice(self._entries(), MAX_WATCHED_ENTRIES + 1))
        self._is_whole = len(seen) <= MAX_WATCHED_ENTRIES
        return {path: state for path, state in seen if state is not None}

    def _entries(self) -> Iterator[tuple[str, FileState | None]]:
        """Yield the path of each entry below the folder and its state, or None for entries that are not files."""
        folders = deque([""])
        while folders:
            before = folders.popleft()
            with suppress(OSError), os.scandir(self._path(before)) as entries:
                for entry in entries:
                    path = before + entry.name
                    if entry.is_dir(follow_symlinks=False) and not self._is_left_out(entry):
                        folders.append(path + "/")
                    yield path, _state_of(entry) if entry.is_file(follow_symlinks=False) else None

    def _is_left_out(self, entry: os.DirEntry[str]) -> bool:
        return entry.name in LEFT_OUT or entry.name.startswith(BEFORE_IMAGES) or entry.path == self._store

    def _relative(self, path: str) -> str:
        """Return a path relative to the folder, with links resolved."""
        return os.path.relpath(os.path.realpath(self._path(path)), self._folder)

    def _path(self, path: str) -> str:
        return os.path.join(self._folder, path)  # noqa: PTH118  # a Path is slow to create

    def _digest(self, path: str) -> str:
        """Return the digest of a file, or "" if it cannot be read."""
        with suppress(OSError), open(self._path(path), "rb") as file:  # noqa: PTH123  # likewise
            return sha256(file.read()).hexdigest()
        return ""


def _state_of(file: os.DirEntry[str] | Path) -> FileState | None:
    """Return the state of a file, or None if it no longer exists."""
    try:
        status = file.stat(follow_symlinks=False)
    except OSError:
        return None
    return FileState(status.st_size, status.st_mtime_ns)
