"""The process of an agent: its session and guard, its pipes, and its standard error."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agentnb.acp import guard
from agentnb.settings import values_of
from agentnb.tools.mcp.connections.stderr_tail import StderrTail

MAX_LINE_BYTES = 50 * 2**20
"""Maximum size of a message, which may contain complete files."""
SECONDS_TO_EXIT = 0.5
"""Seconds that an agent has to exit by itself after its last turn."""
PASSED = ("HOME", "PATH", "LANG", "LC_ALL", "TERM", "USER", "LOGNAME", "SHELL", "TMPDIR")
"""Environment variables, without keys, that every agent receives."""


def guard_words(lifeline: int) -> tuple[str, ...]:
    """Return the command prefix that runs a command under a guard. ``lifeline``: file descriptor that the guard watches."""
    return (sys.executable, "-I", "-S", guard.__file__, str(lifeline))


class WholeLines:
    """Reader that limits the length of lines, where the SDK would buffer without limit."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def readuntil(self, separator: bytes) -> bytes:
        """Return the next line. Raises ConnectionError."""
        try:
            return await self._reader.readuntil(separator)
        except asyncio.LimitOverrunError as error:
            raise ConnectionError(f"it sent a message of more than {MAX_LINE_BYTES:,} bytes") from error


class AgentProcess:
    """A running agent, and its messages on ``stdin`` and ``stdout``."""

    def __init__(self, guarded: asyncio.subprocess.Process, lifeline: int, stderr: StderrTail) -> None:
        assert guarded.stdin is not None and guarded.stdout is not None, "they are pipes"
        self._guarded, self._lifeline, self._stderr = guarded, lifeline, stderr
        self.writer, self.reader = guarded.stdin, WholeLines(guarded.stdout)
        self.guard_id = guarded.pid
        """Process id of the guard, the ancestor of all of the agent's processes."""

    @classmethod
    async def start(
        cls,
        command: Sequence[str],
        work_dir: Path,
        env: Mapping[str, str],
        keep_stderr: Callable[[bytes], Path] | None = None,
    ) -> AgentProcess:
        """Start the command under a guard that ends it when the kernel ends. Raises OSError.

        ``keep_stderr``: appends redacted lines of standard error to a file, and returns its path.
        """
        lifeline, held = os.pipe()
        stderr = StderrTail(keep_stderr)
        try:
            guarded = await asyncio.create_subprocess_exec(
                *(*guard_words(lifeline), *command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr.writer,
                cwd=work_dir,
                env={**values_of(PASSED), **env},
                pass_fds=(lifeline,),
                start_new_session=True,
                limit=MAX_LINE_BYTES,
            )
        except BaseException:
            os.close(held)
            stderr.close()
            raise
        finally:
            os.close(lifeline)
        stderr.writer.close()  # inherited by the program: the pipe ends with it
        return cls(guarded, held, stderr)

    def last_line(self) -> str:
        """Return the last line of standard error that contains a letter, and the file with more, or "". (Node errors end
        with a bracket.)
        """
        self._stderr.take()
        line = next((line for line in reversed(self._stderr.lines) if any(map(str.isalpha, line))), "")
        return f"{line} (more in {self._stderr.file})" if line and self._stderr.file is not None else line

    async def exit(self) -> None:
        """Let the process exit by itself: it may still be storing its conversation, which a later run loads."""
        with suppress(OSError):  # including TimeoutError
            self.writer.close()
            await asyncio.wait_for(self._guarded.wait(), SECONDS_TO_EXIT)

    async def end(self, until: float) -> None:
        """End the process and all its descendants, and wait for them to exit, at most until this time of the event loop."""
        if self._lifeline < 0:
            return
        os.close(self._lifeline)
        self._lifeline = -1
        try:
            with suppress(TimeoutError):  # the guard continues on its own
                async with asyncio.timeout_at(until):
                    await self._guarded.wait()
        finally:
            self._stderr.close()
