"""A folder of run logs: append-only, with one JSON Lines file per run."""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from datetime import datetime
from functools import partial
from io import BufferedReader
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, Literal, Protocol, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from msgspec.structs import replace

from agentnb.advice import Advised, ListRuns, Plain
from agentnb.core.log.event_bounds import cut_event, max_event_bytes
from agentnb.core.log.events import AnyEvent
from agentnb.core.log.outcome import deciding_assessment
from agentnb.core.log.well_formed import check_events
from agentnb.core.log.wire import TooDeep, decode_lines, decode_log
from agentnb.core.todos import on_one_line
from agentnb.detect.agent_runs import how_to_continue
from agentnb.detect.run import Run
from agentnb.errors import SettingsError, StoreError, TraceError, suggest_names
from agentnb.store.before_images.images import folder_of_run
from agentnb.store.bounds import MAX_HELD_BYTES, MAX_STREAMED_BYTES, check_log, checked_lines
from agentnb.store.check_values import note_look
from agentnb.store.folder_cache import Stamp
from agentnb.store.known_summaries import KnownSummaries
from agentnb.store.nested_file import Holders, NestedFile
from agentnb.store.own_logs import is_own
from agentnb.store.regular_files import SMALL, open_regular, read_beginning
from agentnb.store.run_file import RunFile, delete_log, is_being_written
from agentnb.store.run_labels import assessments_in
from agentnb.store.summaries import RunSummary, log_summary, summary_of_data

FOLDER = Path(".agentnb") / "runs"
"""Folder for the runs of a notebook, relative to its working folder."""
MAX_OPEN = 128
"""Maximum number of runs on one event loop that write at the same time; others wait. (Many processes may open only
256 files.)
"""
MAX_MATCHES = 10
"""Maximum number of runs listed that match part of an id."""
FILES_AT_ONCE = 12
"""Number of small logs that are in memory together when many are read."""
AnyFile = TypeVar("AnyFile")
T = TypeVar("T")
U = TypeVar("U")


LIST_RUNS = ListRuns(rest=" lists the runs")


class Readable(Protocol):
    """The parts of a run needed to read its log: a `RunFacts`, or a part of one."""

    @property
    def parent_id(self) -> str | None:
        """Id of the parent run, if it is nested."""

    @property
    def started_at(self) -> datetime | None:
        """Time at which it began."""

    @property
    def should_continue(self) -> bool:
        """True until it has ended."""

    def mark_interrupted(self) -> None:
        """Record that the log has no end and that no process is writing it."""


AnyRun = TypeVar("AnyRun", bound=Readable)
Fold: TypeAlias = Callable[[list[AnyEvent]], AnyRun]
"""Folds events into a run, as `Run.from_events` does."""
LOG_BEGINS = b'{"kind":"run_started"'
"""First bytes of every log that agentnb writes."""
_ENDING = ".jsonl"
_ID = re.compile(r"[A-Za-z0-9_-]{1,100}")
_MADE_ID = re.compile(r"[0-9]{8}-[0-9]{6}-[0-9a-f]{11}")
"""Ids that agentnb generates for runs."""


