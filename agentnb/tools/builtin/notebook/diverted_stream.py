"""Wrapper for standard output and error that diverts part of the text."""

from __future__ import annotations

import os
from collections.abc import Callable
from io import TextIOBase
from typing import Any


class DivertedStream(TextIOBase):
    """Stream wrapper that offers all text to a function, and writes what the function rejects to the wrapped stream."""

    def __init__(self, stream: Any, take: Callable[[str], bool]) -> None:
        self.stream = stream
        """The wrapped stream."""
        self._take = take
        self._process = os.getpid()

    def write(self, text: str) -> int:
        """Pass the text to the function, or write it to the stream if the function rejects it."""
        # A forked process has a copy of the function, invisible to this process.
        if type(text) is not str or os.getpid() != self._process or not self._take(text):
            self.stream.write(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write several strings."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the stream."""
        self.stream.flush()

    def close(self) -> None:
        """Do nothing: the stream belongs to the kernel."""

    def writable(self) -> bool:
        """Return True."""
        return True

    def isatty(self) -> bool:
        """True if the stream is a terminal."""
        return bool(self.stream.isatty())

    def fileno(self) -> int:
        """Return the file descriptor of the stream, used by other processes."""
        return int(self.stream.fileno())

    @property
    def encoding(self) -> str:  # type: ignore[override]  # read-only
        """The encoding of the stream."""
        return str(self.stream.encoding)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
