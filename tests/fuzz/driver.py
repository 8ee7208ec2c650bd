"""The fuzzer: makes damaged and hostile files by the thousand, and counts what becomes of them.

    python tests/fuzz/driver.py traces --files 10000
    python tests/fuzz/driver.py traces --seed 1234 --files 1 --keep /tmp/made      makes file 1234 again, and keeps it

Each file is made of its seed alone, and checked by a worker process that is killed at a limit and replaced. A target is a
module of this folder, which satisfies `Target`.
"""

from __future__ import annotations

import argparse
import multiprocessing
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from random import Random
from typing import Literal, NamedTuple, Protocol, TypeAlias

import psutil

FOLDER = str(Path(__file__).parent)
if FOLDER not in sys.path:
    sys.path.insert(0, FOLDER)
MAX_SECONDS = 10.0
"""Seconds of processor time that one file may take."""
MAX_WAITED_SECONDS = 60.0
"""Seconds on the clock in which a worker uses next to no processor: it waits for a pipe or a lock, perhaps for ever."""
MIN_SECONDS = 0.1
"""Seconds of processor time that a worker which does not wait gets in that time, also on a very busy machine."""
MAX_BYTES = 1_000_000_000
"""Memory that a worker may hold, all libraries included."""
POLL_SECONDS = 0.05
FILES_PER_WORKER = 1_000
"""Files after which a worker is replaced, so that what a file leaves behind does not count against others for long."""
Verdict: TypeAlias = Literal["read", "refused", "silent", "foreign", "hang", "memory", "died"]
"""``read``, ``refused``: as it should be. ``silent``: it was read, and nothing in it, and nothing says so. ``foreign``: an
exception that is not agentnb's. ``died``: the worker ended."""
FAILURES: tuple[Verdict, ...] = ("silent", "foreign", "hang", "memory", "died")


class Silent(Exception):
    """Raised by a target's ``check`` for a file that is read as nothing, without a word."""


class Target(Protocol):
    """A module that makes one kind of files and checks them."""

    def write(self, random: Random, folder: Path) -> Path:
        """Write a file into the empty folder, by this generator alone, and return the path to read."""

    def check(self, path: Path) -> bool:
        """Do everything that can be done with the file. Return False if it was refused with an error of agentnb's.

        Raises `Silent`, or whatever the code under test raises that it should not.
        """


class Result(NamedTuple):
    """Outcome of one file."""

    seed: int
    verdict: Verdict
    detail: str = ""
    seconds: float = 0.0
    """Of processor time."""
    peak_bytes: int = 0


def target_named(name: str) -> Target:
    """Return the module of this folder."""
    return import_module(name)  # type: ignore[return-value]


def random_of(name: str, seed: int) -> Random:
    """Return the generator of one file, the same in every process."""
    return Random(f"{name} {seed}")


def check_file(target: Target, name: str, seed: int, folder: Path) -> Result:
    """Make the file of a seed in an empty folder and check it, in this process."""
    began = time.process_time()
    try:
        path = target.write(random_of(name, seed), folder)
        _reset_peak()
        began = time.process_time()
        verdict: Verdict = "read" if target.check(path) else "refused"
        detail = ""
    except (Silent, MemoryError, Exception) as error:
        verdict = "silent" if isinstance(error, Silent) else "memory" if isinstance(error, MemoryError) else "foreign"
        detail = str(error) if isinstance(error, Silent) else _last_lines(error)
    return Result(seed, verdict, detail, time.process_time() - began)


def _last_lines(error: BaseException) -> str:
    frames = [f"{Path(frame.filename).name}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(error.__traceback__)]
    return f"{type(error).__name__}: {str(error)[:200]!a} at {' < '.join(frames[-5:][::-1])}"


# Worker processes


def _work(connection: Connection, name: str) -> None:
    """Check one file after the other, in a folder of its own each."""
    target = target_named(name)
    for seed in _received(connection):
        with tempfile.TemporaryDirectory(prefix="agentnb-fuzz-") as folder:
            result = check_file(target, name, seed, Path(folder))
        connection.send(result._replace(peak_bytes=_peak_bytes()))


def _received(connection: Connection) -> Iterator[int]:
    """Yield the seeds that are sent until the connection is closed."""
    while True:
        try:
            yield connection.recv()
        except EOFError:
            return


def _reset_peak() -> None:
    """Have Linux count the peak anew; elsewhere it is only polled."""
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak_bytes() -> int:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1_024 for line in lines if line.startswith("VmHWM:")), 0)


class Idle:
    """The time on the clock since a process last used the processor for more than a moment."""

    def __init__(self, used: float, now: float) -> None:
        """``used``: seconds of processor time so far; ``now``: seconds of a clock."""
        self._used, self._since = used, now

    def clock_seconds(self, used: float, now: float) -> float:
        """Return the seconds in which it has used less than `MIN_SECONDS` of processor time."""
        if used - self._used >= MIN_SECONDS:
            self._used, self._since = used, now
        return now - self._since


