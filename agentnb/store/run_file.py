"""The log of one run on disk."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import sleep
from typing import BinaryIO
from weakref import WeakValueDictionary

from agentnb.core.forks import after_fork
from agentnb.core.log.event_bounds import check_event
from agentnb.core.log.events import AnyEvent, RoundFinished, RunEnd, RunRecovered
from agentnb.core.log.stores import FileBefore
from agentnb.core.log.wire import decode_lines, encode
from agentnb.store.before_images.images import folder_of_run
from agentnb.store.before_images.keeping import BeforeImages
from agentnb.store.own_logs import LogMarks, log_marks
from agentnb.store.regular_files import BINARY, check_file

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]  # it is a module or None

_sync = getattr(os, "fdatasync", os.fsync)
APPEND = os.O_APPEND | BINARY
STDERR = "stderr.txt"
CREATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | APPEND
ENDS = frozenset({RoundFinished, *RunEnd.__args__})
ATTEMPTS, PAUSE = 50, 0.005
"""Number of attempts to lock a log that others are reading, and seconds between attempts."""


def is_being_written(file: BinaryIO) -> bool:
    """Return whether a live run, in this process or another, holds this log. Always False on Windows, where this cannot be
    determined.
    """
    if fcntl is None:
        return False  # type: ignore[unreachable]  # reached on Windows
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return False
    fcntl.flock(file, fcntl.LOCK_UN)
    return False


def lock(descriptor: int) -> bool:
    """Lock a new log for this process; return False on file systems without locks."""
    if fcntl is None:
        return False  # type: ignore[unreachable]  # reached on Windows
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # a reader's lock is released at once
    except OSError:  # a file system without locks
        return False
    return True


def try_lock(descriptor: int) -> bool:
    """Lock a file for this process; return False if another process holds it, and True on file systems without locks."""
    if fcntl is None:
        return True  # type: ignore[unreachable]  # reached on Windows
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks
        return True
    return True


def _lock_of_a_dead_process(descriptor: int) -> bool:
    """Lock the log of a dead process, waiting for short reads by others; return False on file systems without locks.

    Raises `BlockingIOError` if a process is writing it.
    """
    if fcntl is None:
        return False  # type: ignore[unreachable]  # reached on Windows
    for _ in range(ATTEMPTS):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # raises if the holder is a writer
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            sleep(PAUSE)
        except OSError:  # a file system without locks
            return False
        else:
            return True
    raise BlockingIOError(errno.EWOULDBLOCK, "It is constantly being read")


def delete_log(path: str | Path, nested: Iterable[str | Path] = ()) -> int:
    """Delete a log that no process is writing, after the ``nested`` logs that its lock covers; return their total size in
    bytes.

    The before-images of each are deleted too. Raises OSError, such as BlockingIOError if a process is writing it.
    """
    descriptor = os.open(path, os.O_RDWR | BINARY)
    try:
        is_locked = _lock_of_a_dead_process(descriptor)
        freed = os.fstat(descriptor).st_size + sum(map(delete_log, nested))
        freed += folder_of_run(Path(path).parent, Path(path).stem).delete()
        if is_locked:
            Path(path).unlink()
    finally:
        os.close(descriptor)
    if not is_locked:  # Windows deletes no open file
        Path(path).unlink()
    return freed


@contextmanager
def held_still(paths: Iterable[str | Path]) -> Iterator[None]:
    """Prevent logs that no process is writing from being resumed during the block, on file systems with locks.

    Raises OSError, such as BlockingIOError if a process is writing one.
    """
    with ExitStack() as stack:
        for path in paths:
            descriptor = os.open(path, os.O_RDWR | BINARY)
            stack.callback(os.close, descriptor)
            _lock_of_a_dead_process(descriptor)
        yield


def _close_in_child() -> None:
    """Release our locks in a process that a tool forked; otherwise, our runs would seem live after this process has died."""
    global _holding  # noqa: PLW0603  # a lock that another thread held cannot be released here
    _holding = threading.Lock()
    for file in {*_holders.values()}:
        os.close(file._descriptor)
        file._open = False
    _holders.clear()


after_fork(_close_in_child)


class LogFile:
    """The log of a run, together with the private folder of its before-images and the standard error of its programs."""

    path: str | Path
    _open: bool
    _sync_rounds: bool
    _images: BeforeImages | None = None

    def keep_before(self, file: FileBefore) -> None:
        """Back up a file before a call of the run changes it. Thread-safe; raises OSError on failure."""
        if not self._open:
            raise OSError(errno.EBADF, f"{self.path} was closed")
        with _holding:
            images = self._images = self._images or BeforeImages(self.path, sync=self._sync_rounds)
        images.keep(file)

    def keep_stderr(self, lines: bytes) -> Path:
        """Append lines of a program's standard error to a file beside the log; return its path. Raises OSError."""
        path = Path(self.path)
        folder = folder_of_run(path.parent, path.stem)
        folder.make()
        folder.append(STDERR, lines)
        return folder.path / STDERR