class Store:
    """Run logs in a folder, which is created with the first run.

    ``fsync="round"`` forces each round to disk (about 0.2 ms per round), in case the machine loses power. Logs
    survive the death of the process either way.
    """

    def __init__(self, folder: str | Path, *, fsync: Literal["never", "round"] = "never") -> None:
        self.folder = _checked_folder(folder)
        self._prefix = str(self.folder) + os.sep
        self._sync_rounds = fsync == "round"
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    async def open(self, run_id: str, *, nested: bool = False) -> RunFile | NestedFile:
        """Create the log of a new run; waits while too many others are being written. Raises `StoreError` if it
        cannot be created.
        """
        if nested:  # its parent run holds a slot: waiting here could deadlock
            return self._create(run_id, NestedFile)
        loop = asyncio.get_running_loop()
        slots = self._slots.get(loop)
        if slots is None:
            slots = self._slots[loop] = asyncio.Semaphore(MAX_OPEN)
        await slots.acquire()
        try:
            return self._create(run_id, partial(RunFile, on_close=slots.release))
        except BaseException:
            slots.release()
            raise

    def reopen(self, run_id: str) -> tuple[RunFile, Run]:
        """Return an interrupted run's log, open for appending, and the run so far.

        Raises `StoreError` if another process is writing the log or it cannot be written to, `TraceError` if it
        cannot be read, `SettingsError` if the run has ended.
        """
        path = self.path(self.find(run_id))
        try:
            _check_parents(path)
            file, events = RunFile.reopen(path, sync_rounds=self._sync_rounds)
        except BlockingIOError as error:
            raise StoreError(
                f"Run {path.stem} is running in another process", "Stop it there first, or wait until it ends"
            ) from error
        except OSError as error:
            raise StoreError(f"{path} cannot be written: {error.strerror or error}", "Copy it to a writable folder") from error
        try:
            run = _run_of(events, str(path), Run.from_events)
            _check_resumable(run)
            run.set_consent(file.is_own)
            return file, run
        except BaseException:
            file.close()
            raise

    def _create(self, run_id: str, kind: Callable[..., AnyFile]) -> AnyFile:
        make = partial(kind, self._path(run_id), sync_rounds=self._sync_rounds)
        try:
            try:
                return make()
            except FileNotFoundError:
                self.prepare()
                return make()
            except FileExistsError:
                if kind is not NestedFile or self.has(run_id):
                    raise
                self.path(run_id).unlink()  # its process died before the first event, and its parent run is resumed
                return make()
        except OSError as error:
            raise StoreError(
                f"The run log cannot be created in {self.folder}: {error.strerror or error}",
                "Choose a writable folder with enough disk space",
            ) from error

    def prepare(self) -> None:
        """Create the folder, unless it exists."""
        self.folder.mkdir(parents=True, exist_ok=True)
        home = next((parent for parent in self.folder.parents if parent.name == ".agentnb"), None)
        if home is not None:
            ignore = home / ".gitignore"
            if not ignore.exists():
                ignore.write_text("# Run logs contain what was said and shown: do not commit them.\n*\n")

    def path(self, run_id: str) -> Path:
        """Return the path of this run's file, which need not exist; raises `StoreError` if the id is invalid."""
        return Path(self._path(run_id))

    def _path(self, run_id: str) -> str:
        # Text, not a Path: joining paths took a tenth of the time of a short run.
        if not _ID.fullmatch(run_id):
            raise StoreError(f"{run_id!r} is not a run id", LIST_RUNS)
        return f"{self._prefix}{run_id}{_ENDING}"

    def has(self, run_id: str) -> bool:
        """Return whether this run has a log that contains its first event; a process may die before writing it."""
        try:
            with open_regular(self.path(run_id), MAX_STREAMED_BYTES) as file:
                return file.readline().endswith(b"\n")
        except (OSError, TraceError):  # or the file there is not a log
            return False

    def ids(self) -> list[str]:
        """Return the ids of all runs, oldest first."""
        return sorted(name.removesuffix(_ENDING) for name in self._log_names())

    def log_files(self) -> list[str]:
        """Return the paths of all logs, sorted by name."""
        return [self._prefix + name for name in sorted(self._log_names())]

    def _log_names(self) -> list[str]:
        try:
            return [name for name in os.listdir(self.folder) if name.endswith(_ENDING)]  # noqa: PTH208  # no Path for each
        except OSError:  # the folder does not exist, or may not be read
            return []

    def find(self, part: str) -> str:
        """Return the id that equals, begins with or ends with ``part``; raises `StoreError` if none or several match.

        ``part`` may contain the ellipsis with which lists shorten ids.
        """
        ids, bare = self.ids(), bare_id(part)
        matches = (
            [bare] if bare in ids else [run_id for run_id in ids if bare and (run_id.startswith(bare) or run_id.endswith(bare))]
        )
        if len(matches) != 1:
            is_path = bool(Path(part).suffix) or len(Path(part).parts) > 1
            missing = f"There is no file {part}" if is_path else f"There is no run {part!r} in {self.shown_folder}"
            if matches:
                raise StoreError(f"{len(matches):,} runs match {part!r}", f"Give the id of one:{self._lines(matches)}")
            raise StoreError(missing, suggest_names(part, ids[::-1]) or LIST_RUNS)
        return matches[0]

    def _lines(self, ids: list[str]) -> str:
        """Return the newest of these runs with their prompts, each on a line to append."""
        lines = list[str]()
        for run_id in ids[: -MAX_MATCHES - 1 : -1]:
            prompt = ""
            with suppress(OSError, TraceError):
                prompt = on_one_line(_summary(self.path(run_id)).prompt[:100])
            lines.append(f"{run_id}  {prompt}".rstrip())
        more = [f"and {len(ids) - len(lines):,} more"] if len(ids) > len(lines) else []
        return "".join([f"\n  {line}" for line in [*lines, *more]])

    def load(self, run_id: str) -> Run:
        """Return the run with this id, or with this unambiguous part of an id. If its process died, its status is
        ``interrupted``.

        In the folder of an unfinished experiment, this counts as a look.
        """
        note_look(self.folder)
        run = load_file(self.path(self.find(run_id)))
        run.set_labels(assessments_in(self.folder).get(run.id, ()))
        return run

    def size(self, run_id: str) -> int:
        """Return the total bytes of this run's log and before-images; 0 if the log does not exist."""
        try:
            return self.path(run_id).stat().st_size + folder_of_run(self.folder, run_id).size
        except OSError:
            return 0

    def delete(self, run_id: str, nested: Iterable[str] = ()) -> int:
        """Delete the log and before-images of a run that no process is writing, and those of the ``nested`` runs;
        return the bytes freed.

        Raises `StoreError` if it is live or cannot be deleted.
        """
        path = self.path(run_id)
        try:
            return delete_log(path, [self.path(nested_id) for nested_id in nested])
        except BlockingIOError as error:
            raise StoreError(f"Run {run_id} is running", "Stop it first") from error
        except OSError as error:
            raise StoreError(f"{path} cannot be deleted: {error.strerror or error}", LIST_RUNS) from error

    def summaries(self, most: int | None = None) -> list[RunSummary]:
        """Return summaries of the newest runs, newest first, without folding their logs. Files that are not run logs
        are skipped.

        The status of a log without an end is ``running`` while a run is writing it, ``waiting_on_user`` if the run is
        suspended, and otherwise ``interrupted``.
        """
        return list(islice(self.each_summary(), most))

    def each_summary(self, left_out: list[str] | None = None) -> Iterator[RunSummary]:
        """Yield the same summaries as `summaries`, reading each file only when it is needed.

        The names of files that are not run logs are appended to ``left_out``. If there are many logs, their summaries
        are cached alongside them, so that only new and changed logs are read the next time. In the folder of an
        unfinished experiment, this counts as a look.
        """
        note_look(self.folder)
        holders, cache, ids = Holders(), KnownSummaries(self.folder), self.ids()
        labels = assessments_in(self.folder)
        try:
            for run_id in reversed(ids):
                try:
                    path = self._path(run_id)
                    status = os.stat(path)  # noqa: PTH116  # before it is read: a log may grow at any time
                    stamp = Stamp.of(status)
                    summary = cache.get(run_id, stamp)
                    if summary is None:
                        summary = _summary_now(path, holders, status)
                        cache.add(run_id, stamp, summary)
                except (TraceError, OSError):
                    if left_out is not None:
                        left_out.append(f"{run_id}.jsonl")
                    continue
                assessments = labels.get(summary.id)
                yield summary if assessments is None else replace(summary, assessment=deciding_assessment(assessments))
        finally:
            cache.save(ids)

    def summary(self, run_id: str) -> RunSummary:
        """Return the summary of the run with this id, or with this unambiguous part of an id."""
        path = self.path(self.find(run_id))
        try:
            return _summary(path)
        except OSError as error:
            raise StoreError(f"{path} cannot be read: {error.strerror or error}", LIST_RUNS) from error

    @property
    def shown_folder(self) -> str:
        """The folder, relative to the current one if inside it, so that no absolute paths get into saved notebooks."""
        current = Path.cwd()
        return str(self.folder.relative_to(current) if self.folder.is_relative_to(current) else self.folder)

    def __repr__(self) -> str:
        return f"Store({str(self.folder)!r})"


