"""The end of what the program of an MCP server writes to its standard error."""

from __future__ import annotations

import asyncio
import os
from collections import deque
from contextlib import suppress
from typing import TextIO

from agentnb.core.messages import visible
from agentnb.core.redaction import redact
from agentnb.settings import known_secrets

MAX_LINES = 40
MAX_LINE_CHARACTERS = 500
_CHUNK_BYTES = 65_536


class StderrTail:
    """Reads a program's standard error on the running event loop and keeps its last lines."""

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=MAX_LINES)
        self._rest = b""
        self._read, write = os.pipe()
        os.set_blocking(self._read, False)
        self.writer: TextIO = os.fdopen(write, "w")
        """The standard error of the program."""
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._read, self._take)

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines, without known keys and control characters."""
        rest = (self._rest.decode(errors="replace"),) if self._rest.strip() else ()
        return tuple([redact(visible(line), known_secrets())[:MAX_LINE_CHARACTERS] for line in (*self._lines, *rest)])

    def close(self) -> None:
        """Read what is left and close the pipe. On the event loop."""
        self._take()
        if self._read >= 0:
            self._loop.remove_reader(self._read)
            os.close(self._read)
            self._read = -1
        with suppress(OSError):
            self.writer.close()

    def _take(self) -> None:
        while self._read >= 0:
            try:
                chunk = os.read(self._read, _CHUNK_BYTES)
            except BlockingIOError:
                return
            except OSError:
                chunk = b""
            if not chunk:
                self._loop.remove_reader(self._read)
                return
            *lines, self._rest = (self._rest + chunk).split(b"\n")
            self._rest = self._rest[-_CHUNK_BYTES:]
            self._lines.extend(line.decode(errors="replace") for line in lines)