class RunFile(LogFile):
    """Appends events to the log of one run, one write per event, so that each survives the death of the process.

    With ``sync_rounds``, each round is also forced to disk, so that it survives a crash of the machine.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        sync_rounds: bool = False,
        on_close: Callable[[], None] | None = None,
        opened: int | None = None,
        is_locked: bool = True,
        marks: LogMarks | None = None,
        is_own: bool = True,
    ) -> None:
        """Create the file, which must not exist; or continue the ``opened`` file, which ends with a complete event.

        ``is_locked``: whether the opened file is locked; if not, each event is written only if nothing else has
        changed the file. ``marks``: marks of the opened file's lines; ``is_own``: whether the person's agentnb wrote
        those lines.
        """
        self.path = path
        if opened is None:
            opened = os.open(path, CREATE, 0o600)
            is_locked = lock(opened)
            marks = log_marks()
        self.is_locked = is_locked
        self.is_own = is_own
        """True if the person's agentnb wrote the complete log."""
        self._marks = marks if is_own else None
        self._later_marks = None if is_own else marks
        """Marks for a log from elsewhere, written starting with the `RunRecovered` that records the person's decision."""
        self._descriptor = opened
        self._size = os.fstat(opened).st_size
        self._sync_rounds = sync_rounds
        self._on_close = on_close
        self._open = True
        self._nested = 0
        """Number of open nested logs that this one's lock covers."""
        _holders[str(path)] = self

    @classmethod
    def reopen(cls, path: str | Path, *, sync_rounds: bool = False) -> tuple[RunFile, list[AnyEvent]]:
        """Reopen an interrupted run's file for appending, dropping a torn last line; return it and its events.

        Raises OSError, such as BlockingIOError if a process is writing it, or `TraceError` if it is not a log.
        """
        check_file(Path(path).stat(), path)  # otherwise opening a pipe would wait
        descriptor = os.open(path, os.O_RDWR | APPEND)
        try:
            is_locked = _lock_of_a_dead_process(descriptor)
            with open(descriptor, "rb", closefd=False) as file:
                lines = file.readlines()
            events = decode_lines(lines, str(path))
            whole = lines[: len(events)]
            os.ftruncate(descriptor, sum(map(len, whole)))
            if not whole[-1].endswith(b"\n"):  # torn right before its line end
                os.write(descriptor, b"\n")
            marks = log_marks()
            is_own = marks is not None and marks.read(whole)
            run_file = cls(path, sync_rounds=sync_rounds, opened=descriptor, is_locked=is_locked, marks=marks, is_own=is_own)
            return run_file, events
        except BaseException:
            os.close(descriptor)
            raise

    @property
    def size(self) -> int:
        """Bytes of the log so far."""
        return self._size

    def append(self, event: AnyEvent) -> None:
        """Write the event. On failure, the file ends with the previous event, and OSError is raised.

        Raises `EventTooLarge` for an event that has to be truncated first.
        """
        if not self._open:  # its descriptor may belong to another file by now
            raise OSError(errno.EBADF, f"{self.path} was closed")
        if not self.is_locked:
            check_size(self._descriptor, self.path, self._size)
        if self._later_marks is not None and type(event) is RunRecovered and event.consent:
            self._marks, self._later_marks = self._later_marks, None
        self._size += write_event(self._descriptor, event, self._size, self.path, self._sync_rounds, self._marks)
        if self._later_marks is not None:
            self._later_marks.read((encode(event),))

    def close(self) -> None:
        """Close the file; its lock is kept until the nested logs are closed too. No-op the second time."""
        if self._open:
            self._open = False
            with _holding:
                if not self._nested:
                    self._let_go()
            if self._on_close is not None:
                self._on_close()

    def _let_go(self) -> None:
        if _holders.get(str(self.path)) is self:
            del _holders[str(self.path)]
        os.close(self._descriptor)


