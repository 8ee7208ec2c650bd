"""The process of an agent: its own session and guard, its pipes, and the end of what it says on standard error."""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO

from agentnb.acp import guard
from agentnb.settings import values_of

MAX_LINE_BYTES = 50 * 2**20
"""The longest message of an agent: whole files lie in them."""
KEPT_OF_STDERR = 2_000
"""Bytes of standard error that an error shows."""
SECONDS_TO_END = 1.0
"""Time for the guard to end all processes of an agent."""
PASSED = ("HOME", "PATH", "LANG", "LC_ALL", "TERM", "USER", "LOGNAME", "SHELL", "TMPDIR")
"""Variables that every agent gets. Keys are in none of them."""


class AgentProcess:
    """A running agent. ``stdin`` and ``stdout`` carry its messages."""

    def __init__(
        self, guarded: asyncio.subprocess.Process, lifeline: int, stderr: IO[bytes], reader: asyncio.StreamReader
    ) -> None:
        assert guarded.stdin is not None, "it is a pipe"
        self._guarded, self._lifeline, self._stderr = guarded, lifeline, stderr
        self.writer, self.reader = guarded.stdin, reader

    @classmethod
    async def start(cls, command: Sequence[str], work_dir: Path, env: Mapping[str, str]) -> AgentProcess:
        """Start the command below a guard, which ends it with the kernel. Raises OSError."""
        lifeline, held = os.pipe()
        stderr = tempfile.TemporaryFile()  # noqa: SIM115  # closed with the process
        try:
            guarded = await asyncio.create_subprocess_exec(
                *(sys.executable, "-I", "-S", guard.__file__, str(lifeline), *command),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=stderr,
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
        assert guarded.stdout is not None, "it is a pipe"
        return cls(guarded, held, stderr, guarded.stdout)

    def stderr_end(self) -> str:
        """Return the end of what it wrote to standard error."""
        size = self._stderr.seek(0, os.SEEK_END)
        self._stderr.seek(max(0, size - KEPT_OF_STDERR))
        return self._stderr.read().decode(errors="replace").strip()

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
