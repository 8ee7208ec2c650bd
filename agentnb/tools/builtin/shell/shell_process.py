"""Runs programs in their own process group, with limited output, and kills them with all their children at the end."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from agentnb.tools.builtin.shell.bounded_output import BoundedOutput
from agentnb.tools.builtin.shell.process_tree import descendants_of, holders_of

CHUNK_BYTES = 65_536
MAX_DRAINED_BYTES = 16 * CHUNK_BYTES
"""Maximum number of bytes read from a stream after the program ended: more than a pipe buffers."""
KILL_SECONDS = 1.0
"""Maximum seconds to wait for killed processes to exit."""
KILL_ROUNDS = 100


@dataclass(frozen=True)
class ProcessResult:
    """Result of a program. ``exit_code``: negative signal number for a program ended by a signal, None for a timeout."""

    exit_code: int | None
    output: str
    errors: str


async def run_process(
    words: Sequence[str],
    *,
    folder: Path,
    variables: Mapping[str, str],
    seconds: float,
    descriptors: Sequence[int] = (),
    kept: BoundedOutput | None = None,
) -> ProcessResult:
    """Run a program with a time limit, and kill all processes that it started.

    ``descriptors``: further file descriptors that the program inherits. ``kept``: buffer for output and errors as they arrive;
    the result then contains both as its output. Raises `OSError` or `ValueError` if the program cannot start.
    """
    loop = asyncio.get_running_loop()
    with ExitStack() as stack:
        lifeline = _Lifeline(stack)
        stderr = subprocess.PIPE if kept is None else subprocess.STDOUT
        process = _start(words, folder, variables, stderr, (lifeline.inherited, *descriptors))
        lifeline.close_inherited()
        assert process.stdout is not None
        output = _Stream(process.stdout, loop, stack, kept or BoundedOutput())
        errors = output if process.stderr is None else _Stream(process.stderr, loop, stack, BoundedOutput())
        ended: asyncio.Future[bool] = loop.create_future()
        _watch_end(process, ended, stack)
        if seconds < math.inf:
            stack.callback(loop.call_later(seconds, _settle, ended, False).cancel)
        try:
            is_over = not await ended
        finally:
            _kill(process)
            output.drain()
            errors.drain()
            if process.poll() is None or not (lifeline.is_cut() and output.is_at_end and errors.is_at_end):
                await _kill_rest(process, (lifeline.number, output.number, errors.number))
        output.drain()
        errors.drain()
        text_of_errors = "" if errors is output else errors.kept.text
        return ProcessResult(None if is_over else process.returncode, output.kept.text, text_of_errors)


def _start(
    words: Sequence[str], folder: Path, variables: Mapping[str, str], stderr: int, descriptors: Sequence[int]
) -> subprocess.Popen[bytes]:
    """Start a program in its own group within a millisecond; asyncio takes longer."""
    is_apart = _has_terminal()
    return subprocess.Popen(
        words,
        cwd=folder,
        env=variables,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        bufsize=0,
        start_new_session=is_apart,
        process_group=None if is_apart else 0,
        pass_fds=descriptors,
    )


class _Lifeline:
    """A pipe that all processes of a program inherit: it reaches end of file once none of them has it open."""

    def __init__(self, stack: ExitStack) -> None:
        self._own, self.inherited = os.pipe()
        self._is_open = True
        os.set_blocking(self._own, False)
        stack.callback(os.close, self._own)
        stack.callback(self.close_inherited)

    def close_inherited(self) -> None:
        """Close this process's copy of the inherited end."""
        if self._is_open:
            self._is_open = False
            os.close(self.inherited)

    @property
    def number(self) -> int:
        """Inode that identifies holders of the pipe."""
        return os.fstat(self._own).st_ino

    def is_cut(self) -> bool:
        """True if no process has the other end open."""
        try:
            while os.read(self._own, CHUNK_BYTES):
                pass
        except BlockingIOError:
            return False
        return True


class _Stream:
    """An output stream of a program, read as it arrives."""

    def __init__(self, pipe: IO[bytes], loop: asyncio.AbstractEventLoop, stack: ExitStack, kept: BoundedOutput) -> None:
        self._descriptor, self._loop = stack.enter_context(pipe).fileno(), loop
        self.number = os.fstat(self._descriptor).st_ino
        self.kept = kept
        self.is_at_end = False
        os.set_blocking(self._descriptor, False)
        loop.add_reader(self._descriptor, self._read)
        stack.callback(loop.remove_reader, self._descriptor)

    def _read(self) -> int:
        try:
            data = os.read(self._descriptor, CHUNK_BYTES)
        except BlockingIOError:
            return 0
        self.kept.add(data)
        if not data:
            self.is_at_end = True
            self._loop.remove_reader(self._descriptor)
        return len(data)

    def drain(self) -> None:
        """Read the remaining bytes of the pipe, even if a process still has it open."""
        total = 0
        while not self.is_at_end and total < MAX_DRAINED_BYTES and (size := self._read()):
            total += size


def _watch_end(process: subprocess.Popen[bytes], ended: asyncio.Future[bool], stack: ExitStack) -> None:
    """Settle the future when the process has ended, without reaping it: its process id stays reserved."""
    loop = ended.get_loop()
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # not Linux, or not permitted
        threading.Thread(target=_wait_and_settle, args=(process, ended), daemon=True).start()
        return
    stack.callback(os.close, descriptor)
    loop.add_reader(descriptor, _settle, ended, True)
    stack.callback(loop.remove_reader, descriptor)


def _settle(future: asyncio.Future[bool], value: bool) -> None:
    if not future.done():
        future.set_result(value)


def _wait_and_settle(process: subprocess.Popen[bytes], ended: asyncio.Future[bool]) -> None:
    if hasattr(os, "waitid"):
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    else:
        process.wait()
    with suppress(RuntimeError):  # the loop is closed
        ended.get_loop().call_soon_threadsafe(_settle, ended, True)


def _has_terminal() -> bool:
    """True if a program could prompt on the terminal of this process, and wait there forever.

    The program then needs its own session, which starts late on a busy machine; otherwise a process group suffices.
    """
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process, its group and its descendants."""
    others = descendants_of(process.pid)
    with suppress(ProcessLookupError, PermissionError):  # all have ended
        os.killpg(process.pid, signal.SIGKILL)
    _kill_all(others)


async def _kill_rest(process: subprocess.Popen[bytes], pipes: Collection[int]) -> None:
    """Kill processes that left the group but still have an inherited pipe open, even on cancellation."""
    await asyncio.shield(asyncio.to_thread(_kill_holders, process, pipes))


def _kill_holders(process: subprocess.Popen[bytes], pipes: Collection[int]) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(KILL_SECONDS)
    for _ in range(KILL_ROUNDS):
        holders = holders_of(pipes)
        if not holders:
            return
        _kill_all(holders)
        time.sleep(KILL_SECONDS / KILL_ROUNDS)


def _kill_all(numbers: Collection[int]) -> None:
    for number in numbers:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(number, signal.SIGKILL)
