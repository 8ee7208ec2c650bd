"""Streams in front of standard output and error that keep some of what is written, and pass everything else on."""

from __future__ import annotations

import os
from collections.abc import Callable
from io import TextIOBase
from typing import Any


class DivertedStream(TextIOBase):
    """A stream in front of another: offers each text to a function, and passes on what that does not take."""

    def __init__(self, stream: Any, take: Callable[[str], bool]) -> None:
        self.stream = stream
        """The stream behind it."""
        self._take = take
        self._process = os.getpid()

    def write(self, text: str) -> int:
        """Write to what takes the text, or else to the stream."""
        # A forked process has a copy of what takes it, of which this one learns nothing.
        if type(text) is not str or os.getpid() != self._process or not self._take(text):
            self.stream.write(text)
        return len(text)

    def writelines(self, lines: Any) -> None:
        """Write each of the texts."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Flush the stream."""
        self.stream.flush()

    def close(self) -> None:
        """Leave the stream open: it is the kernel's."""

    def writable(self) -> bool:
        """Return that it can be written to."""
        return True

    def isatty(self) -> bool:
        """Return what the stream says."""
        return bool(self.stream.isatty())

    def fileno(self) -> int:
        """Return the file descriptor of the stream, to which other processes write."""
        return int(self.stream.fileno())

    @property
    def encoding(self) -> str:  # type: ignore[override]  # that of the stream
        """The encoding of the stream."""
        return str(self.stream.encoding)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)
