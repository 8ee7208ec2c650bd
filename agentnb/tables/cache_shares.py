"""Shares of a large folder's files, which processes read into parts of its table cache.

A worker is a new interpreter that is given names and finds the table itself: one of ``multiprocessing`` would run the main
module of a script, and a fork would break a notebook's threads.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, NamedTuple

import msgspec

from agentnb.interchange.files import SourceFile
from agentnb.tables.cache_parts import Part

SHARE_BYTES = 50_000_000
"""Minimum bytes of files for each process: half a second, which is also how long a worker takes to start."""
MAX_PROCESSES = 4
"""Including the process that asks, since each may take 150 MB of memory."""
_PROGRAM = "import sys; question = sys.stdin.buffer.read(); from agentnb.tables.cache_worker import answer; answer(question)"
"""Reads before it imports, since the process that asks waits meanwhile."""


class Share(NamedTuple):
    """Files to be read for the cache of a table."""

    home: Path
    kind: str
    table: str
    made_by: str
    files: Sequence[SourceFile]
    secrets: Sequence[str]
    """The known keys, which the worker redacts too."""


class Worker(NamedTuple):
    """A worker process and the file with its answer."""

    process: subprocess.Popen[bytes]
    answer: IO[bytes]

    def take_parts(self) -> list[Part] | None:
        """Wait for the parts. Returns None if the worker failed."""
        if self.process.wait() != 0:
            return None
        self.answer.seek(0)
        return msgspec.json.decode(self.answer.read(), type=list[Part])


def split_files(sizes: Mapping[str, int]) -> list[list[str]]:
    """Split files into consecutive shares of about equal bytes, one for each process that is worth starting."""
    total = sum(sizes.values())
    cores: int = getattr(os, "process_cpu_count", os.cpu_count)() or 1
    shares: list[list[str]] = [[] for _ in range(max(1, min(cores, MAX_PROCESSES, total // SHARE_BYTES)))]
    before = 0
    for name, size in sizes.items():
        shares[min(before * len(shares) // (total or 1), len(shares) - 1)].append(name)
        before += size
    return shares


@contextmanager
def start_workers(shares: Sequence[Share]) -> Iterator[list[Worker]]:
    """Start a worker for each share, or for fewer if the system allows no more; stop those still running at the end."""
    workers: list[Worker] = []
    with ExitStack() as stack:
        with suppress(OSError):
            for share in shares:
                answer = stack.enter_context(TemporaryFile())  # unlike a pipe, it holds everything
                # -P: a module in the current folder must not replace an installed one.
                command = [sys.executable, "-P", "-c", _PROGRAM]
                process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=answer, stderr=subprocess.DEVNULL)
                stack.enter_context(process)
                stack.callback(process.kill)
                assert process.stdin is not None, "it is a pipe"
                with process.stdin as question:
                    question.write(pickle.dumps(share))
                workers.append(Worker(process, answer))
        yield workers
