"""Worker processes that read files and send back only the results.

They are new interpreters on all systems (``spawn``), because a notebook's process has threads, which a fork would break.
"""

from __future__ import annotations

import pickle
import signal
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any, TypeAlias

from agentnb.detect.run import Run
from agentnb.errors import AgentnbError, SettingsError
from agentnb.interchange.files import SourceFile
from agentnb.store.folder_cache import stamp_of

BATCH_BYTES = 2_000_000
"""Bytes of files in a worker's batch, which take some tenths of a second. A larger file is a batch of its own."""
BATCH_FILES = 256
BATCHES_AHEAD = 3
"""Number of batches to read ahead for each process."""

ReadFiles: TypeAlias = Callable[[Sequence[SourceFile]], Any]
"""Reads files in a worker process, which sends back the result."""
Waiting: TypeAlias = "deque[Run | Future[Any]]"


def results_of(parts: Iterable[Run | SourceFile], read: ReadFiles, processes: int) -> Iterator[Any]:
    """Yield the runs among these parts and the results of ``read`` for batches of the files between them, in order.

    Reads only a little ahead, so that pending results fit in memory. Raises `SettingsError` if ``read`` cannot be sent to a
    worker, and `AgentnbError` if a worker dies; errors in ``read`` propagate.
    """
    job = _pickle_job(read)
    waiting: Waiting = deque()
    pool = ProcessPoolExecutor(processes, get_context("spawn"), _begin, (job,))
    is_done = False
    try:
        for part in batch_files(parts):
            waiting.append(part if isinstance(part, Run) else pool.submit(_do, part))
            while len(waiting) >= BATCHES_AHEAD * processes:
                yield _next(waiting)
        while waiting:
            yield _next(waiting)
        is_done = True
    except BrokenProcessPool as error:
        raise AgentnbError(
            "A worker process ended before its work was done",
            "In a script, call it under: if __name__ == '__main__':. If memory ran out, use fewer processes",
        ) from error
    finally:
        pool.shutdown(wait=is_done, cancel_futures=True)  # do not wait for a large file after an interrupt


def batch_files(parts: Iterable[Run | SourceFile]) -> Iterator[Run | list[SourceFile]]:
    """Yield the runs, and the files between them as batches."""
    batch: list[SourceFile] = []
    size = 0
    for part in parts:
        if isinstance(part, Run):
            if batch:
                yield batch
            yield part
            batch, size = [], 0
            continue
        stamp = stamp_of(part.name)
        batch.append(part)
        size += stamp.size if stamp is not None else 0
        if size >= BATCH_BYTES or len(batch) >= BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _next(waiting: Waiting) -> Any:
    first = waiting.popleft()
    return first if isinstance(first, Run) else first.result()


def _pickle_job(read: ReadFiles) -> bytes:
    """Pickle the job for the workers. Raises `SettingsError` if any part of it cannot be imported by name.

    If cloudpickle is installed, functions defined in a notebook are sent with their code.
    """
    try:
        if find_spec("cloudpickle") is None:
            return pickle.dumps(read)
        import cloudpickle

        return bytes(cloudpickle.dumps(read))
    except Exception as error:  # methods of the object may raise anything
        raise _unreachable(str(error)) from error


def _unreachable(why: str) -> SettingsError:
    return SettingsError(
        f"A detector cannot be sent to worker processes: {why}",
        "Define it at the top level of a module and import it; or pip install cloudpickle; or leave out processes=",
    )


# In a worker

_jobs: list[ReadFiles | SettingsError] = []
"""The job of this worker process, if any."""


def _begin(job: bytes) -> None:
    """Load the job. Errors are reported with the first files, because an error here would merely end the worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a notebook's interrupt reaches all processes: the parent handles it
    try:
        _jobs.append(pickle.loads(job))
    except Exception as error:
        _jobs.append(_unreachable(str(error)))


def _do(files: Sequence[SourceFile]) -> Any:
    (job,) = _jobs
    if isinstance(job, SettingsError):
        raise job
    try:
        return job(files)
    except Exception as error:
        if not _can_travel(error):
            raise RuntimeError(f"{type(error).__name__}: {error}") from None
        raise


def _can_travel(error: Exception) -> bool:
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return False
    return True
