"""Git processes: each in its own process group, limited in time and output, and ended with the call."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

from agentnb.tools.builtin.shell.bounded_output import BoundedOutput, Bounds
from agentnb.tools.builtin.shell.process_tree import descendants_of, process_text
from agentnb.tools.defaults import GIT_SECONDS
from agentnb.tools.tool import ToolRefused

LOOK_SECONDS = 0.3
"""Seconds between checks for a process that waits for the writer of a named pipe."""
FIFO_WAIT = "wait_for_partner"
"""Linux kernel function that waits when a named pipe is opened."""
SECONDS_TO_CLEAN_UP = 2.0
"""Seconds for git to remove its lock files before it is killed."""
MAX_ERROR_BYTES = 4_000
WAITS = "git was stopped: one of its files, such as .gitignore, is a named pipe (FIFO)."


WHOLE = Bounds(32_000_000)
"""Limit on output that is parsed; more is an error."""


class ProcessResult(NamedTuple):
    """Exit code and output of a finished process."""

    code: int
    output: BoundedOutput
    error: str


async def run_process(
    command: Sequence[str | bytes],
    folder: Path,
    environment: Mapping[str, str],
    stdin: bytes = b"",
    bounds: Bounds = WHOLE,
    seconds: float = GIT_SECONDS,
) -> ProcessResult:
    """Run a command to completion. Ends its process group at the time limit and when the call is cancelled.

    Raises `ToolRefused` at the time limit, for a process that waits for a named pipe, and if it cannot be started.
    """
    process = await _start(command, folder, environment)
    output, error_output = BoundedOutput(bounds), BoundedOutput(Bounds(MAX_ERROR_BYTES))
    work = asyncio.gather(
        _feed(process, stdin), _keep(process.stdout, output), _keep(process.stderr, error_output), process.wait()
    )
    try:
        async with asyncio.timeout(seconds):
            while not (await asyncio.wait([work], timeout=LOOK_SECONDS))[0]:
                if _waits_for_pipe(process.pid):
                    raise ToolRefused("git_error", WAITS, "Work without git, or ask the person to remove it.")
            *_, code = work.result()
    except TimeoutError:
        raise ToolRefused(
            "timeout",
            f"git did not finish within {seconds:g} seconds and was stopped.",
            "Narrow the request, for example to one folder.",
        ) from None
    finally:
        await _end_group(process)
        with suppress(TimeoutError, asyncio.CancelledError):  # its pipes close at their end
            await asyncio.wait_for(work, SECONDS_TO_CLEAN_UP)
    return ProcessResult(code, output, error_output.head.decode(errors="replace").strip())


async def _start(command: Sequence[str | bytes], folder: Path, environment: Mapping[str, str]) -> asyncio.subprocess.Process:
    """Start a process. On cancellation, end its entire group; asyncio would end only the process."""
    starting = asyncio.ensure_future(
        asyncio.create_subprocess_exec(
            *_death_signal_prefix(),
            *command,
            cwd=folder,
            env=environment,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
        )
    )
    try:
        return await asyncio.shield(starting)
    except OSError as error:
        raise ToolRefused("git_error", f"git could not be started: {error}") from error
    except asyncio.CancelledError:
        with suppress(OSError):
            await _end_group(await starting)
        raise


@cache
def _death_signal_prefix() -> tuple[str, ...]:
    """Return a command prefix that makes the command end when this process does; empty if the system has no such program."""
    words = (shutil.which("setpriv", path=os.defpath) or "", "--pdeathsig", "KILL", "--")
    with suppress(OSError, subprocess.SubprocessError):
        subprocess.run([*words, "true"], capture_output=True, check=True, timeout=SECONDS_TO_CLEAN_UP)
        return words
    return ()


def _waits_for_pipe(process: int) -> bool:
    """True if git, or a process started by it, waits for the writer of a named pipe."""
    return any(process_text(f"{number}/wchan") == FIFO_WAIT for number in (process, *descendants_of(process)))


async def _feed(process: asyncio.subprocess.Process, data: bytes) -> None:
    if process.stdin is None:
        return
    with suppress(BrokenPipeError, ConnectionResetError):  # git has ended without reading it
        process.stdin.write(data)
        await process.stdin.drain()
    process.stdin.close()


async def _keep(stream: asyncio.StreamReader | None, output: BoundedOutput) -> None:
    while stream is not None and (chunk := await stream.read(65_536)):
        output.add(chunk)


async def _end_group(process: asyncio.subprocess.Process) -> None:
    """End the process group: first with SIGTERM, so that git removes its lock files, then with SIGKILL."""
    if process.returncode is None:
        _signal_group(process.pid, signal.SIGTERM)
        with suppress(TimeoutError):
            await asyncio.wait_for(process.wait(), SECONDS_TO_CLEAN_UP)
    _signal_group(process.pid, signal.SIGKILL)
    if process.returncode is None:
        await process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
