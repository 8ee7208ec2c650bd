"""The folder of an experiment: the log of each run, one row per finished cell, and the frozen plan."""

from __future__ import annotations

import os
import threading
from collections.abc import Container, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import msgspec
from msgspec.structs import replace

from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, SettingsError, StoreError
from agentnb.experiments.planning.content_hash import content_hash
from agentnb.experiments.planning.judge_verdicts import Verdicts
from agentnb.experiments.results.rows import LOST, Row
from agentnb.personal_files import replace_file
from agentnb.store.check_values import COVER, ROWS, note_look
from agentnb.store.run_file import is_being_written, try_lock
from agentnb.store.store import Store, load_file

FOLDER = Path(".agentnb") / "experiments"
"""Default parent folder of experiments, relative to the folder in which they are started."""
PLAN, LOCK, CUT = "experiment.plan", "experiment.lock", "cut"
"""Names within the folder, without the suffix of traces, so that the folder can be read like any folder of runs."""

PLANNED = "planned"
"""Kind of note about an extension made before the first run."""
LOOK = "look"
"""Kind of note about a planned look."""
DAMAGED = "Restore a copy of it, or give the experiment another folder; the logs in this one can still be read"
NO_ROOM = "Free disk space or make it writable; then run again to complete the missing runs"
RUNS_ALREADY = "Wait until it ends or stop it, then run again"


class Note(msgspec.Struct, frozen=True, omit_defaults=True):
    """An event that all results report: a deviation from the frozen plan, a retry, or a look before the end."""

    kind: str
    """``extended``, ``retried``, ``looked`` or ``budget``; for planned events, ``look``, or ``planned`` (extended before the
    first run).
    """
    text: str
    at: datetime | None = None
    keys: tuple[str, ...] = ()
    """Keys of the affected cells."""


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """The plan, frozen when the first run (other than a pilot run) started, with later notes."""

    id: str
    hash: str
    """Hash of everything that is frozen: primary, arms, checks, exclusions, tasks, models, repeats and seeds."""
    frozen: dict[str, Any]
    begun_at: datetime | None = None
    notes: tuple[Note, ...] = ()
    schema: int = 1
    versions: dict[str, str] = {}
    """Versions of Python and packages when the plan was frozen; empty in plans from earlier versions."""