def bare_id(part: str) -> str:
    """Remove the ellipsis with which lists shorten ids."""
    return part.strip("….")


def _checked_folder(folder: str | Path) -> Path:
    """Return the folder's absolute path; raises `StoreError` for an invalid name."""
    try:
        path = Path(folder).expanduser().absolute()
        if b"\0" in os.fsencode(path):
            raise ValueError("it contains an invalid character")
    except (ValueError, RuntimeError) as error:
        raise StoreError(f"{str(folder)!a} cannot be a folder of runs: {error}", "Name another: Store('runs')") from None
    return path


def _summary(path: str | Path, status: os.stat_result | None = None) -> RunSummary:
    if status is not None and status.st_size < SMALL:
        summary = summary_of_data(read_beginning(path, MAX_STREAMED_BYTES, status))
        if summary is not None:
            return summary
    with open_regular(path, MAX_STREAMED_BYTES, status) as file:
        return log_summary(file, is_being_written)


def _summary_now(path: str, holders: Holders, status: os.stat_result) -> RunSummary:
    """Return the summary of a log, even of a nested log that a live run holds."""
    summary = _summary(path, status)
    if not _is_torn(summary):
        return summary
    held = holders.hold(Path(path), summary.parent_id, summary.started_at)
    return replace(summary, status="running", stop_reason="running") if held else _summary(path)