def write_event(
    descriptor: int, event: AnyEvent, size: int, path: str | Path, sync_rounds: bool, marks: LogMarks | None
) -> int:
    """Append the event to a log of ``size`` bytes and return the event's length; on failure, the log stays unchanged.

    Raises `EventTooLarge`, and OSError if the log was deleted (before the next call at the latest) or, at the end of a
    round, if something else has changed it. If ``sync_rounds`` is set, the end of a round is forced to disk.
    """
    data = encode(event)
    check_event(event, len(data), size)
    state = b""
    if marks is not None:
        data, state = marks.add_mark(data)
    ends = type(event) in ENDS
    done = 0
    try:
        done = os.write(descriptor, data)
        while done < len(data):
            done += os.write(descriptor, data[done:])
        if ends and sync_rounds:
            _sync(descriptor)
    except OSError:
        if done:
            os.ftruncate(descriptor, size)
        raise
    if marks is not None:
        marks.state = state
    # After each event, looking would take as long as writing.
    if ends or not (event.is_followed or os.fstat(descriptor).st_nlink):
        _check_in_place(descriptor, path, size + done)
    return done


def check_size(descriptor: int, path: str | Path, size: int) -> os.stat_result:
    """Raise OSError if the log does not have this size, for example because another process has resumed the run."""
    own = os.fstat(descriptor)
    if own.st_size != size:
        raise OSError(errno.EIO, f"something else has changed it: it is {own.st_size} bytes long instead of {size}", str(path))
    return own


def _check_in_place(descriptor: int, path: str | Path, size: int) -> None:
    """Raise OSError if the log was deleted, replaced or changed by something else. A log that was moved is complete
    in its new place.
    """
    # Writes to a file that was removed from its path succeed, but nobody would read them.
    own = check_size(descriptor, path, size)
    try:
        there = os.stat(path)  # noqa: PTH116  # in every round: making a Path takes longer than the rest
    except FileNotFoundError:
        if not own.st_nlink:
            raise FileNotFoundError(errno.ENOENT, "it was deleted", str(path)) from None
    else:
        if own.st_ino and there.st_ino and not os.path.samestat(own, there):  # not all file systems number their files
            raise OSError(errno.EIO, "another file was put in its place", str(path))


_holders: WeakValueDictionary[str, RunFile] = WeakValueDictionary()
"""Open locked logs of this process, by path, and also by the paths of the nested logs that their locks cover."""
_holding = threading.Lock()


def hold(parent: str, nested: str) -> RunFile | None:
    """Return the log whose lock covers a ``nested`` one: that of its parent run, or of the parent's own parent.

    Returns None if this process has no such log open.
    """
    with _holding:
        holder = _holders.get(parent)
        if holder is None:
            return None
        holder._nested += 1
        _holders[nested] = holder
        return holder


def release(holder: RunFile, nested: str) -> None:
    """Record that the ``nested`` log has been closed."""
    with _holding:
        _holders.pop(nested, None)
        holder._nested -= 1
        if not (holder._nested or holder._open):
            holder._let_go()
