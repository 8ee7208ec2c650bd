"""Summaries of the logs of a folder, kept beside them once they are many: the list of runs then reads only new logs."""

from __future__ import annotations

from collections.abc import Container
from contextlib import suppress
from pathlib import Path

import msgspec

from agentnb.core.redaction import FileRedactor
from agentnb.store.folder_cache import HOME, Stamp, made_by, made_of, make_home
from agentnb.store.summaries import RunSummary
from agentnb.store.writing import write_whole

LAYOUT = 3
"""Changes when the file changes its meaning."""
MANY = 50
"""Summaries that must be new for the file to be written: reading fewer takes less time than writing it."""
UNSETTLED = frozenset({"running", "interrupted", "waiting_on_user"})
"""Statuses that depend on more than the log: on whether a process holds it, or that of its parent run."""


class _File(msgspec.Struct, frozen=True):
    made_by: str
    made_of: str
    summaries: dict[str, tuple[Stamp, RunSummary]] = {}


class KnownSummaries:
    """The summaries that are kept beside the logs of a folder. What is damaged, or of another folder, is made anew."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._known: dict[str, tuple[Stamp, RunSummary]] | None = None
        self._new = 0

    def get(self, run_id: str, stamp: Stamp | None) -> RunSummary | None:
        """Return the summary of a log that has not changed since; None if there is none."""
        if self._known is None:
            self._known = self._read()
        found = self._known.get(run_id)
        return found[1] if found is not None and found[0] == stamp else None

    def add(self, run_id: str, stamp: Stamp | None, found: RunSummary) -> None:
        """Keep a summary if nothing but its log can change it. ``stamp``: of before it was read."""
        if stamp is not None and found.status not in UNSETTLED and self._known is not None:
            self._known[run_id] = (stamp, found)
            self._new += 1

    def save(self, ids: Container[str]) -> None:
        """Write the summaries of these logs if enough are new. If they cannot be written, they are read again next time."""
        if self._new < MANY or self._known is None:
            return
        kept = {run_id: one for run_id, one in self._known.items() if run_id in ids}
        with suppress(OSError):  # StoreError is one
            file = _File(made_by(LAYOUT), made_of(self._folder), kept)
            write_whole(make_home(self._folder) / "summaries.json", [msgspec.json.encode(file)])
        self._new = 0

    def _read(self) -> dict[str, tuple[Stamp, RunSummary]]:
        try:
            data = (self._folder / HOME / "summaries.json").read_bytes()
            found = msgspec.json.decode(data, type=_File)
            is_ours = (found.made_by, found.made_of) == (made_by(LAYOUT), made_of(self._folder))
        except (OSError, ValueError, RecursionError):  # msgspec's errors are ValueErrors
            return {}
        # They were redacted with the keys known when they were written; if they hold a key learned since, they are made again.
        return found.summaries if is_ours and not FileRedactor().finds_key(data) else {}