def _is_torn(found: RunSummary) -> bool:
    """Return whether this is the log of a nested run that has no end and no lock of its own."""
    return found.parent_id is not None and found.stop_reason == "interrupted"


def _check_parents(path: Path) -> None:
    """Raise BlockingIOError if a live process holds this nested log through the log of its top-level run."""
    try:
        summary = _summary(path)
    except TraceError:  # reported when the whole log is read
        return
    if _is_torn(summary) and Holders().hold(path, summary.parent_id, summary.started_at):
        raise BlockingIOError(errno.EWOULDBLOCK, "Its parent run is running")


def _run_of(events: list[AnyEvent], source: str, fold: Fold[AnyRun]) -> AnyRun:
    """Return the run of these events; raises `TraceError` if they are invalid or too deeply nested."""
    try:
        check_events(events, source)
        return fold(events)
    except RecursionError as error:
        raise TooDeep(source) from error


def _check_resumable(run: Run) -> None:
    """Raise `SettingsError` if the run has ended."""
    if not run.should_continue:
        problem = f"Run {run.id} has ended ({run.stop_reason}): there is nothing to recover"
        raise SettingsError(problem, how_to_continue(run, stored=run.id))


def _where_logs_are(path: Path) -> Advised:
    """Return advice on where else the log may be. ``path``: the path that was tried; it may be the id of a run."""
    if _MADE_ID.fullmatch(path.name):
        return f"Refer to a run by its file: .agentnb/runs/{path.name}.jsonl"
    return (LIST_RUNS, Plain("Logs are in .agentnb/runs, beside the notebook, after its first run"))


def unreadable(path: Path, error: OSError) -> StoreError:
    """Return the error for a file that cannot be read. If the file is missing, the error says where logs are."""
    hint = _where_logs_are(path) if isinstance(error, FileNotFoundError) else LIST_RUNS
    return StoreError(f"{path} cannot be read: {error.strerror or error}", hint)