class Worker:
    """A process that checks files, its current file, and what that has used so far."""

    def __init__(self, name: str) -> None:
        kind = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
        context = multiprocessing.get_context(kind)
        if kind == "forkserver":
            context.set_forkserver_preload([name])
        self.connection, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, name), daemon=True)
        self._process.start()
        theirs.close()
        self._usage = psutil.Process(self._process.pid)
        self.seed = -1
        self.files = 0
        self._began_seconds = 0.0
        self._idle = Idle(0.0, 0.0)

    def begin(self, seed: int) -> None:
        """Check the file of this seed."""
        self.seed, self.files = seed, self.files + 1
        self._began_seconds = self._seconds()
        self._idle = Idle(self._began_seconds, time.monotonic())
        self.connection.send(seed)

    def _seconds(self) -> float:
        used = self._usage.cpu_times()
        return float(used.user + used.system)

    def result(self) -> Result | None:
        """Return the outcome of the file; or None during a check within the limits."""
        try:
            if self.connection.poll():
                result: Result = self.connection.recv()
                return result._replace(verdict=_limited(result))
            used, held = self._seconds(), self._usage.memory_info().rss
        except (EOFError, OSError, psutil.Error):
            return Result(self.seed, "died", "The process ended")
        seconds, waited = used - self._began_seconds, self._idle.clock_seconds(used, time.monotonic())
        if seconds > MAX_SECONDS or waited > MAX_WAITED_SECONDS:
            return Result(self.seed, "hang", f"{seconds:.0f} s of processor, then waited {waited:.0f} s", seconds, held)
        if held > MAX_BYTES:
            return Result(self.seed, "memory", f"{held / 1e6:,.0f} MB", seconds, held)
        return None

    def end(self) -> None:
        """End the process, whatever it is doing."""
        self.connection.close()
        self._process.kill()
        self._process.join()


def _limited(result: Result) -> Verdict:
    if result.verdict in FAILURES:
        return result.verdict
    return "hang" if result.seconds > MAX_SECONDS else "memory" if result.peak_bytes > MAX_BYTES else result.verdict


def run_files(name: str, seeds: range, workers: int, report: Callable[[Result], None]) -> Counter[str]:
    """Check the files of these seeds with so many processes; return how many came to which verdict."""
    counts: Counter[str] = Counter()
    left = iter(seeds)
    busy: list[Worker] = []
    try:
        for _, seed in zip(range(workers), left, strict=False):
            busy.append(_begun(None, name, seed))
        while busy:
            wait([worker.connection for worker in busy], POLL_SECONDS)
            for worker in busy.copy():
                result = worker.result()
                if result is None:
                    continue
                busy.remove(worker)
                counts[result.verdict] += 1
                report(result)
                seed = next(left, -1)
                is_usable = result.verdict not in ("hang", "memory", "died") and worker.files < FILES_PER_WORKER
                if not is_usable or seed < 0:
                    worker.end()
                if seed >= 0:
                    busy.append(_begun(worker if is_usable else None, name, seed))
    finally:
        for worker in busy:
            worker.end()
    return counts


def _begun(worker: Worker | None, name: str, seed: int) -> Worker:
    worker = worker or Worker(name)
    worker.begin(seed)
    return worker


# The command


def run_command(arguments: argparse.Namespace) -> bool:
    """Check the files, print each failure and at the end the counts; return whether there was a failure."""
    results: list[Result] = []
    again = f"python tests/fuzz/driver.py {arguments.target} --files 1 --keep made --seed"

    def report(result: Result) -> None:
        results.append(result)
        if result.verdict in FAILURES:
            print(f"{result.verdict}: {result.detail}\n    again: {again} {result.seed}", flush=True)
        if len(results) % 1_000 == 0:
            print(f"{len(results):,} of {arguments.files:,} files", flush=True)

    if arguments.keep is not None:
        target = target_named(arguments.target)
        for seed in range(arguments.seed, arguments.seed + arguments.files):
            folder = arguments.keep / str(seed)
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            print(f"{seed}: {target.write(random_of(arguments.target, seed), folder)}")
    seeds = range(arguments.seed, arguments.seed + arguments.files)
    began = time.monotonic()
    counts = run_files(arguments.target, seeds, arguments.workers, report)
    slowest = max(results, key=lambda result: result.seconds)
    largest = max(results, key=lambda result: result.peak_bytes)
    told = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in ("read", "refused", *FAILURES))
    print(
        f"{arguments.target}: {len(results):,} files from seed {arguments.seed} in {time.monotonic() - began:.0f} s: {told}; "
        f"slowest {slowest.seconds:.1f} s (seed {slowest.seed}), "
        f"largest {largest.peak_bytes / 1e6:,.0f} MB (seed {largest.seed})"
    )
    return any(counts[verdict] for verdict in FAILURES)


def main() -> int:
    """Run the command; return 1 if any file failed."""
    parser = argparse.ArgumentParser(description="Check damaged and hostile files by the thousand.")
    parser.add_argument("target", help="traces or workflows: a module of tests/fuzz")
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=None, help="of the first file; by default that of the day")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--keep", type=Path, default=None, help="a folder in which the files are kept")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = int(time.time() // 86_400) * 100_000
    return int(run_command(arguments))


if __name__ == "__main__":
    sys.exit(import_module("driver").main())  # what crosses between processes is of that module in all of them
