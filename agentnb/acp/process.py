"""The process of an agent: its own session and guard, its pipes, and the end of what it says on standard error."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from agentnb.acp import guard
from agentnb.settings import values_of
from agentnb.tools.mcp.connections.stderr_tail import StderrTail

MAX_LINE_BYTES = 50 * 2**20
"""The longest message of an agent: whole files lie in them."""
SECONDS_TO_END = 1.0
"""Time for the guard to end all processes of an agent."""
PASSED = ("HOME", "PATH", "LANG", "LC_ALL", "TERM", "USER", "LOGNAME", "SHELL", "TMPDIR")
"""Variables that every agent gets. Keys are in none of them."""


def guard_words(lifeline: int) -> tuple[str, ...]:
    """Return the words before a command that run it below a guard. ``lifeline``: the descriptor that the guard watches."""
    return (sys.executable, "-I", "-S", guard.__file__, str(lifeline))


class WholeLines:
    """A reader that gives up on a line longer than its limit, which the SDK would collect without end."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    async def readuntil(self, separator: bytes) -> bytes:
        """Return the next line. Raises ConnectionError."""
        try:
            return await self._reader.readuntil(separator)
        except asyncio.LimitOverrunError as error:
            raise ConnectionError(f"it sent a message of more than {MAX_LINE_BYTES:,} bytes") from error


class AgentProcess:
    """A running agent. ``stdin`` and ``stdout`` carry its messages."""

    def __init__(self, guarded: asyncio.subprocess.Process, lifeline: int, stderr: StderrTail) -> None:
        assert guarded.stdin is not None and guarded.stdout is not None, "they are pipes"
        self._guarded, self._lifeline, self._stderr = guarded, lifeline, stderr
        self.writer, self.reader = guarded.stdin, WholeLines(guarded.stdout)

    @classmethod
    async def start(cls, command: Sequence[str], work_dir: Path, env: Mapping[str, str]) -> AgentProcess:
        """Start the command below a guard, which ends it with the kernel. Raises OSError."""
        lifeline, held = os.pipe()
        stderr = StderrTail()
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
        stderr.writer.close()  # the program has it: the pipe ends with the program
        return cls(guarded, held, stderr)

    def last_line(self) -> str:
        """Return the last line that it wrote to standard error; empty if it wrote none."""
        self._stderr.take()
        return next((line for line in reversed(self._stderr.lines) if line.strip()), "")

    async def end(self) -> None:
        """End it and all that it began, and wait for that."""
        if self._lifeline < 0:
            return
        os.close(self._lifeline)
        self._lifeline = -1
        try:
            with suppress(TimeoutError):  # the guard goes on by itself
                await asyncio.wait_for(self._guarded.wait(), SECONDS_TO_END)
        finally:
            self._stderr.close()