def load_file(path: Path) -> Run:
    """Return the run of a log file; raises `StoreError` if it cannot be read, `TraceError` if it is not a log."""
    try:
        with open_regular(path, MAX_STREAMED_BYTES) as file:
            return _load(file, path, Run.from_events)
    except OSError as error:
        raise unreadable(path, error) from None


def load_if_log(path: str | Path, fold: Fold[AnyRun]) -> AnyRun | None:
    """Return the run in a file that begins like a log. Return None for any other file, or if the log cannot be read for any
    reason.

    Opens the file only once. ``fold``: folds its events into a run, as `Run.from_events` does.
    """
    try:
        with open_regular(path, MAX_STREAMED_BYTES) as file:
            if not file.peek(len(LOG_BEGINS)).startswith(LOG_BEGINS):
                return None
            return _load(file, path, fold)
    except (OSError, TraceError):
        return None


def load_small_logs(paths: Iterable[str], fold: Fold[AnyRun]) -> Iterator[AnyRun | None]:
    """Yield `load_if_log` of each file if that is a small log of a run that has ended, otherwise None.

    Each step is done for several files in a row, since its code is then still in the processor's cache: many thousand logs
    take a fifth less time.
    """
    remaining = iter(paths)
    while block := [*islice(remaining, FILES_AT_ONCE)]:
        runs: list[Any] = block
        for step in (_small_log, decode_log, _checked, lambda events, path: fold(events), _ended):
            runs = [None if run is None else _attempt(step, run, path) for run, path in zip(runs, block, strict=True)]
        yield from runs


def _attempt(step: Callable[[T, str], U], value: T, path: str) -> U | None:
    try:
        return step(value, path)
    except (OSError, TraceError, RecursionError):  # raised again when the log is read by itself
        return None


def _small_log(path: str, _: str) -> bytes | None:
    data = read_beginning(path, MAX_STREAMED_BYTES)
    return data if len(data) < SMALL and data.startswith(LOG_BEGINS) else None


def _checked(events: list[AnyEvent], path: str) -> list[AnyEvent]:
    check_events(events, path)
    return events


def _ended(run: AnyRun, path: str) -> AnyRun | None:
    return None if run.should_continue else _with_consent(run, path)


def _load(file: BufferedReader, path: str | Path, fold: Fold[AnyRun]) -> AnyRun:
    source = str(path)
    run = _run_of(_events_in(file, source), source, fold)
    if run.should_continue:
        is_live = is_being_written(file) or (
            run.parent_id is not None and Holders().hold(Path(path), run.parent_id, run.started_at)
        )
        if not is_live:  # by now it has its end, unless it was cut off
            file.seek(0)
            run = _run_of(_events_in(file, source), source, fold)
            run.mark_interrupted()
    return _with_consent(run, path)


def _with_consent(run: AnyRun, path: str | Path) -> AnyRun:
    """Return the run, which decides on its consent by the log at this path."""
    if isinstance(run, Run):
        run.set_consent(partial(is_own, path))
    return run


def _events_in(file: BinaryIO, source: str) -> list[AnyEvent]:
    size = os.fstat(file.fileno()).st_size
    if size > MAX_HELD_BYTES:
        return _events_of_large(file, source)
    data = file.read(size)
    check_log(data, source)
    return decode_log(data, source)


def _events_of_large(file: BinaryIO, source: str) -> list[AnyEvent]:
    """Return the events of an earlier version's log that is too large for memory, truncated as they are in new logs."""
    size = 0

    def keep(event: AnyEvent, line: bytes) -> AnyEvent:
        nonlocal size
        most = max_event_bytes(size)
        size += min(len(line), most)
        return event if len(line) <= most else cut_event(event, most)

    return decode_lines(checked_lines(file, source), source, keep)
