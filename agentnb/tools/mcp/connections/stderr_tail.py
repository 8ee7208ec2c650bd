"""Standard error of a program, with known keys redacted: its end, and optionally a file."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TextIO

from agentnb.core.messages import visible
from agentnb.core.redaction import StreamRedactor, redact
from agentnb.settings import known_secrets

MAX_LINES = 40
MAX_LINE_CHARACTERS = 500
_PIPE_BYTES = 65_536
"""Bytes that a pipe buffers, and maximum bytes kept."""
MAX_FILE_BYTES = 1_000_000
"""Maximum bytes for the file; then only the last lines are added."""


class StderrTail:
    """Reads a program's standard error on the running event loop and keeps its end."""

    file: Path | None = None
    """The file with its lines, once it has one."""

    def __init__(self, append: Callable[[bytes], Path] | None = None) -> None:
        """``append``: appends lines to the file, and returns its path; raises OSError."""
        self._append, self._unfiled, self._space = append, b"", MAX_FILE_BYTES
        self._redactor, self._held = StreamRedactor(), ""
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
        lines = [visible(line) for line in self._end.decode(errors="replace").splitlines()]
        if len(self._end) == _PIPE_BYTES:
            lines = lines[1:] or lines  # a truncated first line may begin inside a key
        text = redact("\n".join(lines), known_secrets())
        return tuple([line[:MAX_LINE_CHARACTERS] for line in text.splitlines()[-MAX_LINES:]])

    def close(self) -> None:
        """Read the remaining bytes and close the pipe. Call this on the event loop."""
        self.take()
        if len(self._unfiled) > _PIPE_BYTES and self._space < 0:
            self._unfiled = b"[...]\n" + self._unfiled.partition(b"\n")[2]
        self._write(self._unfiled, is_last=True)
        self._append = None
        self._loop.remove_reader(self._read)
        os.close(self._read)
        self.writer.close()

    def take(self) -> None:
        """Read the bytes available now. Call this on the event loop."""
        with suppress(BlockingIOError):
            if chunk := os.read(self._read, _PIPE_BYTES):
                self._end = (self._end + chunk)[-_PIPE_BYTES:]
                if self._append is not None:
                    self._take_lines(chunk)
            else:
                self._loop.remove_reader(self._read)

    def _take_lines(self, chunk: bytes) -> None:
        """Write whole lines to the file, since a key may come in two chunks."""
        self._space -= len(chunk)
        self._unfiled += chunk
        if self._space < 0:
            self._unfiled = self._unfiled[-_PIPE_BYTES - 1 :]  # one byte more shows that some are missing
        else:
            lines, _, self._unfiled = self._unfiled.rpartition(b"\n")
            self._write(lines)

    def _write(self, lines: bytes, *, is_last: bool = False) -> None:
        """Append to the file all lines that cannot be part of an incomplete key; a key may span lines."""
        if self._append is None:
            return
        text = "".join([f"{visible(line)}\n" for line in lines.decode(errors="replace").splitlines()])
        self._held += self._redactor.feed(text, known_secrets()) + (self._redactor.rest(known_secrets()) if is_last else "")
        whole, end, self._held = self._held.rpartition("\n")
        if end:
            with suppress(OSError):  # the end is still kept
                self.file = self._append(f"{whole}\n".encode())
