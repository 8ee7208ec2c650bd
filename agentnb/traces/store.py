"""A folder of run logs: append-only, one JSON Lines file a run."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Literal
from weakref import WeakKeyDictionary

from agentnb.core.events import AnyEvent
from agentnb.core.run import Run
from agentnb.core.wire import TooDeep, decode_lines
from agentnb.errors import SettingsError, StoreError, TraceError, near
from agentnb.traces.run_file import RunFile, is_being_written
from agentnb.traces.summaries import RunSummary, summary

MAX_OPEN = 128
"""Runs of one event loop that may write at the same time; more wait. (A process may often have only 256 files open.)"""
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")


class Store:
    """Run logs in a folder, made when the first run is kept.

    ``fsync="round"`` forces each round to the disk itself (costs about 0.2 ms a round), for the case that the machine
    loses its power; that the process dies is no danger in any case.
    """

    def __init__(self, folder: str | Path, *, fsync: Literal["never", "round"] = "never") -> None:
        self.folder = Path(folder).expanduser().absolute()
        self._prefix = str(self.folder) + os.sep
        self._sync_rounds = fsync == "round"
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    async def open(self, run_id: str, *, nested: bool = False) -> RunFile:
        """Begin the log of a new run; waits while too many are being written. `StoreError` if that cannot be."""
        if nested:  # its parent holds a place already: waiting here could wait for ever
            return self._create(run_id, None)
        loop = asyncio.get_running_loop()
        slots = self._slots.get(loop)
        if slots is None:
            slots = self._slots[loop] = asyncio.Semaphore(MAX_OPEN)
        await slots.acquire()
        try:
            return self._create(run_id, slots)
        except BaseException:
            slots.release()
            raise

    def reopen(self, run_id: str) -> tuple[RunFile, Run]:
        """The log of a run whose process died, to be written on, and the run as far as it came.

        `StoreError` if a process is still writing it, `TraceError` if it cannot be read; `SettingsError` if the run has ended.
        """
        path = self.path(self.find(run_id))
        try:
            file, events = RunFile.reopened(path, sync_rounds=self._sync_rounds)
        except BlockingIOError as error:
            raise StoreError(
                f"Run {path.stem} is going on in another process", "Stop it there first, or wait for its end"
            ) from error
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror or error}", "Copy it to where it can") from error
        try:
            return file, _to_be_gone_on_with(_run_of(events, str(path)))
        except BaseException:
            file.close()
            raise

    def _create(self, run_id: str, slots: asyncio.Semaphore | None) -> RunFile:
        path = self._path(run_id)
        release = slots.release if slots is not None else None
        make = partial(RunFile, path, sync_rounds=self._sync_rounds, on_close=release)
        try:
            try:
                return make()
            except FileNotFoundError:
                self._make_folder()
                return make()
        except OSError as error:
            raise StoreError(
                f"The run log cannot be created in {self.folder}: {error.strerror or error}",
                "Choose a folder you may write to, with room on its disk",
            ) from error

    def _make_folder(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        if self.folder.parent.name == ".agentnb":
            ignore = self.folder.parent / ".gitignore"
            if not ignore.exists():
                ignore.write_text("# Run logs hold what was said and shown: they are not for the repository.\n*\n")

    def path(self, run_id: str) -> Path:
        """The file of this run, whether it exists or not; `StoreError` for what cannot be an id."""
        return Path(self._path(run_id))

    def _path(self, run_id: str) -> str:
        # Text, not a Path: joining paths was a tenth of what a short run costs.
        if not _ID.fullmatch(run_id):
            raise StoreError(f"{run_id!r} is no id of a run", "%agent history lists them")
        return f"{self._prefix}{run_id}.jsonl"

    def ids(self) -> list[str]:
        """The ids of all runs, oldest first."""
        return sorted(path.stem for path in self.folder.glob("*.jsonl"))

    def find(self, part: str) -> str:
        """The one id that is, begins with or ends with ``part``; `StoreError` if there is none, or more than one."""
        ids = self.ids()
        found = (
            [part] if part in ids else [run_id for run_id in ids if part and (run_id.startswith(part) or run_id.endswith(part))]
        )
        if len(found) != 1:
            what = f"{len(found)} runs match {part!r}" if found else f"There is no run {part!r} in {self.shown_folder}"
            raise StoreError(what, near(part, found or ids[::-1]) or "%agent history lists the runs")
        return found[0]

    def load(self, run_id: str) -> Run:
        """The run of this id (or an unmistakable part of one). One whose process died has status ``interrupted``."""
        return load_file(self.path(self.find(run_id)))

    def summaries(self, most: int | None = None) -> list[RunSummary]:
        """The newest runs, newest first, without folding them. Files that are no run logs are left out.

        A log without an end says ``running`` while a run writes it, and else ``interrupted``.
        """
        return list(islice(self.each_summary(), most))

    def each_summary(self) -> Iterator[RunSummary]:
        """As `summaries`, one after the other: each file is read when it is asked for."""
        for run_id in self.ids()[::-1]:
            try:
                with self.path(run_id).open("rb") as file:
                    without_end = "running" if is_being_written(file) else "interrupted"  # before it is read, as below
                    found = summary(file.read(), without_end)
            except (TraceError, OSError):
                continue
            yield found

    @property
    def shown_folder(self) -> str:
        """The folder, from the current one where it lies below it: no absolute path in a saved notebook without need."""
        here = Path.cwd()
        return str(self.folder.relative_to(here) if self.folder.is_relative_to(here) else self.folder)

    def __repr__(self) -> str:
        return f"Store({str(self.folder)!r})"


def _run_of(events: list[AnyEvent], source: str) -> Run:
    """Return the run of these events; `TraceError` if what they hold could be decoded, but is too deep to be handled."""
    try:
        return Run.from_events(events)
    except RecursionError as error:
        raise TooDeep(source) from error


def _to_be_gone_on_with(run: Run) -> Run:
    if not run.should_continue:
        raise SettingsError(
            f"Run {run.id} has ended ({run.stop_reason}): there is nothing to recover",
            f"Go on with its conversation: %agent load {run.id}, then %%agent --continue",
        )
    return run


def load_file(path: Path) -> Run:
    """The run of a log file; `StoreError` if it cannot be opened, `TraceError` if it is no log."""
    try:
        with path.open("rb") as lines:
            going_on = is_being_written(lines)  # asked first: a run that ends meanwhile is read with its end
            run = _run_of(decode_lines(lines, str(path)), str(path))
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror or error}", "%agent history lists the runs") from error
    if not going_on:
        run.mark_interrupted()
    return run