class Memory:
    """The records of an experiment that exists only in memory."""

    store: None = None

    def __init__(self) -> None:
        self.verdicts = Verdicts()
        self._plan: Plan | None = None
        self._attempts: list[Row] = []
        self._runs: dict[str, Run] = {}
        self._looked_at: datetime | None = None
        self._is_covered = True
        self._lock = threading.Lock()

    def plan(self) -> Plan | None:
        """Return the frozen plan, or None before the first run."""
        return self._plan

    def keep_plan(self, plan: Plan) -> None:
        """Replace the plan."""
        self._plan = plan

    def cover(self, is_covered: bool) -> None:
        """Start or stop recording looks at the runs."""
        self._is_covered = is_covered

    def looked_at(self) -> datetime | None:
        """Return the time of the first look at a run since the last call, or None if there was none."""
        looked, self._looked_at = self._looked_at, None
        return looked

    def rows(self) -> dict[str, Row]:
        """Return the most recent row of each cell, by key."""
        return last_of_each(self._attempts)

    def attempts(self) -> list[Row]:
        """Return the rows of all attempts, ordered by when they ended."""
        return [*self._attempts]

    def add(self, row: Row, run: Run | None = None) -> None:
        """Store the row of a cell, and its run."""
        self._attempts.append(row)
        if run is not None:
            self._runs[run.id] = run

    def run(self, run_id: str) -> Run:
        """Return a run; raises `StoreError` if it was not stored."""
        if run_id not in self._runs:
            raise StoreError(f"Run {run_id} was not stored", "Give the experiment a folder")
        if self._is_covered:
            self._looked_at = self._looked_at or datetime.now(UTC)
        return self._runs[run_id]

    @property
    def is_running(self) -> bool:
        """True while the experiment is running."""
        return self._lock.locked()

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Hold the lock while the experiment runs; raises `SettingsError` if it is already held."""
        if not self._lock.acquire(blocking=False):
            raise SettingsError("The experiment is already running", RUNS_ALREADY)
        try:
            yield
        finally:
            self._lock.release()

    def __repr__(self) -> str:
        return "in memory"


class ExperimentFolder:
    """The records of an experiment in a folder. Each row is appended in a single write, so that it survives the death of the
    process.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.store = Store(path)
        self.verdicts = Verdicts(path)
        self._descriptor: int | None = None

    def plan(self) -> Plan | None:
        """Return the frozen plan, or None before the first run. Raises `StoreError` if it is damaged."""
        if (data := self._read(PLAN)) is None:
            return None
        text, _, seal = data.rpartition(b"\n")
        if data.rstrip().endswith(b"}"):  # written by an earlier version, without a seal
            text, seal = data, _seal(data)
        try:
            if seal != _seal(text):
                raise ValueError("its checksum does not match")
            return msgspec.json.decode(text, type=Plan)
        except ValueError as error:
            raise StoreError(f"{self.path / PLAN} is damaged: {error}", DAMAGED) from error

    def keep_plan(self, plan: Plan) -> None:
        """Replace the plan atomically."""
        self._prepare()
        beside, text = self.path / f"{PLAN}.new", msgspec.json.format(msgspec.json.encode(plan))
        with self._writing(PLAN):
            beside.write_bytes(text + b"\n" + _seal(text))
            beside.replace(self.path / PLAN)

    def cover(self, is_covered: bool) -> None:
        """Start or stop recording looks at the runs."""
        with self._writing(COVER):
            if is_covered:
                (self.path / COVER).touch()
            else:
                (self.path / COVER).unlink(missing_ok=True)

    def looked_at(self) -> datetime | None:
        """Return the time of the first look at the runs since the last call, or None if there was none."""
        if not (data := self._read(COVER)):
            return None
        with self._writing(COVER):
            (self.path / COVER).write_bytes(b"")
        try:
            return datetime.fromisoformat(data.decode())
        except ValueError:  # damaged
            return datetime.now(UTC)

    def rows(self) -> dict[str, Row]:
        """Return the most recent row of each cell, by key, ignoring a truncated last line."""
        return last_of_each(self.attempts())

    def attempts(self) -> list[Row]:
        """Return the rows of all attempts, ordered by when they ended."""
        rows: list[Row] = []
        decoder = msgspec.json.Decoder(Row)
        for line in (self._read(ROWS) or b"").split(b"\n"):
            if line:
                with suppress(ValueError):  # truncated or damaged: the cell has its log, or is run again
                    rows.append(decoder.decode(line))
        return rows

    def add_log(self, run_id: str, data: bytes) -> None:
        """Write the log of a run from another process, atomically."""
        path = self.store.path(run_id)
        with self._writing(path.name):
            replace_file(path, data)

    def add(self, row: Row, run: Run | None = None) -> None:
        """Append the row of a cell, whose run has its own log."""
        line = msgspec.json.encode(row) + b"\n"
        with self._writing(ROWS):
            if self._descriptor is None:
                self._prepare()
                self._descriptor = os.open(self.path / ROWS, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
                if os.fstat(self._descriptor).st_size:
                    os.lseek(self._descriptor, -1, os.SEEK_END)
                    if os.read(self._descriptor, 1) != b"\n":
                        line = b"\n" + line  # after a truncated line
            while line:  # the disk may have room for a part: writing the remainder raises
                line = line[os.write(self._descriptor, line) :]

    def run(self, run_id: str) -> Run:
        """Return a run from its log, even that of an interrupted attempt. Before the end of the experiment, this counts as a
        look.
        """
        aside = self._aside(run_id)
        if aside.exists():
            note_look(self.path)
            return load_file(aside)
        return self.store.load(run_id)

    def put_aside(self, run_ids: Iterable[str], top_level: Container[str] = ()) -> None:
        """Move the logs of runs and of their nested runs to the folder ``cut``, which tables skip.

        ``top_level``: runs known not to be nested.
        """
        moved = {*run_ids}
        if not moved:
            return
        first = min(moved)
        for run_id in self.store.ids():  # nested runs begin after their parent, and ids begin with the time
            if run_id > first and run_id not in top_level and self._parent_of(run_id) in moved:
                moved.add(run_id)
        with self._writing(CUT):
            (self.path / CUT).mkdir(exist_ok=True)
            for run_id in moved:
                path = self.store.path(run_id)
                with suppress(FileNotFoundError):  # moved by an earlier process
                    path.replace(self._aside(run_id))

    def _aside(self, run_id: str) -> Path:
        return self.path / CUT / f"{self.store.path(run_id).name}.cut"

    def _parent_of(self, run_id: str) -> str | None:
        try:
            return self.store.summary(run_id).parent_id
        except AgentnbError:
            return None

    @property
    def is_running(self) -> bool:
        """True while the experiment is known to be running, in this process or another."""
        with suppress(OSError), (self.path / LOCK).open("rb") as file:
            return is_being_written(file)
        return False

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Lock the folder for this process; raises `SettingsError` if the experiment is already running."""
        self._prepare()
        with self._writing(LOCK):
            descriptor = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        if not try_lock(descriptor):
            os.close(descriptor)
            raise SettingsError(f"The experiment in {self.path} is already running, here or in another process", RUNS_ALREADY)
        try:
            yield
        finally:
            os.close(descriptor)
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None

    def _read(self, name: str) -> bytes | None:
        """Return the content of a file in the folder, or None if it is missing. Raises `StoreError`."""
        try:
            return (self.path / name).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StoreError(f"{self.path / name} cannot be read: {error.strerror or error}", DAMAGED) from error

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        """Raise `StoreError` if a file in the folder cannot be written."""
        try:
            yield
        except StoreError:
            raise
        except OSError as error:
            raise StoreError(f"{self.path / name} cannot be written: {error.strerror or error}", NO_ROOM) from error

    def _prepare(self) -> None:
        try:
            self.store.prepare()
        except OSError as error:
            raise StoreError(f"{self.path} cannot be created: {error.strerror or error}", "Choose another folder") from error

    def __repr__(self) -> str:
        return str(self.path)


def last_of_each(attempts: Iterable[Row]) -> dict[str, Row]:
    """Return the most recent row of each cell, by key, ignoring lost attempts."""
    return {row.key: row for row in attempts if row.status != LOST}


Records: TypeAlias = ExperimentFolder | Memory
"""The storage for an experiment's plan, rows and logs."""


def _seal(text: bytes) -> bytes:
    """Return the checksum that is the last line of a plan's file."""
    return content_hash(text).encode()


def add_note(plan: Plan, kind: str, text: str, keys: tuple[str, ...] = ()) -> Plan:
    """Return the plan with another note."""
    return replace(plan, notes=(*plan.notes, Note(kind, text, datetime.now(UTC), keys)))
