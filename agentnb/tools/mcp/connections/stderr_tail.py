"""End of a program's standard error, with known keys redacted."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from typing import TextIO

from agentnb.core.messages import visible
from agentnb.core.redaction import redact
from agentnb.settings import known_secrets

MAX_LINES = 40
MAX_LINE_CHARACTERS = 500
_PIPE_BYTES = 65_536
"""Bytes that a pipe buffers, and maximum bytes kept."""


class StderrTail:
    """Reads a program's standard error on the running event loop and keeps its end."""

    def __init__(self) -> None:
        self._end = b""
        self._read, write = os.pipe()
        os.set_blocking(self._read, False)
        self.writer: TextIO = os.fdopen(write, "w")
        """Standard error of the program."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._read, self.take)

    @property
    def lines(self) -> tuple[str, ...]:
        """Last lines, with known keys and control characters removed."""
        lines = self._end.decode(errors="replace").splitlines()
        if len(self._end) == _PIPE_BYTES:
            lines = lines[1:] or lines  # a truncated first line may begin inside a key
        lines = lines[-MAX_LINES:]
        return tuple([redact(visible(line), known_secrets())[:MAX_LINE_CHARACTERS] for line in lines])

    def close(self) -> None:
        """Read the remaining bytes and close the pipe. Call this on the event loop."""
        self.take()
        self._loop.remove_reader(self._read)
        os.close(self._read)
        self.writer.close()

    def take(self) -> None:
        """Read the bytes available now. Call this on the event loop."""
        with suppress(BlockingIOError):
            if chunk := os.read(self._read, _PIPE_BYTES):
                self._end = (self._end + chunk)[-_PIPE_BYTES:]
            else:
                self._loop.remove_reader(self._read)
